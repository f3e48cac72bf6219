package card

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// What is booked is what is said of it: a refund in another currency is never a part
// of its payment, and of one that is too large no more than was paid is booked. Both
// are told, whichever of refund and payment comes first, and by whatever event.
func TestARefundThatCannotBeIsToldAndNotBooked(t *testing.T) {
	t.Parallel()
	const (
		foreign = "a refund is in another currency than its payment"
		over    = "more was refunded than was paid"
	)
	at := int64(testStart)
	refund := func(currency string, amount int) []byte {
		return eventOf(refundCreated, at, fmt.Sprintf(`{"id":"re_1","amount":%d,"currency":%q,"payment_intent":"pi_1","status":"succeeded","created":%d}`, amount, currency, at))
	}
	total := func(currency string, amount int) []byte {
		return eventOf(chargeRefunded, at, fmt.Sprintf(`{"id":"ch_1","amount_refunded":%d,"currency":%q,"payment_intent":"pi_1"}`, amount, currency))
	}
	captured := func(currency string, amount int) []byte {
		return eventOf(chargeCaptured, at, fmt.Sprintf(`{"id":"ch_1","amount":4200,"amount_captured":%d,"amount_refunded":%d,"currency":%q,"payment_intent":"pi_1"}`, 4200-amount, amount, currency))
	}
	paid := []byte(paidEvent)
	euros := bytes.Replace(paid, []byte(`"currency":"usd"`), []byte(`"currency":"eur"`), 1)
	for name, test := range map[string]struct {
		paid, back []byte
		booked     int64
		status     ledger.Status
		warns      string // where it is recorded
		trouble    string // of the refund that follows its payment
	}{
		"the same currency":                  {paid, refund("usd", 1000), 1000, ledger.StatusConfirmed, "", ""},
		"all of it":                          {paid, refund("usd", 4200), 4200, ledger.StatusRefunded, "", ""},
		"euros of euros":                     {euros, refund("eur", 1000), 1000, ledger.StatusConfirmed, "", ""},
		"euros of dollars":                   {paid, refund("eur", 1000), 0, ledger.StatusConfirmed, foreign, "the refund is in EUR and its payment in USD"},
		"dollars of euros":                   {euros, refund("usd", 4200), 0, ledger.StatusConfirmed, foreign, "the refund is in USD and its payment in EUR"},
		"a sum of euros of dollars":          {paid, total("eur", 1000), 0, ledger.StatusConfirmed, foreign, "the refund is in EUR and its payment in USD"},
		"a sum of dollars":                   {paid, total("usd", 1000), 1000, ledger.StatusConfirmed, "", ""},
		"yen that were not taken of dollars": {paid, captured("jpy", 1000), 0, ledger.StatusConfirmed, foreign, "the refund is in JPY and its payment in USD"},
		"dollars that were not taken":        {paid, captured("usd", 1000), 1000, ledger.StatusConfirmed, "", ""},
		"too much":                           {paid, refund("usd", 9900), 4200, ledger.StatusRefunded, over, ""},
		"too much in a sum":                  {paid, total("usd", 9900), 4200, ledger.StatusRefunded, over, ""},
	} {
		for order, events := range map[string][][]byte{"payment first": {test.paid, test.back}, "refund first": {test.back, test.paid}} {
			t.Run(name+", "+order, func(t *testing.T) {
				t.Parallel()
				var log bytes.Buffer
				r := newRig(t, logged(&log, withoutKey))
				require.NoError(t, r.try(t))
				require.Equal(t, observe.Recorded, r.deliver(t, events[0]))
				verdict := r.deliver(t, events[1])
				receipt, found, err := r.book.Receipt(t.Context(), "shop", testAccount, "pi_1")
				require.NoError(t, err)
				require.True(t, found)
				require.Equal(t, test.booked, receipt.Refunded)
				require.Equal(t, test.status, receipt.Status)
				switch refused := order == "payment first" && test.trouble != ""; {
				case refused:
					require.Equal(t, observe.Malformed, verdict)
					require.Equal(t, observe.ErrMalformed, r.Health().LastError)
					require.Contains(t, log.String(), test.trouble)
				case test.warns == "":
					require.Equal(t, observe.Recorded, verdict)
					require.Empty(t, log.String())
				default:
					require.Equal(t, observe.Recorded, verdict)
					require.Contains(t, log.String(), test.warns)
				}
			})
		}
	}
}
