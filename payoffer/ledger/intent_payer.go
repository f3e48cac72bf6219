package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// protection is the time after the first 200 in which a charge that was unacknowledged before
// stays the response to the payer's next authorizations. That 200 may have gone to a stranger,
// because the signature of a settled authorization is public on the chain.
const protection = 2 * time.Minute

// quoted is the validity of an authorization (x402, maxTimeoutSeconds).
const quoted = 5 * time.Minute

// ConflictError is returned for an authorization that must not be settled because of another
// payment of its payer, on any chain: the payer could be charged twice for one purchase.
type ConflictError struct {
	// Other is open, or a charge that is the response to the authorization.
	Other Intent
}

func (c *ConflictError) Error() string {
	return fmt.Sprintf("authorization %s of the same payer is %s", c.Other.Nonce, c.Other.State)
}

// ConflictingPayment finds the payment of the payer because of which a new authorization i
// must not be settled now; the cases are those of conflicts.
func (l *Ledger) ConflictingPayment(ctx context.Context, i Intent) (other Intent, found bool, err error) {
	i.IntentKey = i.Canonical()
	return atMostOne(intentTable.read(ctx, l, conflicts+openFirst, l.conflictArgs(i)...))
}

// conflicts selects the payer's other intents that are open, and the charges that are the
// response to a new authorization ($5 is its end) without its own payment identifier ($4), because
//   - it, or one that ends later, was rejected because of the charge,
//   - it was signed before the charge: it does not end later, and ends within the time of a quote,
//   - the payer may not have received a 200 for the charge, or only just has,
//   - the charge was made after the request had begun ($7, Since).
var conflicts = `offer = $1 AND payer = $2 AND id <> $3 AND (state = 'settling' OR (
		state = 'settled' AND ($4 = '' OR payment_id = $4) AND (
			rejected_until >= $5
			OR valid_before >= $5 AND created_at + $8 > $5
			OR acknowledged_at = 0 OR (unacknowledged AND NOT ` + due("acknowledged_at", "$6", 2*protection) + `)
			OR ($7 > 0 AND id >= $7))))`

const openFirst = `
	ORDER BY CASE state WHEN 'settling' THEN 0 ELSE 1 END, id LIMIT 1`

// conflictArgs are the arguments of conflicts.
func (l *Ledger) conflictArgs(i Intent) []any {
	return []any{i.Offer, i.From, i.ID, i.PaymentID, i.ValidBefore, l.now().Add(-protection).Unix(), i.Since, int64(quoted / time.Second)}
}

// Lookup is the state of an authorization and of its payer in the ledger.
type Lookup struct {
	// Known is the intent of the authorization, or nil.
	Known *Intent
	// Conflicting is the result of ConflictingPayment, or nil.
	Conflicting *Intent
	// Since is above the IDs of all intents that the payer has now.
	Since int64
}

// LookUp reads the state of an authorization. It needs the key, the offer, the payment
// identifier and the end of i.
func (l *Ledger) LookUp(ctx context.Context, i Intent) (known Lookup, err error) {
	i.IntentKey, i.Since = i.Canonical(), 0
	err = l.whileReading(ctx, func(ctx context.Context, read *sql.DB) error {
		found, err := l.related(ctx, read, i)
		known = Lookup{Since: found.newest + 1}
		if err == nil && found.known != 0 {
			known.Known, err = pointer(atMostOne(intentTable.query(ctx, read, `id = $1`, found.known)))
		}
		if err == nil && found.conflicting != 0 { // unless it has changed since
			known.Conflicting, err = pointer(atMostOne(intentTable.query(ctx, read, `id = $9 AND `+conflicts,
				append(l.conflictArgs(i), found.conflicting)...)))
		}
		return err
	})
	return known, err
}

func pointer[T any](value T, found bool, err error) (*T, error) {
	if err != nil || !found {
		return nil, err
	}
	return &value, nil
}

// related are the IDs of intents that concern an intent, 0 for none: its own, the conflicting
// payment, one with its payment identifier that was not refused, and the newest of its payer.
type related struct{ known, conflicting, identified, newest int64 }

// related reads the IDs in one statement, so that they agree. The key of i is canonical.
func (l *Ledger) related(ctx context.Context, from queryer, i Intent) (r related, err error) {
	r, _, err = atMostOne(query(ctx, from, func(row scanner) (r related, err error) {
		err = row.Scan(&r.known, &r.conflicting, &r.identified, &r.newest)
		return r, err
	}, selectRelated, append(l.conflictArgs(i), i.Network, i.Asset, i.Nonce)...))
	return r, err
}

var selectRelated = `SELECT
	coalesce((SELECT id FROM intents WHERE network = $9 AND asset = $10 AND payer = $2 AND nonce = $11), 0),
	coalesce((SELECT id FROM intents WHERE ` + conflicts + openFirst + `), 0),
	coalesce((SELECT max(id) FROM intents WHERE payer = $2 AND payment_id = $4 AND payment_id <> '' AND state <> 'refused'), 0),
	coalesce((SELECT max(id) FROM intents WHERE offer = $1 AND payer = $2), 0)`

// RecordRejection records that an authorization that ends at until (Unix seconds) was rejected
// because of the intent. It returns the stored intent. Error: ErrNoIntent.
func (l *Ledger) RecordRejection(ctx context.Context, key IntentKey, until int64) (Intent, error) {
	return l.change(ctx, key, func(i *Intent) error {
		i.Reject(until)
		return nil
	})
}

// UnacknowledgeIntent records that the payer got a response without the outcome of the intent. Error: ErrNoIntent.
func (l *Ledger) UnacknowledgeIntent(ctx context.Context, key IntentKey) error {
	_, err := l.change(ctx, key, func(i *Intent) error {
		i.Unacknowledge()
		return nil
	})
	return err
}

// AcknowledgeIntent records that a 200 that names the charge was written. atOnce reports whether
// it was the response to the first request. Only the first call for a settled intent counts. The commit is
// asynchronous: if it is lost, the charge stays the response to the payer's authorizations.
func (l *Ledger) AcknowledgeIntent(ctx context.Context, key IntentKey, atOnce bool) error {
	key = key.Canonical()
	return l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := l.dialect.commitAsync(ctx, tx); err != nil {
			return err
		}
		_, err := execute(ctx, tx, "acknowledging a charge", `
			UPDATE intents SET acknowledged_at = $5, updated_at = $5, unacknowledged = unacknowledged OR $6
			WHERE `+byIntentKey+` AND state = 'settled' AND acknowledged_at = 0`,
			key.Network, key.Asset, key.From, key.Nonce, l.now().Unix(), !atOnce)
		return err
	})
}
