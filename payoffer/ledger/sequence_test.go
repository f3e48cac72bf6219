package ledger

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

// TestPostgresPaymentsDoNotWaitForEachOther holds one payment before its commit: what others do meanwhile, to the same sums and
// the same history, does not wait for it.
func TestPostgresPaymentsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	all := instances(t, 2)
	paid := testIntent("0xaa", "0x01")
	require.NoError(t, all[0].InsertIntent(t.Context(), paid))
	held, free := make(chan struct{}), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		assert.NoError(t, all[0].transact(t.Context(), func(ctx context.Context, tx *transaction) error {
			s := chainObservation("0xheld", StatusConfirmed)
			s.Intent = &paid.IntentKey
			r := recorder{tx: tx, now: 1_000, delta: accounting.Sums{}, stored: accounting.Sums{}}
			if _, err := r.record(ctx, s); err != nil {
				return err
			}
			addToTotals(tx, r.delta)
			if err := tx.flush(ctx); err != nil {
				return err
			}
			close(held)
			<-free
			return nil
		}))
	})
	<-held
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for n, l := range all {
		other := testIntent(fmt.Sprintf("0x%d", n), "0x01")
		require.NoError(t, l.InsertIntent(ctx, other))
		require.NoError(t, l.SettleIntent(ctx, other.IntentKey, fmt.Sprintf("0x%d", n), []byte(`{}`), EvidenceFacilitator))
		must(l.Record(ctx, nil, chainObservation(fmt.Sprintf("0x%d", n), StatusConfirmed)))(t)
	}
	before := must(all[1].Transitions(ctx, testOffer, 0, 10))(t)
	require.Len(t, before, 2, "what is committed has its number")
	close(free)
	group.Wait()
	after := must(all[1].Transitions(ctx, testOffer, before[1].Seq, 10))(t)
	require.Len(t, after, 1, "what is committed later has a later one")
	requireConsistent(t, all[0])
}
