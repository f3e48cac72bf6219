package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

// Pass opens the gates of an offer without a payment.
type Pass struct {
	ID, Offer string
	Note      string // the operator's, which is private
	// CreatedAt is set by the ledger. RevokedAt is 0 if it was not revoked. All are Unix seconds.
	CreatedAt, ExpiresAt, RevokedAt int64
}

var passTable = table[Pass]{"passes", func(p *Pass) []column {
	return []column{
		{"id", &p.ID}, {"offer", &p.Offer}, {"note", &p.Note},
		{"created_at", &p.CreatedAt}, {"expires_at", &p.ExpiresAt}, {"revoked_at", &p.RevokedAt},
	}
}}

// InsertPass stores a new pass.
func (l *Ledger) InsertPass(ctx context.Context, p Pass) error {
	if p.ID == "" || p.Offer == "" || !accounting.Storable(p.ID, p.Offer) {
		return errors.New("the pass lacks an id or an offer, or one is not UTF-8; report this as a bug")
	}
	if !accounting.Storable(p.Note) {
		return errors.New("the note of the pass is not UTF-8 or contains U+0000; write it in plain text")
	}
	p.CreatedAt, p.RevokedAt = l.now().Unix(), 0
	return l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := passTable.insert(ctx, tx, "", p)
		return err
	})
}

// Passes returns all passes of an offer, newest first.
func (l *Ledger) Passes(ctx context.Context, offer string) ([]Pass, error) {
	return passTable.read(ctx, l, `offer = $1 ORDER BY created_at DESC, id`, offer)
}

// Pass reads one pass of an offer.
func (l *Ledger) Pass(ctx context.Context, offer, id string) (Pass, bool, error) {
	return atMostOne(passTable.read(ctx, l, `offer = $1 AND id = $2`, offer, id))
}

// RevokePass revokes a pass. It is idempotent.
func (l *Ledger) RevokePass(ctx context.Context, offer, id string) error {
	revoked, err := l.writeStatement(ctx, "revoking the pass", `
		UPDATE passes SET revoked_at = CASE revoked_at WHEN 0 THEN $1 ELSE revoked_at END
		WHERE offer = $2 AND id = $3`, l.now().Unix(), offer, id)
	if err == nil && revoked == 0 {
		err = fmt.Errorf("the offer %q has no pass %q; list its passes with 'caddy pay-offer pass'", offer, id)
	}
	return err
}

// DeletePass deletes a pass and its browsers. It is idempotent.
func (l *Ledger) DeletePass(ctx context.Context, offer, id string) error {
	return l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := execute(ctx, tx, "deleting the browsers of the pass", `DELETE FROM entries WHERE offer = $1 AND payment = $2`, offer, "pass:"+id)
		if err == nil {
			_, err = execute(ctx, tx, "deleting the pass", `DELETE FROM passes WHERE offer = $1 AND id = $2`, offer, id)
		}
		return err
	})
}
