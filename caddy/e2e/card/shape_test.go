package card

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v85"
	"github.com/stripe/stripe-go/v85/webhook"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/card"
)

const (
	account = "stripe/plink_1"
)

// outcome is what a receipt comes to.
type outcome struct {
	Status           ledger.Status
	Amount, Refunded int64
}

// told is an event as the library makes it, with an object of its types, in which what the API does not expand is an id.
type told struct {
	object any
	ids    map[string]any
	// want is the receipt after the event came to a payment of 42 USD that was paid, or only begun.
	begun bool
	want  outcome
}

// events are those that the documentation names.
func events() map[string]told {
	session := func(status stripe.CheckoutSessionPaymentStatus) *stripe.CheckoutSession {
		return &stripe.CheckoutSession{
			ID: "cs_live_1", Object: "checkout.session", Mode: stripe.CheckoutSessionModePayment, Status: stripe.CheckoutSessionStatusComplete,
			PaymentStatus: status, AmountTotal: 4200, AmountSubtotal: 4200, Currency: stripe.CurrencyUSD, Livemode: true, Created: 1,
		}
	}
	refund := func(status stripe.RefundStatus) *stripe.Refund {
		return &stripe.Refund{ID: "re_1", Object: "refund", Amount: 1000, Currency: stripe.CurrencyUSD, Status: status, Created: time.Now().Unix()}
	}
	dispute := func(status stripe.DisputeStatus, moved ...int64) *stripe.Dispute {
		d := &stripe.Dispute{
			ID: "du_1", Object: "dispute", Amount: 1500, Currency: stripe.CurrencyUSD, Status: status, Livemode: true, Created: time.Now().Unix(),
			BalanceTransactions: []*stripe.BalanceTransaction{},
		}
		for _, amount := range moved {
			d.BalanceTransactions = append(d.BalanceTransactions, &stripe.BalanceTransaction{
				ID: "txn_1", Object: "balance_transaction", Amount: amount, Fee: 1500, Net: amount - 1500, Currency: stripe.CurrencyUSD, Created: time.Now().Unix(),
			})
		}
		return d
	}
	checkout := map[string]any{"payment_intent": "pi_1", "payment_link": "plink_1", "customer": nil}
	charge := map[string]any{"payment_intent": "pi_1", "charge": "ch_1", "balance_transaction": "txn_1"}
	return map[string]told{
		"checkout.session.completed":               {session(stripe.CheckoutSessionPaymentStatusPaid), checkout, true, outcome{ledger.StatusConfirmed, 4200, 0}},
		"checkout.session.async_payment_succeeded": {session(stripe.CheckoutSessionPaymentStatusPaid), checkout, true, outcome{ledger.StatusConfirmed, 4200, 0}},
		"checkout.session.async_payment_failed":    {session(stripe.CheckoutSessionPaymentStatusUnpaid), checkout, true, outcome{ledger.StatusDropped, 4200, 0}},
		"refund.created":                           {refund(stripe.RefundStatusSucceeded), charge, false, outcome{ledger.StatusConfirmed, 4200, 1000}},
		"refund.updated":                           {refund(stripe.RefundStatusPending), charge, false, outcome{ledger.StatusConfirmed, 4200, 0}},
		"refund.failed":                            {refund(stripe.RefundStatusFailed), charge, false, outcome{ledger.StatusConfirmed, 4200, 0}},
		"charge.dispute.funds_withdrawn":           {dispute(stripe.DisputeStatusNeedsResponse, -1500), charge, false, outcome{ledger.StatusConfirmed, 4200, 1500}},
		"charge.dispute.funds_reinstated":          {dispute(stripe.DisputeStatusWon, -1500, 1500), charge, false, outcome{ledger.StatusConfirmed, 4200, 0}},
		"charge.dispute.closed":                    {dispute(stripe.DisputeStatusLost, -1500), charge, false, outcome{ledger.StatusConfirmed, 4200, 1500}},
		"charge.captured": {&stripe.Charge{
			ID: "ch_1", Object: "charge", Amount: 4200, AmountCaptured: 4000, AmountRefunded: 200, Captured: true, Paid: true,
			Currency: stripe.CurrencyUSD, Livemode: true, Status: stripe.ChargeStatusSucceeded, Created: 1,
		}, charge, true, outcome{ledger.StatusConfirmed, 4200, 200}},
	}
}

// body is an event of the library's API version, which its own reader takes without complaint.
func body(t *testing.T, id, kind string, d told) (event []byte, header string) {
	t.Helper()
	object := map[string]any{}
	encoded, err := json.Marshal(d.object)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(encoded, &object))
	for name, id := range d.ids {
		if _, known := object[name]; known {
			object[name] = id
		}
	}
	event, err = json.Marshal(map[string]any{
		"id": id, "object": "event", "api_version": stripe.APIVersion, "created": time.Now().Unix(), "livemode": true, "pending_webhooks": 1,
		"request": map[string]any{"id": nil, "idempotency_key": nil}, "type": kind, "data": map[string]any{"object": object},
	})
	require.NoError(t, err)
	header = sign(event, secret, time.Now())
	_, err = webhook.ConstructEvent(event, header, secret)
	require.NoError(t, err)
	return event, header
}

// TestEveryEventOfTheDocumentationIsReadInTheShapesOfTheLibrary gives a payment, and then each event that the documentation asks the
// operator to send, with every member that the library knows, before and after the payment.
func TestEveryEventOfTheDocumentationIsReadInTheShapesOfTheLibrary(t *testing.T) {
	page, err := os.ReadFile("../../../payoffer/docs/guides/stripe.md")
	require.NoError(t, err)
	named := map[string]bool{}
	for _, kind := range regexp.MustCompile("`((?:checkout|refund|charge)\\.[a-z_.]+)`").FindAllSubmatch(page, -1) {
		named[string(kind[1])] = true
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(named)), slices.Collect(maps.Keys(events())))
	for kind, event := range events() {
		for name, order := range map[string][]int{"after its payment": {0, 1}, "before its payment": {1, 0}, "twice": {1, 0, 1, 0}} {
			t.Run(kind+" "+name, func(t *testing.T) {
				first := events()["checkout.session.completed"]
				if event.begun {
					first.object.(*stripe.CheckoutSession).PaymentStatus = stripe.CheckoutSessionPaymentStatusUnpaid
				}
				book := openLedger(t)
				observer, err := card.New(card.Config{OfferID: "shop", Account: account, Rail: "card", PaymentLink: "plink_1", Secret: secret, Ledger: book})
				require.NoError(t, err)
				for _, i := range order {
					delivered, header := body(t, "evt_0", "checkout.session.completed", first)
					if i == 1 {
						delivered, header = body(t, "evt_1", kind, event)
					}
					verdict, detail := observer.Receive(t.Context(), observe.Delivery{Header: http.Header{"Stripe-Signature": {header}}, Body: delivered})
					require.Equal(t, observe.Recorded, verdict, detail)
				}
				require.Equal(t, map[string]outcome{"pi_1": event.want}, outcomes(t, book))
			})
		}
	}
}

// openLedger is a new ledger that knows the account.
func openLedger(t *testing.T) *ledger.Ledger {
	t.Helper()
	book := ledger.NewSQLite(filepath.Join(t.TempDir(), "ledger.db"), time.Now)
	require.NoError(t, book.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	require.NoError(t, book.Register(t.Context(), ledger.Account{Offer: "shop", ID: account, Rail: "card", Since: time.Now().Add(-time.Hour).Unix()}))
	return book
}

func outcomes(t *testing.T, book *ledger.Ledger) map[string]outcome {
	t.Helper()
	rows, err := book.Receipts(t.Context(), "shop", 0, 100)
	require.NoError(t, err)
	found := map[string]outcome{}
	for _, row := range rows {
		found[row.ExternalID] = outcome{row.Status, row.Amount, row.Refunded}
	}
	return found
}
