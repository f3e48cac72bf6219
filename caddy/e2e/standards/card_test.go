package standards

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v85"
	"github.com/stripe/stripe-go/v85/webhook"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	observer "github.com/payoffer/caddy-pay-offer/payoffer/observe/card"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// comparisons is how many generated deliveries are given to both.
const comparisons = 20_000

const secret = "whsec_test_0123456789abcdef"

// sign makes the header by the processor's library.
func sign(body []byte, key string, at time.Time) string {
	return webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: body, Secret: key, Timestamp: at}).Header
}

func TestVerifyMatchesStripeLibrary(t *testing.T) {
	rng := rand.New(rand.NewPCG(85, 0))
	accepted := 0
	for i := range comparisons {
		now := time.Now()
		body := fmt.Appendf(nil, `{"id":"evt_%d","object":"event","note":"%x"}`, i, rng.Uint64())
		header := sign(body, secret, now.Add(-age(rng)))
		what := "unchanged"
		if rng.IntN(3) > 0 {
			what, header, body = change(rng, header, body, now)
		}
		theirs := webhook.ValidatePayload(body, header, secret)
		ours := observer.Verify(secret, header, body, now)
		require.Equal(t, theirs == nil, ours == nil, "%s: theirs %v, ours %v, header %q", what, theirs, ours, header)
		if ours == nil {
			accepted++
		}
	}
	require.Greater(t, accepted, comparisons/4)
	require.Less(t, accepted, comparisons*3/4)
}

// age is how old a signature is: clearly within five minutes, or clearly not.
func age(rng *rand.Rand) time.Duration {
	if rng.IntN(4) == 0 {
		return 310*time.Second + time.Duration(rng.Int64N(int64(48*time.Hour)))
	}
	return time.Duration(rng.Int64N(int64(290 * time.Second)))
}

// change alters a delivery in a way on which both are to agree.
func change(rng *rand.Rand, header string, body []byte, now time.Time) (what, newHeader string, newBody []byte) {
	timestamp, signature, _ := strings.Cut(header, ",")
	switch rng.IntN(11) {
	case 0:
		altered := append([]byte(nil), body...)
		altered[rng.IntN(len(altered))] ^= 1 << rng.IntN(8)
		return "a bit of the body", header, altered
	case 1:
		return "another time", fmt.Sprintf("t=%d,%s", now.Unix()-299+rng.Int64N(290), signature), body
	case 2:
		return "another secret", sign(body, "whsec_other_0123456789abcdef", now), body
	case 3:
		_, other, _ := strings.Cut(sign(body, "whsec_other_0123456789abcdef", now), ",")
		return "rotation", timestamp + "," + other + "," + signature, body
	case 4:
		return "a scheme more", header + ",v0=" + strings.Repeat("0", 64), body
	case 5:
		return "another scheme", strings.Replace(header, "v1=", "v0=", 1), body
	case 6:
		return "no time", signature, body
	case 7:
		return "signature cut short", header[:len(header)-1-rng.IntN(63)], body
	case 8:
		return "a part without a value", header + ",v1", body
	case 9:
		return "signature first", signature + "," + timestamp, body
	default:
		return "not a time", "t=now," + signature, body
	}
}

// TestVerifyStricterThanStripeLibrary holds the differences that are
// meant: everything here is accepted by the library.
func TestVerifyStricterThanStripeLibrary(t *testing.T) {
	now := time.Now()
	body := []byte(`{"id":"evt_1","object":"event"}`)
	good := sign(body, secret, now)
	timestamp, signature, _ := strings.Cut(good, ",")
	for name, test := range map[string]struct{ secret, header string }{
		"signed a day ahead":          {secret, sign(body, secret, now.Add(24*time.Hour))},
		"signed six minutes ahead":    {secret, sign(body, secret, now.Add(6*time.Minute))},
		"an empty secret":             {"", sign(body, "", now)},
		"two times, the last genuine": {secret, "t=1," + good},
		"a time with a plus sign":     {secret, strings.Replace(good, "t=", "t=+", 1)},
		"signature in upper case":     {secret, timestamp + ",v1=" + strings.ToUpper(signature[3:])},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, webhook.ValidatePayload(body, test.header, test.secret), "the library became stricter")
			require.Error(t, observer.Verify(test.secret, test.header, body, now))
		})
	}
}

// recorder is a ledger that keeps the observations.
type recorder struct {
	*ledger.Ledger
	seen []ledger.Observation
}

func (r *recorder) Record(_ context.Context, _ *ledger.Cursor, seen ...ledger.Observation) ([]ledger.Receipt, error) {
	r.seen = append(r.seen, seen...)
	return nil, nil
}

// TestEventsMatchStripeLibrary signs, verifies and decodes events
// by the library, and compares what was recorded.
func TestEventsMatchStripeLibrary(t *testing.T) {
	rng, l := rand.New(rand.NewPCG(85, 1)), openLedger(t)
	for i := range 2_000 {
		recorder := &recorder{Ledger: l}
		observer, err := observer.New(observer.Config{
			OfferID: "shop", Account: account, Rail: "card", PaymentLink: "plink_1", Secret: secret, Ledger: recorder,
		})
		require.NoError(t, err)
		body := randomEvent(rng)
		header := sign(body, secret, time.Now())
		event, err := webhook.ConstructEventWithOptions(body, header, secret, webhook.ConstructEventOptions{IgnoreAPIVersionMismatch: true})
		require.NoError(t, err)

		verdict, detail := observer.Receive(t.Context(), observe.Delivery{
			Header: http.Header{"Stripe-Signature": {header}}, Body: body,
		})
		if verdict == observe.Ignored {
			require.Contains(t, []stripe.EventType{"charge.dispute.created"}, event.Type, detail)
			continue
		}
		require.Equal(t, observe.Recorded, verdict, "%d: %s: %s", i, event.Type, detail)
		require.Len(t, recorder.seen, 1)
		requireSame(t, event, recorder.seen[0])
	}
}

// randomEvent is one event of a random life of a payment.
func randomEvent(rng *rand.Rand) []byte {
	p := payoffertest.NewProcessor("key", time.Now)
	what := rng.IntN(8)
	if what > 5 {
		p.Capture(p.Authorise("plink_1", 1_000+rng.Int64N(1_000)), 1_000)
		return p.Events()[len(p.Events())-1]
	}
	intent := p.Pay("plink_1", 1+rng.Int64N(1_000_000), what < 2)
	switch what {
	case 0:
		p.Settle(intent)
	case 1:
		p.Fail(intent)
	case 2:
		p.Refund(intent, 1+rng.Int64N(1_000), "succeeded")
	case 3:
		p.UpdateRefund(p.Refund(intent, 1, "pending"), "failed")
	case 4:
		p.CloseDispute(p.Dispute(intent, false), rng.IntN(2) == 0)
	}
	events := p.Events()
	return events[rng.IntN(len(events))]
}

func requireSame(t *testing.T, event stripe.Event, s ledger.Observation) {
	t.Helper()
	decode := func(into any) { require.NoError(t, json.Unmarshal(event.Data.Raw, into)) }
	kind := string(event.Type)
	switch {
	case strings.HasPrefix(kind, "checkout."):
		var session stripe.CheckoutSession
		decode(&session)
		require.Equal(t, session.PaymentIntent.ID, s.ExternalID)
		require.Equal(t, session.AmountTotal, s.Amount)
		require.Equal(t, strings.ToUpper(string(session.Currency)), s.Asset)
		require.Equal(t, event.Created, s.OccurredAt)
		require.Equal(t, session.PaymentStatus == stripe.CheckoutSessionPaymentStatusPaid, s.State == ledger.StatusConfirmed)
		checkout := ledger.Checkout{Session: session.ID, Event: event.ID}
		if s.Asset == "USD" {
			checkout.Subtotal = session.AmountSubtotal
		}
		require.JSONEq(t, string(offer.JSON(checkout)), string(s.Evidence))
	case kind == "charge.refunded":
		var charge stripe.Charge
		decode(&charge)
		require.Equal(t, charge.PaymentIntent.ID, s.ExternalID)
		require.Equal(t, charge.AmountRefunded, s.Returns[0].Amount)
	case kind == "charge.captured":
		var charge stripe.Charge
		decode(&charge)
		require.Equal(t, charge.PaymentIntent.ID, s.ExternalID)
		require.Equal(t, ledger.ReturnCapture, s.Returns[len(s.Returns)-1].Kind)
		require.Equal(t, charge.Amount-charge.AmountCaptured > 0, len(s.Returns) == 2)
	case strings.HasPrefix(kind, "refund."):
		var refund stripe.Refund
		decode(&refund)
		require.Equal(t, refund.PaymentIntent.ID, s.ExternalID)
		require.Equal(t, refund.Amount, s.Returns[0].Amount)
		require.Equal(t, refund.Status == stripe.RefundStatusSucceeded, s.Returns[0].Gone)
	default:
		var dispute stripe.Dispute
		decode(&dispute)
		require.Equal(t, dispute.PaymentIntent.ID, s.ExternalID)
		require.Equal(t, dispute.ID, s.Returns[0].ID)
		require.Equal(t, dispute.Status != stripe.DisputeStatusWon, s.Returns[0].Gone)
		if s.Returns[0].Gone {
			require.Equal(t, dispute.Amount, s.Returns[0].Amount)
		}
	}
}

// TestSignDeliveryMatchesStripeLibrary holds the stand-in to the library.
func TestSignDeliveryMatchesStripeLibrary(t *testing.T) {
	rng := rand.New(rand.NewPCG(85, 2))
	for range 1_000 {
		body, key := fmt.Appendf(nil, "%x", rng.Uint64()), hex.EncodeToString([]byte{byte(rng.Uint32())})
		at := time.Unix(rng.Int64N(1<<33), 0)
		require.Equal(t, sign(body, key, at), payoffertest.SignDelivery(body, at, key))
	}
}

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

// TestDocumentedEventsMatchStripeLibrary gives a payment, and then each event that the documentation asks the
// operator to send, with every member that the library knows, before and after the payment.
func TestDocumentedEventsMatchStripeLibrary(t *testing.T) {
	page := lab.Must(os.ReadFile("../../../payoffer/docs/guides/stripe.md"))(t)
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
				observer, err := observer.New(observer.Config{OfferID: "shop", Account: account, Rail: "card", PaymentLink: "plink_1", Secret: secret, Ledger: book})
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
	rows := lab.Must(book.Receipts(t.Context(), "shop", 0, 100))(t)
	found := map[string]outcome{}
	for _, row := range rows {
		found[row.ExternalID] = outcome{row.Status, row.Amount, row.Refunded}
	}
	return found
}
