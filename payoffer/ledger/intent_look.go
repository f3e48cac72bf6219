package ledger

import (
	"context"
	"fmt"
	"time"
)

const (
	// soonest is the shortest time between two looks at one intent, which is
	// an eighth of its age.
	soonest = 2 * time.Second
	// longestOpen and longestClaim are the longest: somebody waits for the
	// outcome of an open intent, and nobody for the proof of a claim.
	longestOpen  = 2 * time.Minute
	longestClaim = time.Hour
	// LongestLease is the longest lease of an intent or of a sink. It is far more than
	// the clocks of two instances differ by.
	LongestLease = 10 * time.Minute
)

// Leased reports whether an attempt works on the intent. A lease that ends later than
// any can was taken while the clock was ahead, and is over.
func (i Intent) Leased(now time.Time) bool {
	left := i.LeaseUntil - now.Unix()
	return 0 < left && left <= int64(LongestLease/time.Second)
}

// due is the condition that a time in a column has come by now, a parameter. One that
// is further ahead than most was stored while the clock was ahead, and has come.
func due(column, now string, most time.Duration) string {
	return fmt.Sprintf("(%[1]s <= %[2]s OR %[1]s > %[2]s + %[3]d)", column, now, most/time.Second)
}

// openDue and claimDue choose the open intents that nobody works on, and the claims, that
// are to be looked at by now, a parameter.
func openDue(now string) string {
	return "state = 'settling' AND " + due("look_at", now, LongestLease) + " AND " + due("lease_until", now, LongestLease)
}

func claimDue(now string) string {
	return "state = 'settled' AND evidence = 'facilitator' AND " + due("look_at", now, 2*longestClaim)
}

// untilLook is the time to the next look at an intent, in seconds: often while
// it is young, rarely when it is old.
func untilLook(createdAt int64, now time.Time, longest time.Duration) int64 {
	age := now.Sub(time.Unix(createdAt, 0))
	return int64(min(max(age/8, soonest), longest) / time.Second)
}

// dueIntent is an intent that is to be looked at.
type dueIntent struct {
	key           IntentKey
	id, createdAt int64
}

const selectDue = `SELECT network, asset, payer, nonce, id, created_at FROM intents WHERE offer = $1 AND account = $2 AND `

func scanDue(row scanner) (d dueIntent, err error) {
	err = row.Scan(&d.key.Network, &d.key.Asset, &d.key.From, &d.key.Nonce, &d.id, &d.createdAt)
	return d, err
}

// DueOpen lists up to limit open intents of an account that nobody works on and
// that are to be looked at now: those that are valid after a time (Unix
// seconds; 0 for all). What was sent to a facilitator comes first, the longest
// waiting first. NoteIntent sets the next look.
func (l *Ledger) DueOpen(ctx context.Context, offer, account string, validAfter int64, limit int) ([]IntentKey, error) {
	now := l.now().Unix()
	return keysOf(collect(ctx, l, scanDue, selectDue+openDue("$3")+` AND valid_before > $4
		ORDER BY CASE facilitator WHEN '' THEN 1 ELSE 0 END, look_at, id LIMIT $5`, offer, account, now, validAfter, limit))
}

// TakeDueClaims lists up to limit intents of an account that only a
// facilitator says were settled and that are to be looked at now, and sets
// their next look.
func (l *Ledger) TakeDueClaims(ctx context.Context, offer, account string, limit int) ([]IntentKey, error) {
	now := l.now()
	claims, err := collect(ctx, l, scanDue, selectDue+claimDue("$3")+`
		ORDER BY look_at, id LIMIT $4`, offer, account, now.Unix(), limit)
	if err != nil || len(claims) == 0 {
		return nil, err
	}
	err = l.transact(ctx, func(ctx context.Context, tx *transaction) error {
		for _, claim := range claims {
			if _, err := tx.exec(ctx, "setting the next look", `UPDATE intents SET look_at = $1 WHERE id = $2`,
				now.Unix()+untilLook(claim.createdAt, now, longestClaim), claim.id); err != nil {
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
