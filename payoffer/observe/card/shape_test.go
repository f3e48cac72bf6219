package card

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// row is the receipt of a payment.
func (r *rig) row(t testing.TB, intent string) ledger.Receipt {
	t.Helper()
	row, found, err := r.db.Receipt(t.Context(), "shop", testAccount, intent)
	require.NoError(t, err)
	require.True(t, found)
	return row
}

// outcome is what the receipt of a payment comes to.
func (r *rig) outcome(t testing.TB, intent string) outcome {
	t.Helper()
	row := r.row(t, intent)
	return outcome{row.Status, row.Amount, row.Refunded}
}

// TestALifeEndsTheSameHoweverItIsRead: by webhooks, by the list of events and by the list of payments, each on a new
// ledger. What is only authorised is seen, and no event of a checkout tells that its money was taken.
func TestALifeEndsTheSameHoweverItIsRead(t *testing.T) {
	t.Parallel()
	const paid, authorised = false, true
	for name, test := range map[string]struct {
		authorised bool
		live       func(p *payoffertest.Processor, intent string, later func())
		want       outcome
	}{
		"a part is disputed": {paid, func(p *payoffertest.Processor, intent string, _ func()) {
			p.DisputePart(intent, "usd", 1000)
		}, outcome{ledger.StatusConfirmed, 4200, 1000}},
		"a part is disputed and lost": {paid, func(p *payoffertest.Processor, intent string, later func()) {
			later()
			p.CloseDispute(p.DisputePart(intent, "usd", 1000), false)
		}, outcome{ledger.StatusConfirmed, 4200, 1000}},
		"a dispute is won after a refund of a part": {paid, func(p *payoffertest.Processor, intent string, _ func()) {
			p.Refund(intent, 700, "succeeded")
			p.CloseDispute(p.DisputePart(intent, "usd", 3500), true)
		}, outcome{ledger.StatusConfirmed, 4200, 700}},
		"what a refund left is disputed": {paid, func(p *payoffertest.Processor, intent string, _ func()) {
			p.Refund(intent, 700, "succeeded")
			p.DisputePart(intent, "usd", 3500)
		}, outcome{ledger.StatusReversed, 4200, 700}},
		"a dispute in another currency": {paid, func(p *payoffertest.Processor, intent string, _ func()) {
			p.DisputePart(intent, "eur", 1000)
		}, outcome{ledger.StatusReversed, 4200, 0}},
		"not captured": {authorised, func(*payoffertest.Processor, string, func()) {}, outcome{ledger.StatusSeen, 4200, 0}},
		"captured": {authorised, func(p *payoffertest.Processor, intent string, _ func()) {
			p.Capture(intent, 4200)
		}, outcome{ledger.StatusConfirmed, 4200, 0}},
		"a part is captured": {authorised, func(p *payoffertest.Processor, intent string, _ func()) {
			p.Capture(intent, 2000)
		}, outcome{ledger.StatusConfirmed, 4200, 2200}},
		"a part is captured, and some of it refunded": {authorised, func(p *payoffertest.Processor, intent string, later func()) {
			p.Capture(intent, 2000)
			later()
			p.Refund(intent, 500, "succeeded")
		}, outcome{ledger.StatusConfirmed, 4200, 2700}},
	} {
		for way, read := range map[string]func(t *testing.T, r *rig){
			"webhooks": func(t *testing.T, r *rig) { r.deliverAll(t, 0) },
			"webhooks in reverse": func(t *testing.T, r *rig) {
				events := r.processor.Events()
				for i := range events {
					r.deliver(t, events[len(events)-1-i])
				}
			},
			"events":   func(t *testing.T, r *rig) { require.NoError(t, r.try(t)) },
			"payments": func(t *testing.T, r *rig) { r.clock.pass(40 * day); require.NoError(t, r.observer(t, nil).try(t)) },
			"all": func(t *testing.T, r *rig) {
				r.deliverAll(t, 0)
				require.NoError(t, r.try(t))
				r.clock.pass(40 * day)
				require.NoError(t, r.observer(t, nil).try(t))
				r.deliverAll(t, 0)
			},
		} {
			t.Run(name+", by "+way, func(t *testing.T) {
				r := newReadRig(t, nil)
				var intent string
				if test.authorised {
					intent = r.processor.Authorise(testLink, 4200)
					r.clock.pass(2 * day)
				} else {
					intent = r.processor.Pay(testLink, 4200, false)
				}
				test.live(r.processor, intent, func() { r.clock.pass(time.Hour) })
				r.clock.pass(time.Minute)
				read(t, r)
				require.Equal(t, test.want, r.outcome(t, intent))
			})
		}
	}
}

// TestADisputeOfAnotherCurrencyFollowsItsPayment: the part of a payment in euros is
// one in euros, once the payment is known.
func TestADisputeOfAnotherCurrencyFollowsItsPayment(t *testing.T) {
	t.Parallel()
	r := newRig(t, withoutKey)
	intent := r.processor.PayIn("eur", testLink, 3900, false)
	r.processor.DisputePart(intent, "eur", 900)
	r.deliverAll(t, 0)
	row := r.row(t, intent)
	require.Equal(t, outcome{ledger.StatusConfirmed, 3900, 900}, r.outcome(t, intent))
	require.Equal(t, "EUR", row.Asset)
	require.Nil(t, row.USDCents)

	other := r.processor.PayIn("eur", testLink, 3900, false)
	r.processor.DisputePart(other, "usd", 900)
	r.deliverAll(t, 0)
	require.Equal(t, ledger.StatusReversed, r.row(t, other).Status)
}

// TestADelayedPaymentIsOfTheDayOnWhichItWasPaid, and a checkout that was opened
// before the first start counts when it was paid after it.
func TestADelayedPaymentIsOfTheDayOnWhichItWasPaid(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(r *rig){
		"webhooks": func(r *rig) { r.deliverAll(t, 0); r.deliverAll(t, 0) },
		"the last webhook alone": func(r *rig) {
			events := r.processor.Events()
			r.deliver(t, events[len(events)-1])
		},
		"reading back":                func(r *rig) { require.NoError(t, r.try(t)) },
		"reading back to the webhook": func(r *rig) { r.deliverAll(t, 0); require.NoError(t, r.try(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			before := r.processor.Pay(testLink, 4200, true) // a day before the first start
			r.clock.pass(day)
			r.Observer = r.observer(t, nil)
			require.NoError(t, r.try(t))
			intent := r.processor.Pay(testLink, 4200, true)
			r.clock.pass(4 * day)
			r.processor.Settle(before)
			r.processor.Settle(intent)
			paid := r.clock.Now().Unix()
			r.clock.pass(time.Minute)
			read(r)
			if name != "the last webhook alone" {
				require.Equal(t, paid, r.row(t, before).OccurredAt)
			}
			require.Equal(t, paid, r.row(t, intent).OccurredAt)
			require.Equal(t, ledger.StatusConfirmed, r.row(t, intent).Status)
		})
	}
}

// TestWhatWasNotCapturedIsNoMoney, whether or not the processor tells of its refund.
func TestWhatWasNotCapturedIsNoMoney(t *testing.T) {
	t.Parallel()
	r := newRig(t, withoutKey)
	intent := r.processor.Authorise(testLink, 4200)
	r.processor.Capture(intent, 2000)
	for _, body := range r.processor.Events() {
		if !strings.Contains(string(body), "refunded\",") && !strings.Contains(string(body), "refund.created") {
			r.deliver(t, body)
		}
	}
	require.Equal(t, outcome{ledger.StatusConfirmed, 4200, 2200}, r.outcome(t, intent))
}

// TestACaptureOfAnotherProductIsNoReceipt.
func TestACaptureOfAnotherProductIsNoReceipt(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.processor.Capture(r.processor.Authorise("plink_other", 4200), 4200)
	r.deliverAll(t, 0)
	require.NoError(t, r.try(t))
	require.Empty(t, outcomes(t, r.db))
}
