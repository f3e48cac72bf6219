package ledger

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithdrawnIntentIsForgotten(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		i := testIntent("0xaa", "0x01")
		i.PaymentID = "pid"
		for range 2 {
			require.NoError(t, l.InsertIntent(t.Context(), i))
			require.NoError(t, l.WithdrawIntent(t.Context(), i.IntentKey, i.Owner))
			_, found := find(l.Intent(t.Context(), i.IntentKey))(t)
			require.False(t, found)
			totals := must(l.Totals(t.Context(), testOffer))(t)
			require.Empty(t, totals)
			requireConsistent(t, l)
		}
		other := testIntent("0xaa", "0x02")
		other.PaymentID = "pid"
		require.NoError(t, l.InsertIntent(t.Context(), other), "neither the payer nor the identifier is held")
	})
}

func TestIntentThatMayHaveBeenSentIsNeitherWithdrawnNorMoved(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		ctx := t.Context()
		for name, c := range map[string]struct {
			happened func(*Ledger, IntentKey) error
			owner    string
			want     error
		}{
			"of another owner": {func(*Ledger, IntentKey) error { return nil }, "other", errLeaseHeld},
			"settled":          {func(l *Ledger, k IntentKey) error { return l.SettleIntent(ctx, k, "", nil, "chain") }, "attempt-1", ErrIntentState},
			"refused":          {func(l *Ledger, k IntentKey) error { return l.RefuseIntent(ctx, k, "expired") }, "attempt-1", ErrIntentState},
			"with a transaction": {func(l *Ledger, k IntentKey) error {
				return l.UpdateOpenIntent(ctx, k, "attempt-1", 9_000, "0x1", "settlement_pending")
			}, "attempt-1", ErrIntentState},
			"reopened": {func(l *Ledger, k IntentKey) error {
				if err := l.SettleIntent(ctx, k, "", nil, EvidenceFacilitator); err != nil {
					return err
				}
				return l.ReopenIntent(ctx, k, "reorg")
			}, "", ErrIntentState},
		} {
			t.Run(name, func(t *testing.T) {
				l, _ := d.ledger(t)
				i := testIntent("0xaa", "0x01")
				i.PaymentID = "pid"
				require.NoError(t, l.InsertIntent(ctx, i))
				require.NoError(t, c.happened(l, i.IntentKey))
				before := dump(t, l)
				require.ErrorIs(t, l.WithdrawIntent(ctx, i.IntentKey, c.owner), c.want)
				require.ErrorIs(t, l.MoveIntent(ctx, i.IntentKey, c.owner, "second"), c.want)
				require.Equal(t, before, dump(t, l))
				requireConsistent(t, l)
			})
		}
		l, _ := d.ledger(t)
		require.ErrorIs(t, l.WithdrawIntent(ctx, testIntent("0xaa", "0x01").IntentKey, ""), ErrNoIntent)
		require.ErrorIs(t, l.MoveIntent(ctx, testIntent("0xaa", "0x01").IntentKey, "", "second"), ErrNoIntent)
	})
}
