package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/book"
)

// Totals reads the sums of an offer. Its cost does not depend on the number
// of receipts.
func (l *Ledger) Totals(ctx context.Context, offer string) ([]Total, error) {
	return collect(ctx, l, scanTotal, selectOfferTotals, offer)
}

const selectOfferTotals = selectTotals + ` AND count > 0 ORDER BY account, rail, currency, status, evidence_level, own, testnet`

// allTotals reads both tables: an instance of an earlier version knows totals
// alone, where no other currency than an account's own may stand any more.
const allTotals = `
	SELECT offer, account, rail, currency, own, testnet, status, evidence_level,
		count, amount, refunded, usd_cents, refunded_cents, unknown_usd
	FROM (SELECT offer, account, rail, '' AS currency, own, testnet, status, evidence_level,
			count, amount, refunded, usd_cents, refunded_cents, unknown_usd FROM totals
		UNION ALL SELECT offer, account, rail, currency, own, testnet, status, evidence_level,
			count, amount, refunded, usd_cents, refunded_cents, unknown_usd FROM currency_totals) AS all_totals`

const selectTotals = allTotals + ` WHERE offer = $1`

func scanTotal(row scanner) (t Total, err error) {
	err = row.Scan(&t.Offer, &t.Account, &t.Rail, &t.Currency, &t.Own, &t.Testnet, &t.Status, &t.EvidenceLevel,
		&t.Count, &t.Amount, &t.Refunded, &t.USDCents, &t.RefundedCents, &t.UnknownUSD)
	return t, err
}

// total is what stands in the sums of an intent without a receipt.
func (i Intent) total() Total {
	place := book.Place{Offer: i.Offer, Account: i.Account, Rail: i.Rail, Standing: book.Standing{Own: i.Own, Testnet: i.Testnet}}
	switch {
	case i.State == IntentSettling:
		place.Status = StatusSettling
	case i.State == IntentSettled && i.Evidence == EvidenceFacilitator:
		place.Status, place.EvidenceLevel = StatusClaimed, LevelAsserted
	default:
		return Total{}
	}
	return Total{Place: place, Sum: book.NewSum(i.Amount, i.USDCents)}
}

// fits refuses a sighting with which a sum would pass 2^63-1.
func (r *recorder) fits(ctx context.Context, next Receipt) error {
	place := next.Total().Place
	before, known := r.stored[place]
	if !known {
		total, _, err := first(query(ctx, r.tx, scanTotal, selectTotals+`
			AND account = $2 AND rail = $3 AND status = $4 AND evidence_level = $5 AND own = $6 AND testnet = $7 AND currency = $8`,
			place.Offer, place.Account, place.Rail, place.Status, place.EvidenceLevel, place.Own, place.Testnet, place.Currency))
		if err != nil {
			return fmt.Errorf("reading the totals: %w", err)
		}
		before, r.stored[place] = total.Sum, total.Sum
	}
	if before.Plus(r.delta[place], 1).Overflows() {
		return fmt.Errorf("%w: the sums of account %q cannot hold its amount", ErrSighting, next.Account)
	}
	return nil
}

// addToTotals adds the changes with one statement a table, and in an order of
// their own, so that two transactions cannot wait for each other's rows.
func addToTotals(ctx context.Context, tx *transaction, changes book.Sums) error {
	var own, others totalRows
	for _, at := range slices.SortedFunc(maps.Keys(changes), book.Place.Compare) {
		d := changes[at]
		if d == (book.Sum{}) {
			continue
		}
		row := []any{
			at.Offer, at.Account, at.Rail, at.Status, at.EvidenceLevel, at.Own, at.Testnet,
			d.Count, d.Amount, d.Refunded, d.USDCents, d.RefundedCents, d.UnknownUSD,
		}
		if at.Currency == "" {
			own.add(row)
		} else {
			others.add(append(row, at.Currency))
		}
	}
	if err := own.store(ctx, tx, "totals", ""); err != nil {
		return err
	}
	return others.store(ctx, tx, "currency_totals", ", currency")
}

// totalRows are what is added to one table of sums.
type totalRows struct {
	rows   []string
	values []any
}

func (t *totalRows) add(row []any) {
	t.rows = append(t.rows, placeholders(len(t.values)+1, len(row)))
	t.values = append(t.values, row...)
}

// store adds the rows to the table, which has another column in its key, or none.
func (t *totalRows) store(ctx context.Context, tx *transaction, table, column string) error {
	if len(t.rows) == 0 {
		return nil
	}
	tx.reported = true
	_, err := tx.exec(ctx, "updating the totals", `
		INSERT INTO `+table+` AS sums (offer, account, rail, status, evidence_level, own, testnet,
			count, amount, refunded, usd_cents, refunded_cents, unknown_usd`+column+`)
		VALUES `+strings.Join(t.rows, ", ")+`
		ON CONFLICT (offer, account, rail, status, evidence_level, own, testnet`+column+`) DO UPDATE SET
			count = sums.count + excluded.count, amount = sums.amount + excluded.amount,
			refunded = sums.refunded + excluded.refunded, usd_cents = sums.usd_cents + excluded.usd_cents,
			refunded_cents = sums.refunded_cents + excluded.refunded_cents,
			unknown_usd = sums.unknown_usd + excluded.unknown_usd`, t.values...)
	return err
}

// placeholders is one row of n values from $first on.
func placeholders(first, n int) string {
	row := make([]string, n)
	for i := range row {
		row[i] = "$" + strconv.Itoa(first+i)
	}
	return "(" + strings.Join(row, ", ") + ")"
}
