package announce

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// A disputed payment comes back: the receiver hears of it again, under a higher
// version.
func TestTheLifeOfAPaymentIsAnnouncedStepByStep(t *testing.T) {
	d, receiver, a := listening(t)
	d.record(cardObservation("pi_1", ledger.StatusSeen))
	d.record(cardObservation("pi_1", ledger.StatusConfirmed))
	for _, r := range []ledger.Return{
		{ID: "re_1", Kind: ledger.ReturnRefund, Amount: 1200, Gone: true, At: 10},
		{ID: "dp_1", Kind: ledger.ReturnReversal, Gone: true, At: 20},
		{ID: "dp_1", Kind: ledger.ReturnReversal, Gone: false, At: 30}, // won
		{ID: "re_1", Kind: ledger.ReturnRefund, Gone: false, At: 40},   // failed
		{ID: "re_2", Kind: ledger.ReturnRefund, Amount: 4200, Gone: true, At: 50},
	} {
		s := cardObservation("pi_1", ledger.StatusConfirmed)
		s.Returns = []ledger.Return{r}
		d.record(s)
		d.record(s) // a second delivery of the same says nothing new
	}
	a.rounds(t.Context())
	require.Equal(t, []string{
		"payment_seen card:pi_1:1 seen refunded=0 counted=false",
		"payment_confirmed card:pi_1:2 confirmed refunded=0 counted=true",
		"payment_refunded card:pi_1:3 confirmed refunded=1200 counted=true",
		"payment_reversed card:pi_1:4 reversed refunded=1200 counted=false",
		"payment_refunded card:pi_1:5 confirmed refunded=1200 counted=true",
		"payment_confirmed card:pi_1:6 confirmed refunded=0 counted=true",
		"payment_refunded card:pi_1:7 refunded refunded=4200 counted=false",
	}, lines(t, receiver))
}

func TestWhatOnlyTheOperatorKnowsStaysWithTheOperator(t *testing.T) {
	d, receiver, a := listening(t)
	manual := cardObservation("INV-1", ledger.StatusConfirmed)
	manual.EvidenceLevel, manual.Note = ledger.LevelManual, "paid by Jane Roe"
	d.record(manual)
	chain := usdcObservation("0xaa", ledger.StatusConfirmed)
	chain.Evidence = json.RawMessage(`{"block":7}`)
	d.record(chain)
	a.rounds(t.Context())
	for _, got := range receiver.Requests() {
		require.NotContains(t, string(got.Body), "Jane")
		require.NotContains(t, string(got.Body), "0xpayer")
		require.NotContains(t, string(got.Body), "block")
	}
	require.Equal(t, []string{
		"payment_confirmed card:INV-1:1 confirmed refunded=0 counted=true",
		"payment_confirmed usdc:eip155:84532:0xaa:0:1 confirmed refunded=0 counted=false", // a test network
	}, lines(t, receiver))
}

func lines(t *testing.T, receiver *payoffertest.Receiver) (all []string) {
	t.Helper()
	for _, got := range receiver.Requests() {
		var payload struct {
			Type string
			Data struct {
				ID, Status, RefundedAtomic string
				Counted                    bool
			}
		}
		require.NoError(t, json.Unmarshal(got.Body, &payload))
		all = append(all, fmt.Sprintf("%s %s %s refunded=%s counted=%v",
			payload.Type, payoffertest.Untagged(t, payload.Data.ID), payload.Data.Status, payload.Data.RefundedAtomic, payload.Data.Counted))
	}
	return all
}

// A refund is announced after its payment, even if the ledger knew the refund first.
func TestAPaymentThatBecomesKnownAfterItsRefundIsAnnouncedFirst(t *testing.T) {
	d, receiver, a := listening(t)
	for _, rail := range []struct {
		name, asset string
		level       ledger.EvidenceLevel
		amount      int64
	}{
		{"usdc", "USDC", ledger.LevelChain, 42_000_000},
		{"bitcoin", "BTC", ledger.LevelChain, 60_000},
		{"card", "USD", ledger.LevelProvider, 4_200},
		{"tip-jar", "USD", ledger.LevelProvider, 4_200},
		{"transfer", "USD", ledger.LevelManual, 4_200},
	} {
		account := "account of " + rail.name
		require.NoError(t, d.outbox.Ledger.Register(t.Context(), ledger.Account{Offer: testOffer, ID: account, Rail: rail.name}))
		for name, back := range map[string]struct {
			ledger.Return
			kind string
		}{
			"part":     {ledger.Return{ID: "re_1", Kind: ledger.ReturnRefund, Amount: rail.amount / 4}, "payment_refunded"},
			"whole":    {ledger.Return{ID: "re_1", Kind: ledger.ReturnRefund, Amount: rail.amount}, "payment_refunded"},
			"reversal": {ledger.Return{ID: "dp_1", Kind: ledger.ReturnReversal}, "payment_reversed"},
		} {
			for _, before := range []bool{false, true} {
				id := fmt.Sprint(name, "-first-", before)
				back.At, back.Gone = 10, true
				payment := ledger.Observation{
					Offer: testOffer, Account: account, Rail: rail.name, ExternalID: id, Asset: rail.asset, Amount: rail.amount,
					State: ledger.StatusConfirmed, EvidenceLevel: rail.level, OccurredAt: 1_799_999_000, Cause: "poll",
					Returns: []ledger.Return{back.Return},
				}
				if before { // the refund is recorded first, without the payment
					refund := payment
					refund.Addendum, refund.EvidenceLevel = true, ledger.LevelManual
					d.record(refund)
					payment.Returns = nil
				}
				known := len(receiver.Requests())
				d.record(payment)
				a.rounds(t.Context())
				got := lines(t, receiver)[known:]
				require.Len(t, got, 2)
				require.Equal(t, fmt.Sprintf("payment_confirmed %s:%s:1 confirmed refunded=0 counted=true", rail.name, id), got[0])
				require.Contains(t, got[1], fmt.Sprintf("%s %s:%s:2 ", back.kind, rail.name, id))
			}
		}
	}
}

// An endpoint that adds up payments by rail and number has the totals of the ledger, also after a redaction renames one.
func TestAPaymentKeepsItsNumberUnderAnotherName(t *testing.T) {
	d, receiver, a := listening(t)
	entered := cardObservation("Jane Doe", ledger.StatusConfirmed)
	entered.EvidenceLevel = ledger.LevelManual
	d.record(entered)
	a.rounds(t.Context())
	_, err := d.outbox.Ledger.Redact(t.Context(), testOffer, cardAccount, "Jane Doe", "redacted-1", "a name")
	require.NoError(t, err)
	refunded := entered
	refunded.ExternalID = "redacted-1"
	refunded.Returns = []ledger.Return{{ID: "r", Kind: ledger.ReturnRefund, Amount: 1000, Gone: true, At: 10}}
	d.record(refunded)
	d.pay()
	a.rounds(t.Context())

	type payment struct {
		Rail   string
		Number int64
	}
	totals := map[payment]int64{}
	for _, got := range receiver.Requests() {
		var body struct {
			Data struct {
				payment
				AmountAtomic, RefundedAtomic int64 `json:",string"`
			}
		}
		require.NoError(t, json.Unmarshal(got.Body, &body))
		totals[body.Data.payment] = body.Data.AmountAtomic - body.Data.RefundedAtomic
	}
	require.Equal(t, map[payment]int64{{"card", 1}: 3200, {"card", 2}: 4200}, totals)
}
