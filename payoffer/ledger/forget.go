package ledger

import (
	"context"
	"time"
)

const (
	// payloadMargin is how long after the end of an authorization what was sent of it
	// is kept: longer than any clock here is wrong, or a block takes to be final.
	payloadMargin = 24 * time.Hour
	// payloadBatch bounds how many are forgotten at once.
	payloadBatch = 500
)

// ForgetPayloads takes the bytes for a facilitator out of some intents that are decided
// and can be sent no more, for their authorizations have ended: the answer and what
// tells them from others stay. An intent that the chain opens again is not sent again
// either.
func (l *Ledger) ForgetPayloads(ctx context.Context) error {
	return l.transact(ctx, func(_ context.Context, tx *transaction) error {
		tx.put("forgetting payloads", `
			UPDATE intents SET payload = $1, requirement = $1 WHERE id IN (
				SELECT id FROM intents WHERE length(payload) > 0 AND valid_before < $2 AND state <> 'settling' ORDER BY valid_before LIMIT $3)`,
			[]byte{}, l.now().Add(-payloadMargin).Unix(), payloadBatch)
		return nil
	})
}
