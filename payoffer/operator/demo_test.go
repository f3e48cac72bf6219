package operator

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
)

// A demo has no chain, so that its payments stay claims. Both commands count them.
func TestDemoReceiptsMatchReport(t *testing.T) {
	onEachLedger(t, func(t *testing.T, o *fixture) {
		for nonce, from := range map[string]string{"0x01": "0x1111111111111111111111111111111111111111", "0x02": "0x2222222222222222222222222222222222222222"} {
			i := o.pays(nonce, func(i *ledger.Intent) { i.From = from })
			o.apply(i.IntentKey, accounting.EventClaimed, nonce)
		}
		o.pays("0x03", func(i *ledger.Intent) { i.From = "0x3333333333333333333333333333333333333333" }) // still open
		list := func(before int64) Receipts { return must(o.Receipts(t.Context(), before, 1))(t) }
		require.Empty(t, list(0).Receipts, "a real offer waits for the chain")

		o.Offer.Demo = true
		summary := report.Summarize(o.Offer, must(o.book.Totals(t.Context(), testOffer))(t), nil, o.Now())
		page := list(0)
		require.EqualValues(t, 2, summary.Test.Count)
		require.Len(t, page.Receipts, int(summary.Test.Count))
		require.Nil(t, page.Next)
		require.Empty(t, list(7).Receipts, "they are of the first page")
		for _, r := range page.Receipts {
			require.Equal(t, "claimed", r.Status)
			require.False(t, r.Counted)
			require.Equal(t, o.Page(ledger.Receipt{Account: r.Account, Payer: r.Payer}), r.Page)
		}
	})
}
