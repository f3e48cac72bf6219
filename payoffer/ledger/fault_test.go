package ledger

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// dump is everything that is stored.
func dump(t *testing.T, l *Ledger) []any {
	t.Helper()
	ctx := context.Background()
	receipts, err := l.Receipts(ctx, testOffer, 0, 1000)
	require.NoError(t, err)
	transitions, err := l.Transitions(ctx, testOffer, 0, 1000)
	require.NoError(t, err)
	totals, err := l.Totals(ctx, testOffer)
	require.NoError(t, err)
	intents, err := collect(ctx, l, scanIntent, `SELECT `+intentColumns+` FROM intents ORDER BY id`)
	require.NoError(t, err)
	cursor, _, err := l.Cursor(ctx, testOffer, testAccount)
	require.NoError(t, err)
	return []any{receipts, transitions, totals, intents, cursor}
}

// writes is one call of every method that writes, on a ledger with the intent
// 0xaa and the receipt 0xa.
func writes(l *Ledger) map[string]func() error {
	ctx, key := context.Background(), testIntent("0xaa", "0x01").IntentKey
	return map[string]func() error{
		"Record": func() error {
			cursor := Cursor{Offer: testOffer, Account: testAccount, Position: "9"}
			changed, joined := chainSighting("0xa", StatusConfirmed), chainSighting("0xb", StatusConfirmed)
			joined.Intent = &key
			_, err := l.Record(ctx, &cursor, changed, joined)
			return err
		},
		"InsertIntent": func() error {
			i := testIntent("0xbb", "0x01")
			i.PaymentID = "pid"
			return l.InsertIntent(ctx, i)
		},
		"SettleIntent":   func() error { return l.SettleIntent(ctx, key, "0x1", []byte(`{}`), EvidenceFacilitator) },
		"WithdrawIntent": func() error { return l.WithdrawIntent(ctx, key, "attempt-1") },
		"MoveIntent":     func() error { return l.MoveIntent(ctx, key, "attempt-1", "second") },
		"RefuseIntent":   func() error { return l.RefuseIntent(ctx, key, "expired") },
		"NoteIntent":     func() error { return l.NoteIntent(ctx, key, "attempt-1", 9, "0x1", "timeout") },
		"SetOrigin": func() error {
			_, err := l.SetOrigin(ctx, testOffer, testAccount, "1")
			return err
		},
	}
}

func preparedLedger(t *testing.T, d testDialect) *Ledger {
	t.Helper()
	l, _ := d.ledger(t)
	require.NoError(t, l.InsertIntent(t.Context(), testIntent("0xaa", "0x01")))
	mustRecord(t, l, chainSighting("0xa", StatusSeen))
	return l
}

func TestSQLiteReadOnlyFailsEveryWriteAndKeepsReading(t *testing.T) {
	l := preparedLedger(t, sqliteTests)
	_, err := l.db.write.Exec("PRAGMA query_only = 1")
	require.NoError(t, err)
	before := dump(t, l)
	for name, write := range writes(l) {
		require.ErrorContains(t, write(), "readonly", name)
	}
	require.Equal(t, before, dump(t, l))
}

func TestSQLiteFullDiskLeavesNoHalfRows(t *testing.T) {
	l := preparedLedger(t, sqliteTests)
	_, err := l.db.write.Exec("PRAGMA max_page_count = 1") // the lowest: what is in use
	require.NoError(t, err)
	var full error
	for i := 0; full == nil && i < 1000; i++ {
		before := dump(t, l)
		intent := testIntent(fmt.Sprintf("0x%d", i), "0x01")
		intent.Payload = make([]byte, 4096)
		if full = l.InsertIntent(t.Context(), intent); full != nil {
			require.Equal(t, before, dump(t, l))
		}
	}
	require.ErrorContains(t, full, "full")
	requireConsistent(t, l)

	_, err = l.db.write.Exec("PRAGMA max_page_count = 1000000")
	require.NoError(t, err)
	require.NoError(t, l.InsertIntent(t.Context(), testIntent("0xbb", "0x01")), "space again")
	requireConsistent(t, l)
}

// TestFailureAtAnyStatementUndoesTheWholeCall fails each table's writes in turn.
func TestFailureAtAnyStatementUndoesTheWholeCall(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		failed := map[string]int{}
		for _, statement := range []string{
			"INSERT ON receipts", "UPDATE ON receipts", "INSERT ON transitions", "INSERT ON totals", "UPDATE ON totals",
			"INSERT ON cursors", "INSERT ON intents", "UPDATE ON intents", "DELETE ON intents", "INSERT ON payment_ids",
			"UPDATE ON accounts",
		} {
			for name := range writes(nil) {
				l := preparedLedger(t, d)
				_, err := l.db.write.Exec(d.fault(statement))
				require.NoError(t, err)
				before := dump(t, l)
				if err := writes(l)[name](); err != nil {
					require.ErrorContains(t, err, "injected", "%s, %s", name, statement)
					require.Equal(t, before, dump(t, l), "%s, %s", name, statement)
					failed[name]++
				}
				require.NoError(t, l.Close())
			}
		}
		for name := range writes(nil) {
			require.Positive(t, failed[name], name)
		}
		require.GreaterOrEqual(t, failed["Record"], 6)
	})
}

func TestCanceledContextStoresNothing(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		l := preparedLedger(t, d)
		before := dump(t, l)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, l.InsertIntent(ctx, testIntent("0xbb", "0x01")), context.Canceled)
		_, err := l.Record(ctx, nil, chainSighting("0xb", StatusSeen))
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, before, dump(t, l))
		mustRecord(t, l, chainSighting("0xb", StatusSeen))
	})
}
