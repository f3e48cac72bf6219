package announce

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

// A disputed payment comes back: the receiver hears of it again, under a higher
// version.
func TestEachPaymentStateIsNotified(t *testing.T) {
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

func TestNotificationHidesOperatorNotes(t *testing.T) {
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
func TestPaymentNotifiedBeforeItsRefund(t *testing.T) {
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
func TestRedactedPaymentKeepsReceiptNumber(t *testing.T) {
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

func TestDeliveryDuringLedgerOutage(t *testing.T) {
	d, receiver, a := listening(t)
	d.outbox.unwritable.Store(true)
	d.pay()
	d.pay()
	for range 3 {
		a.rounds(t.Context())
		d.clock.Pass(pollEvery)
	}
	require.Equal(t, []string{"card:pi_1:1"}, taken(t, receiver), "the next one waits for the position")
	require.Equal(t, "ledger_unavailable", a.health()[0].LastError)
	d.requireLogged(1, "ledger failed")

	d.outbox.unreadable.Store(true)
	a.rounds(t.Context())
	d.outbox.unwritable.Store(false)
	d.outbox.unreadable.Store(false)
	a.rounds(t.Context())
	require.Equal(t, []string{"card:pi_1:1", "card:pi_2:1"}, taken(t, receiver))
	require.Empty(t, a.health()[0].LastError)
	d.requireLogged(1, "ledger works again")
}

// The reference is the ledger's own history.
func TestDeliveryInOrderDespiteFaults(t *testing.T) {
	for seed := range uint64(cases.Of(4, 8, 50)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			d, receiver := newFixture(t), payoffertest.NewReceiver(t)
			random := rand.New(rand.NewPCG(seed, 1))
			a := d.announcer(receiver)
			crashes := 0
			for range 60 {
				d.seen++
				d.record(randomObservation(random))
				receiver.Script(randomReply(random))
				d.outbox.unwritable.Store(random.IntN(4) == 0)
				a.rounds(t.Context())
				d.outbox.unwritable.Store(false)
				d.clock.Pass(time.Duration(random.IntN(400)) * time.Second)
				if random.IntN(6) == 0 {
					crashes++
					d.clock.Pass((leaseFor + 1) * time.Second)
					a = d.announcer(receiver)
				}
			}
			receiver.Script()
			d.after(time.Hour, a)
			requireWholeHistory(t, d, receiver, crashes)
		})
	}
}

// What is recorded between the start and the first round is not taken for what
// a new receiver has missed.
func TestPaymentAfterLoadIsDelivered(t *testing.T) {
	d, receiver := newFixture(t), payoffertest.NewReceiver(t)
	d.pay() // before anybody was told of payments
	config := Config{
		Offer: offer.Offer{Terms: offer.Terms{ID: testOffer}}, Ledger: d.outbox, Owner: "first", Now: d.clock.Now, Transport: receiver.Transport(),
		Endpoints: []Endpoint{Webhook{URL: receiver.URL(), Secrets: []string{testSecret}}},
	}
	first := must(New(config))(t)
	require.NoError(t, Load(t.Context(), first))
	d.pay()
	config.Owner = "second"
	second := must(New(config))(t)
	require.NoError(t, Load(t.Context(), second), "another instance starts meanwhile")
	d.pay()

	first.rounds(t.Context())
	second.rounds(t.Context())

	require.Equal(t, []string{"card:pi_2:1", "card:pi_3:1"}, taken(t, receiver))
}

// What waits for an endpoint that is down is counted whole, and from the start of the next process on.
func TestBacklogCountSurvivesRestart(t *testing.T) {
	d, receiver := newFixture(t), payoffertest.NewReceiver(t)
	receiver.Script(reply{Status: 503})
	before := d.announcer(receiver)
	var paid []ledger.Observation
	for n := range batch + 20 {
		paid = append(paid, cardObservation(fmt.Sprint("pi_", n), ledger.StatusConfirmed))
	}
	d.record(paid...)
	before.rounds(t.Context())
	waiting := EndpointHealth{Host: receiver.Host(), Behind: batch + 20, LastError: "server_error"}
	require.Equal(t, waiting, before.health()[0])

	config := *before.config
	config.Owner = "restarted"
	after := must(New(config))(t)
	require.NoError(t, Load(t.Context(), after))
	waiting.LastError = "" // nothing was tried yet
	require.Equal(t, waiting, after.health()[0])
	d.clock.Pass((leaseFor + 1) * time.Second)
	for _, want := range []time.Duration{0, pollEvery} { // what is more than a batch is due at once
		pause := must(after.subscribers[0].poll(t.Context()))(t)
		require.Equal(t, want, pause)
	}
	require.Len(t, taken(t, receiver), batch+20)
	require.Equal(t, EndpointHealth{Host: receiver.Host()}, after.health()[0])
}

// A server may have a thousand offers.
func TestLoadWritesOnceForAllEndpoints(t *testing.T) {
	d := newFixture(t)
	a, err := New(Config{
		Offer: offer.Offer{Terms: offer.Terms{ID: testOffer}}, Ledger: d.outbox, Owner: "first", Journal: new(journal).logger(), Emit: func(string, map[string]any) error { return nil },
	})
	require.NoError(t, err)
	require.NoError(t, Load(t.Context(), a))
	a.rounds(t.Context())
	require.EqualValues(t, 1, d.outbox.leased.Load())
}

// A receiver that recognizes duplicates by their ids takes what is entered anew
// under a reference of the history that was lost.
func TestEventIDUniqueAfterRestore(t *testing.T) {
	var told []string
	for _, amount := range []int64{1000, 2500} { // before the loss, and after it
		d, receiver, a := listening(t)
		entered := cardObservation("INV-2", ledger.StatusConfirmed)
		entered.Amount = amount
		d.record(entered)
		a.rounds(t.Context())
		require.Equal(t, []string{"card:INV-2:1"}, taken(t, receiver))
		told = append(told, receiver.Requests()[0].Header.Get("webhook-id"))
	}
	require.NotEqual(t, told[0], told[1])
}

// randomObservation is about one of a few movements, so that they have lives.
func randomObservation(random *rand.Rand) ledger.Observation {
	states := []ledger.Status{ledger.StatusSeen, ledger.StatusConfirmed, ledger.StatusDropped}
	return usdcObservation(fmt.Sprintf("0x%02d", random.IntN(8)), states[random.IntN(len(states))])
}

func randomReply(random *rand.Rand) reply {
	replies := []reply{
		{}, {}, {}, {Status: 200, Body: 100}, {Drop: true}, {Status: 503}, {Status: 410}, {Status: 302, Location: "/"},
		{Status: 429, RetryAfter: "30"},
	}
	return replies[random.IntN(len(replies))]
}

// requireWholeHistory compares what was taken with the ledger's transitions:
// all of them, in their order, with nothing repeated but the last one before a
// crash.
func requireWholeHistory(t *testing.T, d *fixture, receiver *payoffertest.Receiver, crashes int) {
	t.Helper()
	transitions := must(d.outbox.Ledger.Transitions(t.Context(), testOffer, 0, 1000))(t)
	require.NotEmpty(t, transitions)
	want := []string{}
	for _, tr := range transitions {
		want = append(want, fmt.Sprintf("usdc:%s:%d", tr.ExternalID, tr.Version))
	}
	got, repeated := []string{}, 0
	bodies := make(map[string]string)
	for _, a := range receiver.Requests() {
		id := a.Header.Get("webhook-id")
		if before, known := bodies[id]; known {
			require.Equal(t, before, string(a.Body), "the same id, another body")
		}
		bodies[id] = string(a.Body)
		switch {
		case !a.Taken:
		case len(got) > 0 && got[len(got)-1] == payoffertest.Untagged(t, id):
			repeated++
		default:
			got = append(got, payoffertest.Untagged(t, id))
		}
	}
	require.Equal(t, want, got)
	require.LessOrEqual(t, repeated, crashes)
}
