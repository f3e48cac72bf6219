package ledger

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A transfer to somebody who had paid before may be a refund, whichever of the two was read first.
func TestRefundCandidatesGoToThoseWhoHadPaid(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		l, _ := d.ledger(t)
		paid := chainSighting("0xa", StatusConfirmed)
		paid.Payer, paid.OccurredAt = "0xpayer", 1000
		out := func(id, to string, at int64) Outgoing {
			return Outgoing{
				Offer: paid.Offer, Account: paid.Account, ExternalID: id, Transaction: "0x" + id, To: to, Asset: paid.Asset, Amount: 7, OccurredAt: at,
			}
		}
		candidates := func() (ids []string) {
			list, err := l.RefundCandidates(t.Context(), paid.Offer, 10)
			require.NoError(t, err)
			for _, o := range list {
				ids = append(ids, o.ExternalID)
			}
			return ids
		}
		require.NoError(t, l.NoteOutgoing(t.Context(), out("a", "0xpayer", 2000), out("b", "0xpayer", 999), out("c", "0xother", 2000), out("d", "", 2000)))
		require.Empty(t, candidates())
		mustRecord(t, l, paid)
		require.Equal(t, []string{"a"}, candidates())
		require.NoError(t, l.NoteOutgoing(t.Context(), out("a", "0xpayer", 2000), out("e", "0xpayer", 1000)))
		require.ElementsMatch(t, []string{"a", "e"}, candidates(), "the same again changes nothing")

		refund := paid
		refund.Addendum, refund.EvidenceLevel = true, LevelManual
		refund.Returns = []Return{{ID: RefundedBy("0xa"), Kind: ReturnRefund, Amount: 7, Gone: true}}
		mustRecord(t, l, refund)
		require.Equal(t, []string{"e"}, candidates(), "a refund that names it is entered")
	})
}
