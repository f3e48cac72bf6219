package operator

import (
	"context"
	"errors"
)

// KeyRotation asks for a new signing key.
type KeyRotation struct {
	Offer  string `json:"offer,omitempty"`  // its id; empty where there is one alone
	Revoke bool   `json:"revoke,omitempty"` // withdraw all former keys
}

// RotatedKey is the answer.
type RotatedKey struct {
	Offer     string `json:"offer"`
	KeyID     string `json:"key_id"`     // the whole id, as in "did:web:pay.example.org#key"
	SignsFrom string `json:"signs_from"` // when it begins to sign (RFC 3339)
	Revoked   bool   `json:"revoked"`
}

// RotateKey makes a new key for signed offers and receipts.
func (d *Desk) RotateKey(ctx context.Context, revoke bool) (RotatedKey, error) {
	id, from, err := d.Rotate(ctx, revoke)
	if refused := (*Error)(nil); errors.As(err, &refused) {
		return RotatedKey{}, refused
	}
	if err != nil {
		return RotatedKey{}, &Error{Unavailable, "Caddy's storage cannot be used now, the keys stay as they are; the log says why, try again", err}
	}
	key := RotatedKey{Offer: d.Offer.ID, KeyID: id, SignsFrom: moment(from.Unix()), Revoked: revoke}
	d.Logger.Info("the operator rotated the signing key",
		"key_id", key.KeyID, "signs_from", key.SignsFrom, "revoked", key.Revoked)
	return key, nil
}
