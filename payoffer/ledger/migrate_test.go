package ledger

import (
	"database/sql"
	"io/fs"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/book"
)

// earlier creates a database as the version of the first migrations wrote it.
func (d testDialect) earlier(t *testing.T, migrations int, rows string) (where string) {
	t.Helper()
	where = d.create(t)
	l := d.handle(t, where, time.Now)
	shipped := l.dialect.migrations()
	names, err := fs.Glob(shipped, "*.sql")
	require.NoError(t, err)
	files := fstest.MapFS{}
	for _, name := range names[:migrations] {
		script, err := fs.ReadFile(shipped, name)
		require.NoError(t, err)
		files[name] = &fstest.MapFile{Data: script}
	}
	lock, err := l.dialect.acquire(t.Context())
	require.NoError(t, err)
	write, read := l.dialect.connect()
	require.NoError(t, migrateAll(t, withMigrations{l.dialect, files}, write))
	_, err = write.Exec(rows)
	require.NoError(t, err)
	require.NoError(t, read.Close())
	require.NoError(t, write.Close())
	require.NoError(t, lock.Close())
	return where
}

// migrateAll migrates, and nobody is in the way.
func migrateAll(t *testing.T, d dialect, db *sql.DB) error {
	t.Helper()
	_, err := migrate(t.Context(), d, db, func(holders string) { require.Empty(t, holders) })
	return err
}

// firstVersion is what a ledger of the first version may hold: a transfer, a
// card payment that was refunded in part, one whose dispute was lost, and one
// whose dispute was won.
const firstVersion = `
	INSERT INTO accounts VALUES ('chain', 'pay.example', 'usdc', TRUE, '7'), ('plink_1', 'pay.example', 'card', FALSE, '');
	INSERT INTO receipts (offer, account, rail, external_id, tx, via, asset, amount, refunded, usd_cents, refunded_cents,
		status, state, reversed, reversed_at, final, evidence_level, evidence, payer, own, testnet, version, occurred_at,
		observed_at, updated_at)
	VALUES
		('pay.example', 'chain', 'usdc', 'eip155:84532:0xa:0', '0xa', 'x402', 'USDC', 42000000, 0, 4200, 0,
			'confirmed', 'confirmed', FALSE, 0, TRUE, 'chain', '{"block":7}', '0xpayer', FALSE, TRUE, 1, 900, 1000, 1000),
		('pay.example', 'plink_1', 'card', 'pi_1', '', '', 'USD', 4200, 1000, 4200, 1000,
			'confirmed', 'confirmed', FALSE, 0, FALSE, 'signed', '', '', FALSE, FALSE, 1, 900, 1000, 1000),
		('pay.example', 'plink_1', 'card', 'pi_2', '', '', 'USD', 4200, 0, 4200, 0,
			'reversed', 'confirmed', TRUE, 950, FALSE, 'signed', '', '', FALSE, FALSE, 1, 900, 1000, 1000),
		('pay.example', 'plink_1', 'card', 'pi_3', '', '', 'USD', 4200, 0, NULL, 0,
			'confirmed', 'confirmed', FALSE, 950, FALSE, 'signed', '', '', FALSE, FALSE, 1, 900, 1000, 1000);
	INSERT INTO transitions (receipt_id, offer, version, from_status, to_status, amount, refunded, cause, at)
		SELECT id, offer, 1, '', status, amount, refunded, 'webhook', 1000 FROM receipts ORDER BY id;
	INSERT INTO totals
		SELECT offer, account, rail, status, evidence_level, own, testnet, count(*), sum(amount), sum(refunded),
			sum(coalesce(usd_cents, 0)), sum(refunded_cents), count(*) - count(usd_cents)
		FROM receipts GROUP BY 1, 2, 3, 4, 5, 6, 7;
	INSERT INTO cursors VALUES ('chain', 'pay.example', '7', '0xhash', 1000, 'unreachable');`

func TestLedgerOfTheFirstVersionKeepsItsRowsAndSums(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		l, _ := d.ledgerAt(t, d.earlier(t, 1, firstVersion))
		requireConsistent(t, l)
		receipts, err := l.Receipts(t.Context(), testOffer, 0, 10)
		require.NoError(t, err)
		require.Len(t, receipts, 4)
		require.Equal(t, Receipt{
			ID: receipts[3].ID, Offer: testOffer, Account: "chain", Rail: "usdc", ExternalID: "eip155:84532:0xa:0",
			Transaction: "0xa", Via: "x402", Asset: "USDC", Amount: 42_000_000, USDCents: ptr(int64(4200)), Final: true,
			EvidenceLevel: LevelChain, Evidence: []byte(`{"block":7}`), Payer: "0xpayer", Testnet: true, OccurredAt: 900,
			Status: StatusConfirmed, Version: 1, ObservedAt: 1_000, UpdatedAt: 1_000, State: StatusConfirmed,
		}, receipts[3])
		require.EqualValues(t, 1_000, receipts[2].Refunded)
		require.Equal(t, StatusReversed, receipts[1].Status)
		require.Equal(t, []string{
			"eip155:84532:0xa:0 1 >confirmed", "pi_1 1 >confirmed", "pi_2 1 >reversed", "pi_3 1 >confirmed",
		}, statuses(t, l))

		cursor, _, err := l.Cursor(t.Context(), testOffer, "chain")
		require.NoError(t, err)
		require.Equal(t, Cursor{Offer: testOffer, Account: "chain", Position: "7", Anchor: "0xhash", OKAt: 1_000}, cursor)

		// What was known of refunds and disputes is still known.
		for _, id := range []string{"pi_1", "pi_2", "pi_3"} {
			before, _, err := l.Receipt(t.Context(), testOffer, cardAccount, id)
			require.NoError(t, err)
			again := cardSighting(id, StatusConfirmed)
			again.USDCents = nil
			require.Equal(t, before, mustRecord(t, l, again))
		}
		total := returned("pi_1", Return{ID: "ch_1", Kind: ReturnTotal, Amount: 4_200, Gone: true, At: 2_000})
		require.Equal(t, StatusRefunded, mustRecord(t, l, total).Status)
		requireConsistent(t, l)
	})
}

// TestOtherCurrenciesLeaveTheSumsOfDollars: before, cents and yen stood in one.
func TestOtherCurrenciesLeaveTheSumsOfDollars(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		where := d.earlier(t, 4, `
			INSERT INTO accounts VALUES ('plink_1', 'pay.example', 'card', FALSE, '');
			INSERT INTO receipts (offer, account, rail, external_id, tx, via, asset, amount, refunded, usd_cents, refunded_cents,
				status, state, final, evidence_level, evidence, payer, own, testnet, version, occurred_at, observed_at, updated_at)
			VALUES
				('pay.example', 'plink_1', 'card', 'pi_1', '', '', 'USD', 4200, 1000, 4200, 1000,
					'confirmed', 'confirmed', FALSE, 'signed', '', '', FALSE, FALSE, 1, 900, 1000, 1000),
				('pay.example', 'plink_1', 'card', 'pi_2', '', '', 'JPY', 6300, 9000, NULL, 0,
					'confirmed', 'confirmed', FALSE, 'signed', '', '', FALSE, FALSE, 1, 900, 1000, 1000);
			INSERT INTO transitions (receipt_id, offer, version, from_status, to_status, amount, refunded, cause, at)
				SELECT id, offer, 1, '', status, amount, refunded, 'webhook', 1000 FROM receipts ORDER BY id;
			INSERT INTO totals VALUES ('pay.example', 'plink_1', 'card', 'confirmed', 'signed', FALSE, FALSE, 2, 10500, 7300, 4200, 1000, 1);`)
		l, _ := d.ledgerAt(t, where)
		requireConsistent(t, l)
		totals, err := l.Totals(t.Context(), testOffer)
		require.NoError(t, err)
		require.Len(t, totals, 2)
		require.Equal(t, book.Sum{Count: 1, Amount: 4_200, Refunded: 1_000, USDCents: 4_200, RefundedCents: 1_000}, totals[0].Sum)
		require.Equal(t, "JPY", totals[1].Currency)
		require.Equal(t, book.Sum{Count: 1, Amount: 6_300, Refunded: 6_300, UnknownUSD: 1}, totals[1].Sum)
		offers, err := l.Offers(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{testOffer}, offers)
	})
}
