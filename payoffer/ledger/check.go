package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

const maxDifferences = 10 // in the error of Check

// Check reads all rows and compares them: the sums with the receipts and intents, each
// receipt with its history, and each return with its receipt. The error lists differences.
func (l *Ledger) Check(ctx context.Context) error {
	return l.snapshot(ctx, func(tx *sql.Tx) error { return check(ctx, tx) })
}

func check(ctx context.Context, tx *sql.Tx) error {
	stored, err := sums(ctx, tx, totalTable.selecting(`TRUE`))
	if err != nil {
		return err
	}
	scanned, err := sums(ctx, tx, scannedTotals)
	if err != nil {
		return err
	}
	var differences []string
	keys := maps.Clone(stored)
	maps.Copy(keys, scanned)
	for _, at := range slices.SortedFunc(maps.Keys(keys), accounting.BalanceKey.Compare) {
		if stored[at] != scanned[at] {
			differences = append(differences, fmt.Sprintf("the sums of %+v are %+v, but its rows add up to %+v", at, stored[at], scanned[at]))
		}
	}
	broken, err := query(ctx, tx, scanValue[string], brokenRows, maxDifferences)
	if err != nil {
		return fmt.Errorf("checking the ledger: %w", err)
	}
	if differences = append(differences, broken...); len(differences) > 0 {
		return fmt.Errorf("the ledger is inconsistent (%s); restore a backup, and report this as a bug", strings.Join(differences[:min(len(differences), maxDifferences)], "; "))
	}
	return nil
}

// sums reads sums by key, without empty ones.
func sums(ctx context.Context, tx *sql.Tx, text string) (accounting.Sums, error) {
	all, err := query(ctx, tx, totalTable.scan, text)
	if err != nil {
		return nil, fmt.Errorf("checking the sums of the ledger: %w", err)
	}
	keys := accounting.Sums{}
	for _, t := range all {
		if t.Sum != (accounting.Sum{}) {
			keys[t.BalanceKey] = t.Sum
		}
	}
	return keys, nil
}

// scannedTotals must have the sums in totals.
const scannedTotals = `
	SELECT ` + totalsKey + `, count(*), CAST(sum(amount) AS BIGINT),
		CAST(sum(refunded) AS BIGINT), CAST(sum(coalesce(usd_cents, 0)) AS BIGINT),
		CAST(sum(refunded_cents) AS BIGINT), count(*) - count(usd_cents)
	FROM (
		SELECT offer, account, rail, CASE WHEN evidence_level = 'chain' OR asset = 'USD' THEN '' ELSE asset END AS currency,
			own, testnet, status, evidence_level, amount,
			CASE WHEN refunded < amount THEN refunded ELSE amount END AS refunded, usd_cents, refunded_cents
		FROM receipts
		UNION ALL
		SELECT offer, account, rail, '', own, testnet, 'claimed', '', amount, 0, usd_cents, 0
		FROM intents WHERE state = 'settled' AND evidence <> 'chain') AS entries
	GROUP BY ` + totalsKey

// brokenRows selects up to $1 inconsistent rows.
const brokenRows = `
	SELECT 'receipt ' || r.id || ' has a gap' FROM receipts r
	WHERE r.version <> (SELECT count(*) FROM transitions t WHERE t.receipt_id = r.id)
		OR r.version <> (SELECT max(version) FROM transitions t WHERE t.receipt_id = r.id)
		OR r.status <> (SELECT to_status FROM transitions t WHERE t.receipt_id = r.id AND t.version = r.version)
	UNION ALL
	SELECT 'transition ' || t.seq || ' does not follow' FROM transitions t
	LEFT JOIN transitions p ON p.receipt_id = t.receipt_id AND p.version = t.version - 1
	WHERE t.from_status <> coalesce(p.to_status, '') OR p.seq > t.seq
	UNION ALL
	SELECT 'return ' || w.return_id || ' is not with its row' FROM returns w
	LEFT JOIN receipts r ON r.account = w.account AND r.external_id = w.external_id
	WHERE coalesce(r.id, 0) <> coalesce(w.receipt_id, 0)
	UNION ALL
	SELECT 'a sum of ' || account || ' is below zero' FROM totals
	WHERE count < 0 OR amount < 0 OR refunded < 0 OR usd_cents < 0 OR refunded_cents < 0 OR unknown_usd < 0
	LIMIT $1`
