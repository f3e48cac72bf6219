package operator

import (
	"database/sql"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

// fill writes receipts into a ledger's file, of which every tenth was refunded in
// part later, as Record would have done: it would take an hour.
func fill(t *testing.T, path, account string, receipts int) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	require.NoError(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, statement := range []string{
		`PRAGMA synchronous = OFF`,
		`INSERT INTO receipts (id, offer, account, rail, external_id, tx, via, asset, amount, refunded, usd_cents, refunded_cents, status, state,
			final, evidence_level, evidence, payer, nonce, own, testnet, version, revision, occurred_at, observed_at, updated_at, value_basis)
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1)
		SELECT i, 'pay.example', $2, 'card', 'pi_' || i, '', 'link', 'USD', 4200, CASE WHEN i % 10 = 0 THEN 1200 ELSE 0 END, 4200,
			CASE WHEN i % 10 = 0 THEN 1200 ELSE 0 END, 'confirmed', 'confirmed', 1, 'signed', '', '', '', 0, 0, CASE WHEN i % 10 = 0 THEN 2 ELSE 1 END, 0,
			1700000000 + i, 1700000000 + i, 1700000000 + i, 'face' FROM n`,
		`INSERT INTO transitions (receipt_id, offer, version, from_status, to_status, amount, refunded, usd_cents, cause, note, at, tag)
		SELECT id, offer, 1, '', 'confirmed', 4200, 0, 4200, 'webhook', '', occurred_at, id FROM receipts WHERE $1 > 0 AND $2 <> ''`,
		`INSERT INTO transitions (receipt_id, offer, version, from_status, to_status, amount, refunded, usd_cents, cause, note, at, tag)
		SELECT id, offer, 2, 'confirmed', 'confirmed', 4200, 1200, 4200, 'webhook', '', occurred_at + 86400, id FROM receipts
		WHERE id % 10 = 0 AND $1 > 0 AND $2 <> ''`,
		`INSERT INTO totals (offer, account, rail, status, evidence_level, own, testnet, count, amount, refunded, usd_cents, refunded_cents, unknown_usd)
		SELECT 'pay.example', $2, 'card', 'confirmed', 'signed', 0, 0, $1, 4200 * $1, 1200 * ($1 / 10), 4200 * $1, 1200 * ($1 / 10), 0`,
	} {
		if statement[:6] == "PRAGMA" {
			_, err = db.Exec(statement)
		} else {
			_, err = db.Exec(statement, receipts, account)
		}
		require.NoError(t, err, statement)
	}
}

// heap is what is in use, in bytes.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestAnyNumberOfMovementsTakesTheSameMemory(t *testing.T) {
	const most = 8 << 20 // bytes
	receipts := cases.Of(20_000, 100_000, 1_000_000)
	path := filepath.Join(t.TempDir(), "many.db")
	o := newFixture(t)
	o.Ledger = ledger.NewSQLite(path, o.Now)
	require.NoError(t, o.Ledger.Open(t.Context()))
	require.NoError(t, o.Ledger.Register(t.Context(), o.Accounts...))
	require.NoError(t, o.Ledger.Close())
	fill(t, path, o.account("card").ID, receipts)
	require.NoError(t, o.Ledger.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, o.Ledger.Close()) })

	before, peak, told, start := heap(), uint64(0), 0, time.Now()
	var end *MovementsEnd
	require.NoError(t, o.Movements(t.Context(), func(line MovementLine) error {
		if told++; told%(receipts/10) == 0 {
			peak = max(peak, heap())
		}
		end = line.End
		return nil
	}))
	require.Empty(t, end.Error)
	require.EqualValues(t, receipts+receipts/10, end.Count)
	require.EqualValues(t, 4200*receipts-1200*(receipts/10), end.ReceivedCents)
	t.Logf("%d receipts: at most %d bytes more than before, in %s", receipts, max(peak, before)-before, time.Since(start))
	require.Less(t, max(peak, before)-before, uint64(most))
}
