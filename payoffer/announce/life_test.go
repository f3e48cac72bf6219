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
	d, receiver := newFixture(t), payoffertest.NewReceiver(t)
	a := d.announcer(receiver)
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
	d, receiver := newFixture(t), payoffertest.NewReceiver(t)
	a := d.announcer(receiver)
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
