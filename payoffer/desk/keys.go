package desk

import "context"

// KeyRotation asks for a new signing key.
type KeyRotation struct {
	// Offer is the id of the offer; empty where there is one alone.
	Offer string `json:"offer,omitempty"`
	// Revoke withdraws all former keys.
	Revoke bool `json:"revoke,omitempty"`
}

// RotatedKey is the answer.
type RotatedKey struct {
	Offer string `json:"offer"`
	// KeyID is the whole id, as in "did:web:pay.example.org#key".
	KeyID string `json:"key_id"`
	// SignsFrom is when it begins to sign (RFC 3339).
	SignsFrom string `json:"signs_from"`
	Revoked   bool   `json:"revoked"`
}

// RotateKey makes a new key for signed offers and receipts.
func (d *Desk) RotateKey(ctx context.Context, revoke bool) (RotatedKey, error) {
	id, from, err := d.Rotate(ctx, revoke)
	if err != nil {
		return RotatedKey{}, &Error{Unavailable, "Caddy's storage cannot be used now, the keys stay as they are; the log says why, try again", err}
	}
	key := RotatedKey{Offer: d.Offer.ID, KeyID: id, SignsFrom: moment(from.Unix()), Revoked: revoke}
	d.Logger.Info("the operator rotated the signing key",
		"key_id", key.KeyID, "signs_from", key.SignsFrom, "revoked", key.Revoked)
	return key, nil
}
