package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

// Totals reads the sums of an offer.
func (l *Ledger) Totals(ctx context.Context, offer string) ([]Total, error) {
	all, err := collect(ctx, l, totalTable.scan, selectTotals(`offer = $1`), offer)
	return sorted(all), err
}

// AllTotals reads the sums of all offers, by offer, in one query.
func (l *Ledger) AllTotals(ctx context.Context) (map[string][]Total, error) {
	all, err := collect(ctx, l, totalTable.scan, selectTotals(`TRUE`))
	offers := make(map[string][]Total)
	for _, t := range sorted(all) {
		offers[t.Offer] = append(offers[t.Offer], t)
	}
	return offers, err
}

// selectTotals selects the sums that are not empty by a condition: those that are stored, and
// those of open intents, which are few.
func selectTotals(where string) string {
	return totalTable.selecting(`count > 0 AND `+where) + `
		UNION ALL SELECT offer, account, rail, '', 'settling', '', own, testnet,
			count(*), CAST(sum(amount) AS BIGINT), 0, CAST(coalesce(sum(usd_cents), 0) AS BIGINT), 0, count(*) - count(usd_cents)
		FROM intents WHERE state = 'settling' AND ` + where + ` GROUP BY offer, account, rail, own, testnet`
}

func sorted(all []Total) []Total {
	slices.SortFunc(all, func(a, b Total) int { return a.BalanceKey.Compare(b.BalanceKey) })
	return all
}

const totalsKey = `offer, account, rail, currency, status, evidence_level, own, testnet`

// totalTable begins with the columns of totalsKey.
var totalTable = table[Total]{"totals", func(t *Total) []column {
	return []column{
		{"offer", &t.Offer}, {"account", &t.Account}, {"rail", &t.Rail}, {"currency", &t.Currency}, {"status", &t.Status},
		{"evidence_level", &t.EvidenceLevel}, {"own", &t.Own}, {"testnet", &t.Testnet}, {"count", &t.Count}, {"amount", &t.Amount},
		{"refunded", &t.Refunded}, {"usd_cents", &t.USDCents}, {"refunded_cents", &t.RefundedCents}, {"unknown_usd", &t.UnknownUSD},
	}
}}

// isClaim reports whether only a facilitator or the operator reported that the intent was paid.
func (i Intent) isClaim() bool { return i.State == IntentSettled && i.Evidence == EvidenceFacilitator }

// total returns the intent's part of the stored sums. Only a claim has one: open intents are
// counted when they are read, and a paid one has a receipt.
func (i Intent) total() Total {
	if !i.isClaim() {
		return Total{}
	}
	class := accounting.Classification{Status: StatusClaimed, Own: i.Own, Testnet: i.Testnet}
	key := accounting.BalanceKey{Offer: i.Offer, Account: i.Account, Rail: i.Rail, Classification: class}
	return Total{BalanceKey: key, Sum: accounting.NewSum(i.Amount, i.USDCents)}
}

// checkSumLimits returns an error if a sum would exceed 2^63-1.
func (r *recorder) checkSumLimits(ctx context.Context, next Receipt) error {
	at := next.Total().BalanceKey
	before, found := r.stored[at]
	if !found {
		total, _, err := atMostOne(totalTable.query(ctx, r.tx, `
			offer = $1 AND account = $2 AND rail = $3 AND currency = $4 AND status = $5
				AND evidence_level = $6 AND own = $7 AND testnet = $8`,
			at.Offer, at.Account, at.Rail, at.Currency, at.Status, at.EvidenceLevel, at.Own, at.Testnet))
		if err != nil {
			return fmt.Errorf("reading the totals: %w", err)
		}
		before, r.stored[at] = total.Sum, total.Sum
	}
	if before.Plus(r.delta[at], 1).Overflows() {
		return fmt.Errorf("%w: the sums of account %q would exceed 2^63-1 with its amount", ErrObservation, next.Account)
	}
	return nil
}

// addToTotals adds the changes to the sums, in one order, as the last locks of a transaction.
func addToTotals(ctx context.Context, tx *sql.Tx, changes accounting.Sums) error {
	var added []Total
	for _, at := range slices.SortedFunc(maps.Keys(changes), accounting.BalanceKey.Compare) {
		if d := changes[at]; d != (accounting.Sum{}) {
			added = append(added, Total{BalanceKey: at, Sum: d})
		}
	}
	_, err := totalTable.insert(ctx, tx, `
		ON CONFLICT (`+totalsKey+`) DO UPDATE SET
			count = totals.count + excluded.count, amount = totals.amount + excluded.amount,
			refunded = totals.refunded + excluded.refunded, usd_cents = totals.usd_cents + excluded.usd_cents,
			refunded_cents = totals.refunded_cents + excluded.refunded_cents,
			unknown_usd = totals.unknown_usd + excluded.unknown_usd`, added...)
	return err
}
