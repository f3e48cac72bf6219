package ledger

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// protection is how long a charge that left its payer in doubt goes on
// answering for the payer's next authorizations after a 200 has named it. The
// signature of a settled authorization is public on the chain, so that the
// first 200 may have gone to a stranger.
const protection = 2 * time.Minute

// quoted is how long authorizations are signed for (x402, maxTimeoutSeconds):
// one that ends sooner than this after a charge was signed before it.
const quoted = 5 * time.Minute

// ConflictError is returned for an authorization that another payment of its
// payer, on whatever chain, is in the way of: settling it could charge the
// payer twice for one purchase.
type ConflictError struct {
	// Other is open, or was charged and answers for the authorization too.
	Other Intent
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("authorization %s of the same payer is %s", e.Other.Nonce, e.Other.State)
}

// InTheWay finds the payment of the payer because of which i, which is not
// known, is not to be settled now: an open one; one that was charged after i
// had been turned away because of it, which i's end tells (TurnedUntil), or
// that ends after i, which was signed before it and left; one that came after i
// (Since) and was charged already; or one that was charged while its payer was
// left in doubt, until a 200 has named it for a while. A payment identifier that
// the charge does not have makes i a purchase of its own.
func (l *Ledger) InTheWay(ctx context.Context, i Intent) (other Intent, found bool, err error) {
	i.IntentKey = i.Canonical()
	return first(collect(ctx, l, scanIntent, selectIntents+aheadOf+aheadFirst, l.ahead(i)...))
}

// aheadOf chooses the payments in the way of another one, and aheadFirst one of them:
// an open one before others.
var aheadOf = `offer = $1 AND payer = $2 AND id <> $3 AND (state = 'settling' OR (
		state = 'settled' AND ($4 = '' OR payment_id = $4) AND (
			turned_until >= $5 OR valid_before > $5 AND created_at + $8 > $5 OR told_at = 0 OR (doubt AND NOT ` + due("told_at", "$6", 2*protection) + `) OR ($7 > 0 AND id >= $7))))`

const aheadFirst = `
	ORDER BY CASE state WHEN 'settling' THEN 0 ELSE 1 END, id LIMIT 1`

// ahead are the arguments of aheadOf.
func (l *Ledger) ahead(i Intent) []any {
	return []any{i.Offer, i.From, i.ID, i.PaymentID, i.ValidBefore, l.now().Add(-protection).Unix(), i.Since, int64(quoted / time.Second)}
}

// Look is what is known of a new authorization, and of its payer.
type Look struct {
	// Known is the intent of the authorization; nil while there is none.
	Known *Intent
	// Ahead is what InTheWay finds; nil for nothing.
	Ahead *Intent
	// Since is the ID from which on an intent of the payer is newer than this look.
	Since int64
}

// Look is asked first about every authorization: of i it needs the key, the offer, the
// payment identifier and the end.
func (l *Ledger) Look(ctx context.Context, i Intent) (look Look, err error) {
	i.IntentKey, i.Since = i.Canonical(), 0
	found, err := collect(ctx, l, scanLooked, selectLook, append(l.ahead(i), i.Network, i.Asset, i.Nonce)...)
	look.Since = 1
	for n := range found {
		switch one := &found[n]; one.what {
		case "known":
			look.Known = &one.Intent
		case "ahead":
			look.Ahead = &one.Intent
		case "newest":
			look.Since = one.ID + 1
		}
	}
	return look, err
}

// selectLook reads all of it at one moment. Of the newest the id alone is asked for:
// what is long is not read.
var selectLook = `SELECT 'known' AS what, ` + intentColumns + ` FROM intents WHERE network = $9 AND asset = $10 AND payer = $2 AND nonce = $11
	UNION ALL SELECT 'ahead', ahead.* FROM (SELECT ` + intentColumns + ` FROM intents WHERE ` + aheadOf + aheadFirst + `) AS ahead
	UNION ALL SELECT 'newest', newest.* FROM (SELECT ` + shortColumns + ` FROM intents WHERE offer = $1 AND payer = $2 ORDER BY id DESC LIMIT 1) AS newest`

var shortColumns = strings.NewReplacer("payload, requirement", "CAST(NULL AS BYTEA), CAST(NULL AS BYTEA)", " answer", " CAST(NULL AS BYTEA)").Replace(intentColumns)

// looked is a row of it.
type looked struct {
	what string
	Intent
}

func scanLooked(row scanner) (found looked, err error) {
	err = row.Scan(append([]any{&found.what}, found.columns()...)...)
	return found, err
}

// TurnAway remembers that an authorization that ends at until (Unix seconds)
// was turned away because of the intent: it, and what its payer signed before,
// gets the intent's answer if that is charged. Whoever is turned away by an open
// one is in doubt about it. It returns the intent as it stands now. Errors:
// ErrNoIntent.
func (l *Ledger) TurnAway(ctx context.Context, key IntentKey, until int64) (now Intent, err error) {
	err = l.changeIntent(ctx, key, func(i *Intent) error {
		i.TurnedUntil = max(i.TurnedUntil, until)
		i.Doubt = i.Doubt || i.State == IntentSettling
		now = *i
		return nil
	})
	return now, err
}

// RejectIntent stores a new intent as refused: its authorization is never sent, whatever
// becomes of the payer's others. Errors: *IntentExistsError, errNotRegistered.
func (l *Ledger) RejectIntent(ctx context.Context, i Intent) error {
	i.State, i.Evidence = IntentRefused, ""
	if err := l.complete(&i); err != nil {
		return err
	}
	return l.transact(ctx, func(ctx context.Context, tx *transaction) error {
		if err := known(ctx, tx, i.IntentKey); err != nil {
			return err
		}
		inserted := insertIntent(tx, i)
		if err := tx.flush(ctx); err != nil {
			return err
		}
		if inserted.changed == 0 {
			return notRegistered(i)
		}
		return nil
	})
}

// DoubtIntent notes that an answer left the payer in doubt about the intent:
// what was told before counts no more. Errors: ErrNoIntent.
func (l *Ledger) DoubtIntent(ctx context.Context, key IntentKey) error {
	return l.changeIntent(ctx, key, func(i *Intent) error {
		i.Doubt, i.ToldAt = true, 0
		return nil
	})
}

// TellIntent notes that a 200 which names a charge was written. atOnce says
// that it was the answer to the request that brought the payment; any other
// came late, and its payer was in doubt. Only the first one of a settled intent
// counts. It is not waited for until it is on disk: where it is lost, the charge goes
// on answering for its payer.
func (l *Ledger) TellIntent(ctx context.Context, key IntentKey, atOnce bool) error {
	return l.gather(ctx, l.tellIntent(key.Canonical(), atOnce))
}

func (l *Ledger) tellIntent(key IntentKey, atOnce bool) change {
	return func(_ context.Context, tx *transaction) error {
		tx.dialect.hurry(tx)
		tx.put("noting that a charge was told", `
			UPDATE intents SET told_at = $5, updated_at = $5, doubt = doubt OR $6
			WHERE `+byIntentKey+` AND state = 'settled' AND told_at = 0`,
			key.Network, key.Asset, key.From, key.Nonce, l.now().Unix(), !atOnce)
		return nil
	}
}
