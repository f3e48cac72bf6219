package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

// longestClaim is the longest pause between two looks at a claim. No payer waits for its proof.
const longestClaim = time.Hour

// due is the condition that the time in a column is not after now (a parameter). A time that is
// more than most after now was stored while the clock was wrong, and is due too.
func due(column, now string, most time.Duration) string {
	return fmt.Sprintf("(%[1]s <= %[2]s OR %[1]s > %[2]s + %[3]d)", column, now, most/time.Second)
}

// openDue selects the open intents without a lease that are due.
func openDue(now string) string {
	return "state = 'settling' AND " + due("poll_at", now, LongestLease) + " AND " + due("lease_until", now, LongestLease)
}

func keysOf(due []Intent, err error) ([]IntentKey, error) {
	if err != nil {
		return nil, err
	}
	keys := make([]IntentKey, len(due))
	for n, i := range due {
		keys[n] = i.IntentKey
	}
	return keys, nil
}

// DueOpen lists up to limit open intents of an account that are due and end after validAfter
// (Unix seconds; 0 for all). It begins with those sent to a facilitator, then the longest due.
// UpdateOpenIntent sets when they are due again.
func (l *Ledger) DueOpen(ctx context.Context, offer, account string, validAfter int64, limit int) ([]IntentKey, error) {
	now := l.now().Unix()
	return keysOf(intentTable.read(ctx, l, oneAccount+` AND `+openDue("$3")+` AND valid_before > $4
		ORDER BY CASE facilitator WHEN '' THEN 1 ELSE 0 END, poll_at, id LIMIT $5`, offer, account, now, validAfter, limit))
}

// TakeDueClaims lists up to limit due claims of an account (settled by a facilitator's report
// only), and sets when they are due again.
func (l *Ledger) TakeDueClaims(ctx context.Context, offer, account string, limit int) (keys []IntentKey, err error) {
	now := l.now()
	err = l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		claims, err := intentTable.query(ctx, tx, oneAccount+`
			AND state = 'settled' AND evidence = 'facilitator' AND `+due("poll_at", "$3", 2*longestClaim)+`
			ORDER BY poll_at, id LIMIT $4`+l.dialect.forUpdate()+l.dialect.skipLocked(), offer, account, now.Unix(), limit)
		for _, claim := range claims {
			if _, err := execute(ctx, tx, "setting when a claim is due", `UPDATE intents SET poll_at = $1 WHERE id = $2`,
				now.Unix()+accounting.UntilPoll(claim.CreatedAt, now, longestClaim), claim.ID); err != nil {
				return err
			}
		}
		keys, err = keysOf(claims, err)
		return err
	})
	return keys, err
}
