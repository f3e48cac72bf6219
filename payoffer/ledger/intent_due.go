package ledger

import (
	"context"
	"fmt"
	"time"
)

const (
	// An intent is resolved again after an eighth of its age, within these bounds. A payer
	// waits for an open intent, but not for the proof of a claim.
	soonest      = 2 * time.Second
	longestOpen  = 2 * time.Minute
	longestClaim = time.Hour
	// LongestLease is the longest lease of an intent or of a subscriber. It is far more than
	// the clocks of two instances differ by.
	LongestLease = 10 * time.Minute
)

// Leased reports whether an attempt works on the intent. A lease that is longer than
// LongestLease was given while the clock was wrong, and is ignored.
func (i Intent) Leased(now time.Time) bool {
	left := i.LeaseUntil - now.Unix()
	return 0 < left && left <= int64(LongestLease/time.Second)
}

// due is the condition that the time in a column is not after now (a parameter). A time that is
// more than most after now was stored while the clock was wrong, and is due too.
func due(column, now string, most time.Duration) string {
	return fmt.Sprintf("(%[1]s <= %[2]s OR %[1]s > %[2]s + %[3]d)", column, now, most/time.Second)
}

// openDue and claimDue select the open intents without a lease, and the claims, that are due.
func openDue(now string) string {
	return "state = 'settling' AND " + due("poll_at", now, LongestLease) + " AND " + due("lease_until", now, LongestLease)
}

func claimDue(now string) string {
	return "state = 'settled' AND evidence = 'facilitator' AND " + due("poll_at", now, 2*longestClaim)
}

// untilPoll is the number of seconds until an intent is due again.
func untilPoll(createdAt int64, now time.Time, longest time.Duration) int64 {
	age := now.Sub(time.Unix(createdAt, 0))
	return int64(min(max(age/8, soonest), longest) / time.Second)
}

type dueIntent struct {
	key           IntentKey
	id, createdAt int64
}

const selectDue = `SELECT network, asset, payer, nonce, id, created_at FROM intents WHERE offer = $1 AND account = $2 AND `

func scanDue(row scanner) (d dueIntent, err error) {
	err = row.Scan(&d.key.Network, &d.key.Asset, &d.key.From, &d.key.Nonce, &d.id, &d.createdAt)
	return d, err
}

// DueOpen lists up to limit open intents of an account that are due and end after validAfter
// (Unix seconds; 0 for all). It begins with those sent to a facilitator, then the longest due.
// UpdateOpenIntent sets when they are due again.
func (l *Ledger) DueOpen(ctx context.Context, offer, account string, validAfter int64, limit int) ([]IntentKey, error) {
	now := l.now().Unix()
	return keysOf(collect(ctx, l, scanDue, selectDue+openDue("$3")+` AND valid_before > $4
		ORDER BY CASE facilitator WHEN '' THEN 1 ELSE 0 END, poll_at, id LIMIT $5`, offer, account, now, validAfter, limit))
}

// TakeDueClaims lists up to limit due claims of an account (settled by a facilitator's report
// only), and sets when they are due again.
func (l *Ledger) TakeDueClaims(ctx context.Context, offer, account string, limit int) ([]IntentKey, error) {
	now := l.now()
	claims, err := collect(ctx, l, scanDue, selectDue+claimDue("$3")+`
		ORDER BY poll_at, id LIMIT $4`, offer, account, now.Unix(), limit)
	if err != nil || len(claims) == 0 {
		return nil, err
	}
	err = l.transact(ctx, func(ctx context.Context, tx *transaction) error {
		for _, claim := range claims {
			if _, err := tx.exec(ctx, "setting when a claim is due", `UPDATE intents SET poll_at = $1 WHERE id = $2`,
				now.Unix()+untilPoll(claim.createdAt, now, longestClaim), claim.id); err != nil {
				return err
			}
		}
		return nil
	})
	return keysOf(claims, err)
}

func keysOf(all []dueIntent, err error) ([]IntentKey, error) {
	if err != nil {
		return nil, err
	}
	keys := make([]IntentKey, len(all))
	for n, d := range all {
		keys[n] = d.key
	}
	return keys, nil
}
