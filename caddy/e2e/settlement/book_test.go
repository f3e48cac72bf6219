package settlement

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// errRefused is what a ledger answers that refuses to write.
var errRefused = errors.New("the disk is full")

// book is a ledger at whose calls a test may interfere.
type book struct {
	*ledger.Ledger
	mu            sync.Mutex
	before, after map[string]func() error
}

// openBook opens a ledger of its own for the test.
func openBook(t *testing.T, now func() time.Time) *book {
	t.Helper()
	b := &book{
		Ledger: ledger.NewSQLite(payoffertest.LedgerFile(t), now),
		before: map[string]func() error{}, after: map[string]func() error{},
	}
	require.NoError(t, b.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// on has f run before every call of a method, which fails with f's error and does nothing then. nil ends it.
func (b *book) on(method string, f func() error) { b.set(b.before, method, f) }

// onDone has f run after every call of a method, which succeeds in the ledger and fails for its caller with f's error.
func (b *book) onDone(method string, f func() error) { b.set(b.after, method, f) }

func (b *book) set(hooks map[string]func() error, method string, f func() error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	hooks[method] = f
}

func (b *book) call(hooks map[string]func() error, method string) error {
	b.mu.Lock()
	f := hooks[method]
	b.mu.Unlock()
	if f == nil {
		return nil
	}
	return f()
}

// around runs a call between its hooks.
func (b *book) around(method string, call func() error) error {
	if err := b.call(b.before, method); err != nil {
		return err
	}
	if err := call(); err != nil {
		return err
	}
	return b.call(b.after, method)
}

func (b *book) LookUp(ctx context.Context, i ledger.Intent) (look ledger.Lookup, err error) {
	err = b.around("Look", func() (err error) { look, err = b.Ledger.LookUp(ctx, i); return err })
	return look, err
}

func (b *book) InsertIntent(ctx context.Context, i ledger.Intent) error {
	return b.around("InsertIntent", func() error { return b.Ledger.InsertIntent(ctx, i) })
}

func (b *book) SettleIntent(ctx context.Context, key ledger.IntentKey, transaction string, answer []byte, evidence string) error {
	return b.around("SettleIntent", func() error { return b.Ledger.SettleIntent(ctx, key, transaction, answer, evidence) })
}

func (b *book) WithdrawIntent(ctx context.Context, key ledger.IntentKey, owner string) error {
	return b.around("WithdrawIntent", func() error { return b.Ledger.WithdrawIntent(ctx, key, owner) })
}

func (b *book) Record(ctx context.Context, cursor *ledger.Cursor, observations ...ledger.Observation) (rows []ledger.Receipt, err error) {
	err = b.around("Record", func() (err error) { rows, err = b.Ledger.Record(ctx, cursor, observations...); return err })
	return rows, err
}

// requireUnknown requires that the ledger has no row of a payment.
func (b *book) requireUnknown(t *testing.T, p payment) {
	t.Helper()
	_, known, err := b.Ledger.Intent(t.Context(), p.key())
	require.NoError(t, err)
	require.False(t, known, "the ledger holds a payment that was not sent")
}

// requireIntent requires that the ledger knows a payment in a state.
func (b *book) requireIntent(t *testing.T, p payment, state ledger.IntentState) ledger.Intent {
	t.Helper()
	i, known, err := b.Ledger.Intent(t.Context(), p.key())
	require.NoError(t, err)
	require.True(t, known)
	require.Equal(t, state, i.State, "%+v", i)
	return i
}

// requireReceipts requires that the receipts on a chain are its transfers, and that the sums are theirs.
func (b *book) requireReceipts(t *testing.T, c *chain.Chain, transfers []chain.Transfer) {
	t.Helper()
	rows, err := b.Receipts(t.Context(), offerID, 0, 100)
	require.NoError(t, err)
	var want, got []string
	for _, transfer := range transfers {
		want = append(want, fmt.Sprintf("eip155:%d:%s:%d", c.ID, transfer.Tx.Hex(), transfer.Ordinal))
	}
	accounts := map[string]bool{}
	prefix := fmt.Sprintf("eip155:%d:", c.ID)
	for _, row := range rows {
		if row.Status == ledger.StatusDropped || len(row.ExternalID) < len(prefix) || row.ExternalID[:len(prefix)] != prefix {
			continue
		}
		require.Equal(t, ledger.StatusConfirmed, row.Status)
		require.EqualValues(t, price, row.Amount)
		accounts[row.Account] = true
		got = append(got, row.ExternalID)
	}
	require.ElementsMatch(t, want, got, "the receipts are the transfers on the chain")

	totals, err := b.Totals(t.Context(), offerID)
	require.NoError(t, err)
	var count, amount int64
	for _, total := range totals {
		if accounts[total.Account] && total.Status == ledger.StatusConfirmed {
			count, amount = count+total.Count, amount+total.Amount
		}
	}
	require.EqualValues(t, len(transfers), count, "the number in the sums")
	require.EqualValues(t, len(transfers)*price, amount, "the money in the sums")
}

// requireOpenIntents requires that so many payments are open, and that the sums say the same.
func (b *book) requireOpenIntents(t *testing.T, count int) {
	t.Helper()
	open, err := b.OpenIntents(t.Context(), offerID, 0, 100)
	require.NoError(t, err)
	require.Len(t, open, count)
	totals, err := b.Totals(t.Context(), offerID)
	require.NoError(t, err)
	var settling int64
	for _, total := range totals {
		if total.Status == ledger.StatusSettling {
			settling += total.Count
		}
	}
	require.EqualValues(t, count, settling, "the open payments in the sums")
}

var _ x402.Ledger = (*book)(nil)
