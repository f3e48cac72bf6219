package card

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// row is the receipt of a payment.
func (r *rig) row(t testing.TB, intent string) ledger.Receipt {
	t.Helper()
	row, found, err := r.db.Receipt(t.Context(), "shop", testAccount, intent)
	require.NoError(t, err)
	require.True(t, found)
	return row
}

// requireEverywhere checks the receipt after webhooks, after the list of events, and after the list of payments, each
// on a new ledger.
func requireEverywhere(t *testing.T, live func(r *rig) (intent string), check func(t *testing.T, row ledger.Receipt)) {
	t.Helper()
	for name, read := range map[string]func(t *testing.T, r *rig){
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
		t.Run(name, func(t *testing.T) {
			r := newReadRig(t, nil)
			intent := live(r)
			r.clock.pass(time.Minute)
			read(t, r)
			check(t, r.row(t, intent))
		})
	}
}

func TestADisputeSubtractsTheDisputedAmount(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		live func(r *rig) string
		want outcome
	}{
		"a part": {func(r *rig) string {
			intent := r.processor.Pay(testLink, 4200, false)
			r.processor.DisputePart(intent, "usd", 1000)
			return intent
		}, outcome{ledger.StatusConfirmed, 4200, 1000}},
		"a part, lost": {func(r *rig) string {
			intent := r.processor.Pay(testLink, 4200, false)
			r.clock.pass(time.Hour)
			r.processor.CloseDispute(r.processor.DisputePart(intent, "usd", 1000), false)
			return intent
		}, outcome{ledger.StatusConfirmed, 4200, 1000}},
		"won after a refund of a part": {func(r *rig) string {
			intent := r.processor.Pay(testLink, 4200, false)
			r.processor.Refund(intent, 700, "succeeded")
			r.processor.CloseDispute(r.processor.DisputePart(intent, "usd", 3500), true)
			return intent
		}, outcome{ledger.StatusConfirmed, 4200, 700}},
		"what a refund left": {func(r *rig) string {
			intent := r.processor.Pay(testLink, 4200, false)
			r.processor.Refund(intent, 700, "succeeded")
			r.processor.DisputePart(intent, "usd", 3500)
			return intent
		}, outcome{ledger.StatusReversed, 4200, 700}},
		"in another currency": {func(r *rig) string {
			intent := r.processor.Pay(testLink, 4200, false)
			r.processor.DisputePart(intent, "eur", 1000)
			return intent
		}, outcome{ledger.StatusReversed, 4200, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			requireEverywhere(t, test.live, func(t *testing.T, row ledger.Receipt) {
				require.Equal(t, test.want, outcome{row.Status, row.Amount, row.Refunded})
			})
		})
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
	require.Equal(t, outcome{ledger.StatusConfirmed, 3900, 900}, outcome{row.Status, row.Amount, row.Refunded})
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

// TestACaptureConfirms: what is only authorised is seen, and no event of a checkout
// tells that its money was taken.
func TestACaptureConfirms(t *testing.T) {
	t.Parallel()
	for captured, want := range map[int64]outcome{
		0:    {ledger.StatusSeen, 4200, 0},
		4200: {ledger.StatusConfirmed, 4200, 0},
		2000: {ledger.StatusConfirmed, 4200, 2200},
	} {
		t.Run(fmt.Sprint(captured), func(t *testing.T) {
			requireEverywhere(t, func(r *rig) string {
				intent := r.processor.Authorise(testLink, 4200)
				r.clock.pass(2 * day)
				if captured > 0 {
					r.processor.Capture(intent, captured)
				}
				return intent
			}, func(t *testing.T, row ledger.Receipt) {
				require.Equal(t, want, outcome{row.Status, row.Amount, row.Refunded})
			})
		})
	}
	requireEverywhere(t, func(r *rig) string {
		intent := r.processor.Authorise(testLink, 4200)
		r.processor.Capture(intent, 2000)
		r.clock.pass(time.Hour)
		r.processor.Refund(intent, 500, "succeeded")
		return intent
	}, func(t *testing.T, row ledger.Receipt) {
		require.Equal(t, outcome{ledger.StatusConfirmed, 4200, 2700}, outcome{row.Status, row.Amount, row.Refunded})
	})
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
	row := r.row(t, intent)
	require.Equal(t, outcome{ledger.StatusConfirmed, 4200, 2200}, outcome{row.Status, row.Amount, row.Refunded})
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
