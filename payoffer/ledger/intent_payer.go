package ledger

import (
	"context"
	"fmt"
	"strings"
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

func (e *ConflictError) Error() string {
	return fmt.Sprintf("authorization %s of the same payer is %s", e.Other.Nonce, e.Other.State)
}

// ConflictingPayment finds the payment of the payer because of which a new authorization i
// must not be settled now; the cases are those of conflicts.
func (l *Ledger) ConflictingPayment(ctx context.Context, i Intent) (other Intent, found bool, err error) {
	i.IntentKey = i.Canonical()
	return first(collect(ctx, l, scanIntent, selectIntents+conflicts+openFirst, l.conflictArgs(i)...))
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
	rows, err := collect(ctx, l, scanLookup, selectLookup, append(l.conflictArgs(i), i.Network, i.Asset, i.Nonce)...)
	known.Since = 1
	for n := range rows {
		switch row := &rows[n]; row.role {
		case "known":
			known.Known = &row.Intent
		case "conflicting":
			known.Conflicting = &row.Intent
		case "newest":
			known.Since = row.ID + 1
		}
	}
	return known, err
}

// selectLookup is one statement, so that its parts agree. Of the newest intent only the ID is needed.
var selectLookup = `SELECT 'known' AS role, ` + intentColumns + ` FROM intents WHERE network = $9 AND asset = $10 AND payer = $2 AND nonce = $11
	UNION ALL SELECT 'conflicting', c.* FROM (SELECT ` + intentColumns + ` FROM intents WHERE ` + conflicts + openFirst + `) AS c
	UNION ALL SELECT 'newest', newest.* FROM (SELECT ` + shortColumns + ` FROM intents WHERE offer = $1 AND payer = $2 ORDER BY id DESC LIMIT 1) AS newest`

var shortColumns = strings.NewReplacer("payload, requirement", "CAST(NULL AS BYTEA), CAST(NULL AS BYTEA)", " answer", " CAST(NULL AS BYTEA)").Replace(intentColumns)

type lookupRow struct {
	role string
	Intent
}

func scanLookup(row scanner) (found lookupRow, err error) {
	err = row.Scan(append([]any{&found.role}, found.columns()...)...)
	return found, err
}

// RecordRejection records that an authorization that ends at until (Unix seconds) was rejected
// because of the intent. If the intent is charged, it is the response to all that end by then.
// It returns the stored intent. Error: ErrNoIntent.
func (l *Ledger) RecordRejection(ctx context.Context, key IntentKey, until int64) (now Intent, err error) {
	err = l.changeIntent(ctx, key, func(i *Intent) error {
		i.RejectedUntil = max(i.RejectedUntil, until)
		i.Unacknowledged = i.Unacknowledged || i.State == IntentSettling
		now = *i
		return nil
	})
	return now, err
}

// RejectIntent stores a new intent as refused: its authorization is never sent. Errors:
// *IntentExistsError, errNotRegistered.
func (l *Ledger) RejectIntent(ctx context.Context, i Intent) error {
	i.State, i.Evidence = IntentRefused, ""
	if err := l.complete(&i); err != nil {
		return err
	}
	return l.transact(ctx, func(ctx context.Context, tx *transaction) error {
		if err := requireUnknown(ctx, tx, i.IntentKey); err != nil {
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

// UnacknowledgeIntent records that the payer got a response without the outcome of the
// intent. Earlier acknowledgements no longer count. Error: ErrNoIntent.
func (l *Ledger) UnacknowledgeIntent(ctx context.Context, key IntentKey) error {
	return l.changeIntent(ctx, key, func(i *Intent) error {
		i.Unacknowledged, i.AcknowledgedAt = true, 0
		return nil
	})
}

// AcknowledgeIntent records that a 200 that names the charge was written. atOnce reports whether
// it was the response to the first request. Only the first call for a settled intent counts. The commit is
// asynchronous: if it is lost, the charge stays the response to the payer's authorizations.
func (l *Ledger) AcknowledgeIntent(ctx context.Context, key IntentKey, atOnce bool) error {
	return l.transactGrouped(ctx, l.acknowledgeIntent(key.Canonical(), atOnce))
}

func (l *Ledger) acknowledgeIntent(key IntentKey, atOnce bool) change {
	return func(_ context.Context, tx *transaction) error {
		tx.dialect.commitAsync(tx)
		tx.queue("acknowledging a charge", `
			UPDATE intents SET acknowledged_at = $5, updated_at = $5, unacknowledged = unacknowledged OR $6
			WHERE `+byIntentKey+` AND state = 'settled' AND acknowledged_at = 0`,
			key.Network, key.Asset, key.From, key.Nonce, l.now().Unix(), !atOnce)
		return nil
	}
}
