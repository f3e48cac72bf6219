package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Total is the sum of everything on an account that is in one status. Money
// counts as received in StatusConfirmed with an EvidenceLevel for which
// Counted is true.
type Total struct {
	// Account, Rail, Own and Testnet are those of the receipts.
	Account, Rail string
	Own, Testnet  bool
	// Status is a receipt's, or StatusSettling or StatusClaimed for x402
	// intents without a receipt.
	Status Status
	// EvidenceLevel is that of the receipts; for claims LevelAsserted.
	EvidenceLevel EvidenceLevel
	// Count is the number of receipts or intents.
	Count int64
	// Amount is what was paid and Refunded what of it went back, in atomic
	// units.
	Amount, Refunded int64
	// USDCents and RefundedCents are the same in US cents, over those
	// receipts whose value is known; UnknownUSD counts the others.
	USDCents, RefundedCents, UnknownUSD int64
}

// Totals reads the sums of an offer. Its cost does not depend on the number
// of receipts.
func (l *Ledger) Totals(ctx context.Context, offer string) ([]Total, error) {
	return collect(ctx, l, scanTotal, `
		SELECT account, rail, own, testnet, status, evidence_level,
			count, amount, refunded, usd_cents, refunded_cents, unknown_usd
		FROM totals WHERE offer = $1 AND count > 0
		ORDER BY account, rail, status, evidence_level, own, testnet`, offer)
}

func scanTotal(row scanner) (t Total, err error) {
	err = row.Scan(&t.Account, &t.Rail, &t.Own, &t.Testnet, &t.Status, &t.EvidenceLevel,
		&t.Count, &t.Amount, &t.Refunded, &t.USDCents, &t.RefundedCents, &t.UnknownUSD)
	return t, err
}

type sumKey struct {
	offer, account, rail string
	status               Status
	level                EvidenceLevel
	own, testnet         bool
}

type sum struct {
	count, amount, refunded, cents, refundedCents, unknownUSD int64
}

func (a sum) plus(b sum, sign int64) sum {
	return sum{
		a.count + sign*b.count, a.amount + sign*b.amount, a.refunded + sign*b.refunded,
		a.cents + sign*b.cents, a.refundedCents + sign*b.refundedCents, a.unknownUSD + sign*b.unknownUSD,
	}
}

// entry is what stands in a sum: a receipt, or an intent without one.
type entry interface {
	// sum says where the entry counts; false for nowhere.
	sum() (sumKey, sum, bool)
}

func (r Receipt) sum() (sumKey, sum, bool) {
	key := sumKey{r.Offer, r.Account, r.Rail, r.Status, r.EvidenceLevel, r.Own, r.Testnet}
	s := sum{count: 1, amount: r.Amount, refunded: min(r.Refunded, r.Amount), refundedCents: r.RefundedCents}
	s.value(r.USDCents)
	return key, s, r.Version > 0
}

func (i Intent) sum() (sumKey, sum, bool) {
	key := sumKey{offer: i.Offer, account: i.Account, rail: i.Rail, own: i.Own, testnet: i.Testnet}
	s := sum{count: 1, amount: i.Amount}
	s.value(i.USDCents)
	switch {
	case i.State == IntentSettling:
		key.status = StatusSettling
	case i.State == IntentSettled && i.Evidence == EvidenceFacilitator:
		key.status, key.level = StatusClaimed, LevelAsserted
	default:
		return sumKey{}, sum{}, false
	}
	return key, s, true
}

func (a *sum) value(usdCents *int64) {
	if usdCents == nil {
		a.unknownUSD = 1
		return
	}
	a.cents = *usdCents
}

// sums collects the changes of one transaction.
type sums map[sumKey]sum

// change takes old out of the sums and puts next in.
func (s sums) change(old, next entry) sums {
	if key, value, counts := old.sum(); counts {
		s[key] = s[key].plus(value, -1)
	}
	if key, value, counts := next.sum(); counts {
		s[key] = s[key].plus(value, 1)
	}
	return s
}

// fits refuses a sighting with which a sum would pass 2^63-1. The true sum is
// below 2^64, so that only one past the limit reads as negative.
func (r *recorder) fits(ctx context.Context, next Receipt) error {
	key, _, _ := next.sum()
	before, known := r.stored[key]
	if !known {
		var err error
		if before, err = readSum(ctx, r.tx, key); err != nil {
			return err
		}
		r.stored[key] = before
	}
	after := before.plus(r.delta[key], 1)
	if after.amount < 0 || after.refunded < 0 || after.cents < 0 || after.refundedCents < 0 {
		return fmt.Errorf("%w: the sums of account %q cannot hold its amount", ErrSighting, next.Account)
	}
	return nil
}

func readSum(ctx context.Context, tx *transaction, key sumKey) (s sum, err error) {
	err = tx.QueryRowContext(ctx, `
		SELECT count, amount, refunded, usd_cents, refunded_cents, unknown_usd FROM totals
		WHERE offer = $1 AND account = $2 AND rail = $3 AND status = $4 AND evidence_level = $5 AND own = $6 AND testnet = $7`,
		key.offer, key.account, key.rail, key.status, key.level, key.own, key.testnet).
		Scan(&s.count, &s.amount, &s.refunded, &s.cents, &s.refundedCents, &s.unknownUSD)
	if errors.Is(err, sql.ErrNoRows) {
		return sum{}, nil
	}
	if err != nil {
		return sum{}, fmt.Errorf("reading the totals: %w", err)
	}
	return s, nil
}

// apply adds the changes in one statement, and in an order of their own, so
// that two transactions cannot wait for each other's rows.
func (s sums) apply(ctx context.Context, tx *transaction) error {
	var rows []string
	var values []any
	for _, key := range slices.SortedFunc(maps.Keys(s), compareKeys) {
		d := s[key]
		if d == (sum{}) {
			continue
		}
		row := []any{
			key.offer, key.account, key.rail, key.status, key.level, key.own, key.testnet,
			d.count, d.amount, d.refunded, d.cents, d.refundedCents, d.unknownUSD,
		}
		rows = append(rows, placeholders(len(values)+1, len(row)))
		values = append(values, row...)
	}
	if len(rows) == 0 {
		return nil
	}
	_, err := tx.ExecContext(ctx, `
		INSERT INTO totals (offer, account, rail, status, evidence_level, own, testnet,
			count, amount, refunded, usd_cents, refunded_cents, unknown_usd)
		VALUES `+strings.Join(rows, ", ")+`
		ON CONFLICT (offer, account, rail, status, evidence_level, own, testnet) DO UPDATE SET
			count = totals.count + excluded.count, amount = totals.amount + excluded.amount,
			refunded = totals.refunded + excluded.refunded, usd_cents = totals.usd_cents + excluded.usd_cents,
			refunded_cents = totals.refunded_cents + excluded.refunded_cents,
			unknown_usd = totals.unknown_usd + excluded.unknown_usd`, values...)
	if err != nil {
		return fmt.Errorf("updating the totals: %w", err)
	}
	return nil
}

// placeholders is one row of n values from $first on.
func placeholders(first, n int) string {
	row := make([]string, n)
	for i := range row {
		row[i] = "$" + strconv.Itoa(first+i)
	}
	return "(" + strings.Join(row, ", ") + ")"
}

func compareKeys(a, b sumKey) int {
	return cmp.Or(
		strings.Compare(a.offer, b.offer), strings.Compare(a.account, b.account), strings.Compare(a.rail, b.rail),
		strings.Compare(string(a.status), string(b.status)), strings.Compare(string(a.level), string(b.level)),
		compareBools(a.own, b.own), compareBools(a.testnet, b.testnet))
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
