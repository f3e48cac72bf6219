package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

// Apply changes an intent by the table of package accounting (Progress.Next), and returns it. A withdrawn intent is
// deleted, so that the same authorization is accepted again. Errors: ErrNoIntent, ErrIntentState, ErrLeaseHeld, and
// ErrTransaction for a new claim of a transaction that another intent of the network names and that was not refused.
func (l *Ledger) Apply(ctx context.Context, key IntentKey, c IntentChange) (Intent, error) {
	return l.change(ctx, key, func(i *Intent) (err error) {
		i.Progress, err = i.Next(c, l.now())
		return err
	})
}

// change runs f on the stored intent and stores the result. Nothing changes the intent meanwhile. f may run again.
func (l *Ledger) change(ctx context.Context, key IntentKey, f func(*Intent) error) (i Intent, err error) {
	key = key.Canonical()
	err = l.writeSums(ctx, nil, func(ctx context.Context, r *recorder) error {
		old, err := intentOf(ctx, r.tx, byIntentKey+r.forUpdate, key.Network, key.Asset, key.From, key.Nonce)
		if err != nil {
			return err
		}
		i = old
		if err := f(&i); err != nil || reflect.DeepEqual(old, i) {
			return err
		}
		if i.State == accounting.IntentWithdrawn {
			return r.withdraw(ctx, old)
		}
		if i.isClaim() && !old.isClaim() {
			if err := requireUnclaimed(ctx, r.tx, i); err != nil {
				return err
			}
		}
		return r.updateIntent(ctx, old, &i)
	})
	return i, err
}

// requireUnclaimed returns ErrTransaction if another intent names the transaction of a claim.
// The unique index intents_claimed rejects two claims that are made at the same time.
func requireUnclaimed(ctx context.Context, tx *sql.Tx, i Intent) error {
	_, named, err := atMostOne(query(ctx, tx, scanValue[int64], `
		SELECT id FROM intents WHERE network = $1 AND tx = $2 AND tx <> '' AND state <> 'refused' AND id <> $3 LIMIT 1`, i.Network, i.Transaction, i.ID))
	if err == nil && named {
		err = ErrTransaction
	}
	return err
}

// updateIntent stores the changed fields of an intent, and adds to the change of the sums.
func (r *recorder) updateIntent(ctx context.Context, old Intent, next *Intent) error {
	next.UpdatedAt = r.now
	r.delta.Change(old.total(), next.total())
	r.changed = r.changed || old.State != next.State || old.Evidence != next.Evidence
	return intentTable.update(ctx, r.tx, old.ID, old, *next)
}

// withdraw deletes an intent. If its payer may still expect it, a row remembers it for insertIntent.
func (r *recorder) withdraw(ctx context.Context, i Intent) error {
	r.changed = true
	if _, err := execute(ctx, r.tx, "deleting expired withdrawn intents", `DELETE FROM intents
		WHERE offer = $1 AND payer = $2 AND state = 'refused' AND reason = $3 AND rejected_until <= $4`,
		i.Offer, i.From, reasonWithdrawn, r.now); err != nil {
		return err
	}
	if i.Facilitator != "" && !i.Unacknowledged {
		_, err := execute(ctx, r.tx, "withdrawing the intent", `DELETE FROM intents WHERE id = $1`, i.ID)
		return err
	}
	// insertIntent reads this row. No authorization has its nonce.
	remembered := i
	remembered.State, remembered.Reason, remembered.Nonce = IntentRefused, reasonWithdrawn, fmt.Sprintf("%s/%d", i.Nonce, i.ID)
	remembered.RejectedUntil = max(i.RejectedUntil, min(i.ValidBefore, r.now+int64(rememberedFor/time.Second)))
	remembered.Payload, remembered.Requirement = []byte{}, []byte{}
	return r.updateIntent(ctx, i, &remembered)
}

// reasonWithdrawn is the reason of a row that remembers a withdrawn intent.
const reasonWithdrawn = "withdrawn"

// rememberedFor bounds how long a withdrawn intent is remembered. Payments that are valid
// for longer are refused.
const rememberedFor = 15 * time.Minute
