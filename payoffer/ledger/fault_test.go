package ledger

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// dump is every row of every table of the schema, as text.
func dump(t *testing.T, l *Ledger) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, table := range tables {
		rows := must(l.db.read.QueryContext(context.Background(), `SELECT * FROM `+table))(t)
		columns := must(rows.Columns())(t)
		for rows.Next() {
			row, into := make([]any, len(columns)), make([]any, len(columns))
			for i := range row {
				into[i] = &row[i]
			}
			require.NoError(t, rows.Scan(into...))
			named := map[string]any{} // the columns have two orders
			for i, v := range row {
				switch v := v.(type) {
				case bool:
					row[i] = map[bool]int{false: 0, true: 1}[v]
				case []byte:
					row[i] = string(v) + " in bytes"
				}
				named[columns[i]] = row[i]
			}
			all[table] = append(all[table], fmt.Sprintf("%v", named))
		}
		require.NoError(t, rows.Err())
		slices.Sort(all[table])
	}
	return all
}

func scanText(row scanner) (text string, err error) {
	err = row.Scan(&text)
	return text, err
}

// write is a call of a method that writes, and what it does to which tables.
type write struct {
	call   func() error
	writes []string
}

// writes is one call of every method that writes, on a preparedLedger.
func writes(l *Ledger) map[string]write {
	ctx, key := context.Background(), testIntent("0xaa", "0x01").IntentKey
	return map[string]write{
		"Record": {func() error {
			cursor := Cursor{Offer: testOffer, Account: testAccount, Position: "9"}
			changed, joined := chainObservation("0xa", StatusConfirmed), chainObservation("0xb", StatusConfirmed)
			joined.Intent = &key
			changed.Returns = []Return{{ID: "re_1", Kind: ReturnRefund, Amount: 1, Gone: true}}
			early := returned("pi_2", Return{ID: "re_1", Kind: ReturnRefund, Amount: 1, Gone: true})
			_, err := l.Record(ctx, &cursor, changed, joined, cardObservation("pi_1", StatusSeen), early)
			return err
		}, []string{
			"INSERT ON receipts", "UPDATE ON receipts", "INSERT ON transitions", "INSERT ON totals", "UPDATE ON totals",
			"UPDATE ON intents", "INSERT ON cursors", "INSERT ON returns", "UPDATE ON returns", "DELETE ON returns",
		}},
		"InsertIntent": {func() error {
			i := testIntent("0xbb", "0x01")
			i.PaymentID = "pid"
			return l.InsertIntent(ctx, i)
		}, []string{"INSERT ON intents"}},
		"SettleIntent":     {func() error { return l.SettleIntent(ctx, key, "0x1", []byte(`{}`), EvidenceFacilitator) }, []string{"UPDATE ON intents", "INSERT ON totals"}},
		"WithdrawIntent":   {func() error { return l.WithdrawIntent(ctx, key, "attempt-1") }, []string{"DELETE ON intents"}},
		"MoveIntent":       {func() error { return l.MoveIntent(ctx, key, "attempt-1", "second") }, []string{"UPDATE ON intents"}},
		"RefuseIntent":     {func() error { return l.RefuseIntent(ctx, key, "expired") }, []string{"UPDATE ON intents"}},
		"UpdateOpenIntent": {func() error { return l.UpdateOpenIntent(ctx, key, "attempt-1", 9, "0x1", "timeout") }, []string{"UPDATE ON intents"}},
		"SetOrigin":        {func() error { return errorOf(l.SetOrigin(ctx, testOffer, testAccount, "1")) }, []string{"UPDATE ON accounts"}},
		"LeaseSubscriber": {func() error {
			_, _, err := l.LeaseSubscriber(ctx, testOffer, "new", "me", 0, 1)
			return err
		}, []string{"INSERT ON subscribers"}},
		"AdvanceSubscriber": {func() error { return l.AdvanceSubscriber(ctx, testOffer, "known", "me", 9) }, []string{"UPDATE ON subscribers"}},
		"StoreQuote":        {func() error { return l.StoreQuote(ctx, testOffer, 2, 4200, 10_000_000) }, []string{"INSERT ON quotes", "DELETE ON quotes"}},
		"StorePrices":       {func() error { return l.StorePrices(ctx, 10_000_000, map[string]int64{testOffer: 5000}) }, []string{"INSERT ON prices"}},
		"Enter":             {func() error { return l.Enter(ctx, testOffer, "pass:known", "new") }, []string{"INSERT ON entries", "DELETE ON entries"}},
		"EndBrowsers":       {func() error { return l.EndBrowsers(ctx, testOffer, "pass:known") }, []string{"UPDATE ON entries"}},
		"EndBrowsers of an authorization": {func() error {
			return l.EndBrowsers(ctx, testOffer, testAccount+" "+AuthorizationName(key.From, key.Nonce))
		}, []string{"UPDATE ON entries", "UPDATE ON intents"}},
		"InsertPass": {func() error { return l.InsertPass(ctx, Pass{ID: "new", Offer: testOffer, ExpiresAt: 20_000_000}) }, []string{"INSERT ON passes"}},
		"DeletePass": {func() error { return l.DeletePass(ctx, testOffer, "known") }, []string{"DELETE ON entries", "DELETE ON passes"}},
		"RevokePass": {func() error { return l.RevokePass(ctx, testOffer, "known") }, []string{"UPDATE ON passes"}},
	}
}

// preparedLedger has the intent 0xaa in a browser, the receipt 0xa, a refund of pi_1, which
// is not paid yet, another that waited too long, a subscriber, an old quote, and an old pass in MaxBrowsers browsers.
func preparedLedger(t *testing.T, d testDialect) *Ledger {
	t.Helper()
	l, clock := d.ledger(t)
	sent := testIntent("0xaa", "0x01")
	sent.LeaseUntil = 10_000_060
	require.NoError(t, l.InsertIntent(t.Context(), sent))
	require.NoError(t, l.Enter(t.Context(), testOffer, testAccount+" "+AuthorizationName("0xaa", "0x01"), "agent"))
	mustRecord(t, l, chainObservation("0xa", StatusSeen))
	old := returned("pi_old", Return{ID: "re_1", Kind: ReturnRefund, Amount: 1, Gone: true})
	must(l.Record(t.Context(), nil, old))(t)
	require.NoError(t, l.StoreQuote(t.Context(), testOffer, 1, 4200, 1_000))
	require.NoError(t, l.InsertPass(t.Context(), Pass{ID: "known", Offer: testOffer, Note: "for a friend", ExpiresAt: 20_000_000}))
	for n := range MaxBrowsers {
		require.NoError(t, l.Enter(t.Context(), testOffer, "pass:known", fmt.Sprint("old-", n)))
	}
	clock.set(10_000_000)
	find(l.LeaseSubscriber(t.Context(), testOffer, "known", "me", 0, 1))(t)
	early := returned("pi_1", Return{ID: "re_1", Kind: ReturnRefund, Amount: 1, Gone: true})
	early.EvidenceLevel = LevelProvider
	clock.set(1_000)
	must(l.Record(t.Context(), nil, early))(t)
	clock.set(10_000_000)
	return l
}

func TestSQLiteFullDiskRollsBack(t *testing.T) {
	t.Parallel()
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
	require.ErrorContains(t, full, "full (13); free space on the disk of /")
	requireConsistent(t, l)

	must(l.db.write.Exec("PRAGMA max_page_count = 1000000"))(t)
	require.NoError(t, l.InsertIntent(t.Context(), testIntent("0xbb", "0x01")), "space again")
	requireConsistent(t, l)
}

// TestStatementFailureRollsBackCall fails each table's writes in turn.
func TestStatementFailureRollsBackCall(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		l := preparedLedger(t, d)
		before := dump(t, l)
		for name, write := range writes(l) {
			for _, statement := range write.writes {
				must(l.db.write.Exec(d.fault(statement)))(t)
				require.ErrorContains(t, write.call(), "injected", "%s, %s", name, statement)
				require.Equal(t, before, dump(t, l), "%s, %s", name, statement)
				must(l.db.write.Exec(d.heal))(t)
			}
		}
		require.NoError(t, writes(l)["Record"].call())
		require.NotEqual(t, before, dump(t, l))
	})
}

func TestCanceledContextStoresNothing(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		l := preparedLedger(t, d)
		before := dump(t, l)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, l.InsertIntent(ctx, testIntent("0xbb", "0x01")), context.Canceled)
		require.ErrorIs(t, errorOf(l.Record(ctx, nil, chainObservation("0xb", StatusSeen))), context.Canceled)
		require.Equal(t, before, dump(t, l))
		mustRecord(t, l, chainObservation("0xb", StatusSeen))
	})
}
