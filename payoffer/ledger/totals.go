package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

// Totals reads the sums of an offer.
func (l *Ledger) Totals(ctx context.Context, offer string) ([]Total, error) {
	return collect(ctx, l, scanTotal, selectOfferTotals, offer)
}

// AllTotals reads the sums of all offers, by offer, in one query.
func (l *Ledger) AllTotals(ctx context.Context) (map[string][]Total, error) {
	all, err := collect(ctx, l, scanTotal, selectTotals(`TRUE`)+` HAVING sum(count) > 0`)
	offers := make(map[string][]Total)
	for _, t := range all {
		offers[t.Offer] = append(offers[t.Offer], t)
	}
	return offers, err
}

var selectOfferTotals = `SELECT * FROM (` + selectTotals(`offer = $1`) + `) AS sums
	WHERE count > 0 ORDER BY account, rail, currency, status, evidence_level, own, testnet`

// selectTotals selects sums by a condition over the columns of totals (money in the
// account's own currency), currency_totals, and total_changes, which are added later.
func selectTotals(where string) string {
	one := func(table, currency string) string {
		return `SELECT offer, account, rail, ` + currency + ` AS currency, own, testnet, status, evidence_level,
			` + sumColumns + ` FROM ` + table + ` WHERE ` + where
	}
	return `SELECT offer, account, rail, currency, own, testnet, status, evidence_level, ` + summed + `
		FROM (` + one("totals", "''") + ` UNION ALL ` + one("currency_totals", "currency") + ` UNION ALL ` + one("total_changes", "currency") + `) AS parts
		GROUP BY offer, account, rail, currency, own, testnet, status, evidence_level`
}

func scanTotal(row scanner) (t Total, err error) {
	err = row.Scan(&t.Offer, &t.Account, &t.Rail, &t.Currency, &t.Own, &t.Testnet, &t.Status, &t.EvidenceLevel,
		&t.Count, &t.Amount, &t.Refunded, &t.USDCents, &t.RefundedCents, &t.UnknownUSD)
	return t, err
}

// total returns the intent's part of the sums. An intent with a receipt has none.
func (i Intent) total() Total {
	class := openClassification
	switch {
	case i.State == IntentSettling:
	case i.State == IntentSettled && i.Evidence == EvidenceFacilitator:
		class = claimedClassification
	default:
		return Total{}
	}
	class.Own, class.Testnet = i.Own, i.Testnet
	key := accounting.BalanceKey{Offer: i.Offer, Account: i.Account, Rail: i.Rail, Classification: class}
	return Total{BalanceKey: key, Sum: accounting.NewSum(i.Amount, i.USDCents)}
}

// The classifications of an open intent, and of one that only a facilitator has confirmed.
var (
	openClassification    = accounting.Classification{Status: StatusSettling}
	claimedClassification = accounting.Classification{Status: StatusClaimed}
)

// fits returns an error if a sum would exceed 2^63-1.
func (r *recorder) fits(ctx context.Context, next Receipt) error {
	key := next.Total().BalanceKey
	before, found := r.stored[key]
	if !found {
		total, err := r.storedTotal(ctx, key)
		if err == nil && total.Sum.Plus(r.delta[key], 1).Large() {
			// Another transaction may add to it now: the lock makes them wait for each other.
			r.tx.dialect.lock(r.tx, "large sums")
			total, err = r.storedTotal(ctx, key)
		}
		if err != nil {
			return fmt.Errorf("reading the totals: %w", err)
		}
		before, r.stored[key] = total.Sum, total.Sum
	}
	if before.Plus(r.delta[key], 1).Overflows() {
		return fmt.Errorf("%w: the sums of account %q would exceed 2^63-1 with its amount", ErrObservation, next.Account)
	}
	return nil
}

func (r *recorder) storedTotal(ctx context.Context, at accounting.BalanceKey) (Total, error) {
	total, _, err := first(queryTx(ctx, r.tx, scanTotal, selectTotal,
		at.Offer, at.Account, at.Rail, at.Status, at.EvidenceLevel, at.Own, at.Testnet, at.Currency))
	return total, err
}

var selectTotal = selectTotals(`offer = $1 AND account = $2 AND rail = $3 AND status = $4 AND evidence_level = $5 AND own = $6 AND testnet = $7`) +
	` HAVING currency = $8`

// addToTotals adds the changes to the sums with one statement for each table. It sorts
// them, so that two transactions cannot wait for each other's rows.
func addToTotals(tx *transaction, changes accounting.Sums) {
	var own, others, later totalRows
	for _, at := range slices.SortedFunc(maps.Keys(changes), accounting.BalanceKey.Compare) {
		d := changes[at]
		if d == (accounting.Sum{}) {
			continue
		}
		row := []any{
			at.Offer, at.Account, at.Rail, at.Status, at.EvidenceLevel, at.Own, at.Testnet,
			d.Count, d.Amount, d.Refunded, d.USDCents, d.RefundedCents, d.UnknownUSD,
		}
		switch {
		case !tx.dialect.oneWriter():
			later.add(append(row, at.Currency))
		case at.Currency == "":
			own.add(row)
		default:
			others.add(append(row, at.Currency))
		}
	}
	own.store(tx, "totals", "", added(totalsKey))
	others.store(tx, "currency_totals", ", currency", added(totalsKey+", currency"))
	later.store(tx, "total_changes", ", currency", "")
}

// addMoved moves an intent in the sums from one classification to another, without reading
// the intent first. The zero Classification is none.
func addMoved(tx *transaction, key IntentKey, from, to accounting.Classification) {
	var moves []string
	for n, at := range map[int]accounting.Classification{-1: from, 1: to} {
		if at != (accounting.Classification{}) {
			moves = append(moves, fmt.Sprintf(`SELECT '%s' AS moved_to, '%s' AS level, %d AS n`, at.Status, at.EvidenceLevel, n))
		}
	}
	slices.Sort(moves) // one text for each pair
	table, column, currency, end := "totals", "", "", added(totalsKey)
	if !tx.dialect.oneWriter() {
		table, column, currency, end = "total_changes", ", currency", ", ''", ""
	}
	tx.reported = true
	tx.queue("updating the totals", `
		INSERT INTO `+table+` AS sums (`+totalsKey+`, `+sumColumns+column+`)
		SELECT offer, account, rail, moved_to, level, own, testnet, n, n * amount, 0, n * COALESCE(usd_cents, 0), 0,
			CASE WHEN usd_cents IS NULL THEN n ELSE 0 END`+currency+`
		FROM intents, (`+strings.Join(moves, ` UNION ALL `)+`) AS moves WHERE `+byIntentKey+end,
		key.Network, key.Asset, key.From, key.Nonce)
}

const totalsKey = `offer, account, rail, status, evidence_level, own, testnet`

const (
	sumColumns = `count, amount, refunded, usd_cents, refunded_cents, unknown_usd`
	summed     = `CAST(sum(count) AS BIGINT) AS count, CAST(sum(amount) AS BIGINT) AS amount, CAST(sum(refunded) AS BIGINT) AS refunded,
		CAST(sum(usd_cents) AS BIGINT) AS usd_cents, CAST(sum(refunded_cents) AS BIGINT) AS refunded_cents, CAST(sum(unknown_usd) AS BIGINT) AS unknown_usd`
)

// added ends an INSERT into a table of sums that adds to existing rows.
func added(key string) string {
	return ` ON CONFLICT (` + key + `) DO UPDATE SET
		count = sums.count + excluded.count, amount = sums.amount + excluded.amount,
		refunded = sums.refunded + excluded.refunded, usd_cents = sums.usd_cents + excluded.usd_cents,
		refunded_cents = sums.refunded_cents + excluded.refunded_cents,
		unknown_usd = sums.unknown_usd + excluded.unknown_usd`
}

// totalRows are rows for one INSERT.
type totalRows struct {
	rows   []string
	values []any
}

func (t *totalRows) add(row []any) {
	t.rows = append(t.rows, placeholders(len(t.values)+1, len(row)))
	t.values = append(t.values, row...)
}

// store inserts the rows into a table of sums. column is in addition to totalsKey, and end
// is the ON CONFLICT clause.
func (t *totalRows) store(tx *transaction, table, column, end string) {
	if len(t.rows) == 0 {
		return
	}
	tx.reported = true
	tx.queue("updating the totals", `
		INSERT INTO `+table+` AS sums (`+totalsKey+`, `+sumColumns+column+`)
		VALUES `+strings.Join(t.rows, ", ")+end, t.values...)
}

// placeholders returns one row of n values from $first on.
func placeholders(first, n int) string {
	row := make([]string, n)
	for i := range row {
		row[i] = "$" + strconv.Itoa(first+i)
	}
	return "(" + strings.Join(row, ", ") + ")"
}
