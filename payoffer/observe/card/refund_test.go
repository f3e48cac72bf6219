package card

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// A refund in another currency is never a part of its payment, a dispute in one is all of it, and of a refund that is
// too large no more than was paid is booked. The log has the former two once, whichever of return and payment comes first.
func TestARefundThatCannotBeIsToldAndNotBooked(t *testing.T) {
	t.Parallel()
	const foreign = "in another currency"
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
	dispute := func(currency string) []byte {
		return eventOf(disputeWithdrawn, at, fmt.Sprintf(`{"id":"dp_1","amount":1000,"currency":%q,"payment_intent":"pi_1","status":"needs_response","created":%d}`, currency, at))
	}
	paid := []byte(paidEvent)
	euros := bytes.Replace(paid, []byte(`"currency":"usd"`), []byte(`"currency":"eur"`), 1)
	for name, test := range map[string]struct {
		paid, back []byte
		booked     int64
		status     ledger.Status
		warns      string
	}{
		"the same currency":                  {paid, refund("usd", 1000), 1000, ledger.StatusConfirmed, ""},
		"all of it":                          {paid, refund("usd", 4200), 4200, ledger.StatusRefunded, ""},
		"euros of euros":                     {euros, refund("eur", 1000), 1000, ledger.StatusConfirmed, ""},
		"euros of dollars":                   {paid, refund("eur", 1000), 0, ledger.StatusConfirmed, `amount="10 EUR"`},
		"dollars of euros":                   {euros, refund("usd", 4200), 0, ledger.StatusConfirmed, `amount="42 USD"`},
		"a sum of euros of dollars":          {paid, total("eur", 1000), 0, ledger.StatusConfirmed, `amount="10 EUR"`},
		"a sum of dollars":                   {paid, total("usd", 1000), 1000, ledger.StatusConfirmed, ""},
		"yen that were not taken of dollars": {paid, captured("jpy", 1000), 0, ledger.StatusConfirmed, `amount="1000 JPY"`},
		"dollars that were not taken":        {paid, captured("usd", 1000), 1000, ledger.StatusConfirmed, ""},
		"a dispute in dollars":               {paid, dispute("usd"), 1000, ledger.StatusConfirmed, ""},
		"a dispute in euros":                 {paid, dispute("eur"), 0, ledger.StatusReversed, "dispute in another currency, its part is unknown"},
		"too much":                           {paid, refund("usd", 9900), 4200, ledger.StatusRefunded, ""},
		"too much in a sum":                  {paid, total("usd", 9900), 4200, ledger.StatusRefunded, ""},
	} {
		for order, events := range map[string][][]byte{"payment first": {test.paid, test.back}, "refund first": {test.back, test.paid}} {
			t.Run(name+", "+order, func(t *testing.T) {
				t.Parallel()
				r := newReadRig(t, withoutKey)
				for _, event := range [][]byte{events[0], events[1], events[1]} {
					require.Equal(t, observe.Recorded, r.deliver(t, event))
				}
				receipt := r.row(t, "pi_1")
				require.Equal(t, test.booked, receipt.Refunded)
				require.Equal(t, test.status, receipt.Status)
				if test.warns == "" {
					require.Empty(t, r.log.String())
					return
				}
				require.Equal(t, 1, strings.Count(r.log.String(), foreign), r.log.String())
				require.Contains(t, r.log.String(), test.warns)
			})
		}
	}
}
