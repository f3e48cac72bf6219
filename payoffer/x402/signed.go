package x402

import (
	"context"
	"errors"
	"fmt"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/signature"
)

var (
	// ErrNotValid is of a statement that nobody who may make it has signed.
	ErrNotValid = errors.New("NOT VALID")
	// ErrNotVerified is of a statement whose key was not found.
	ErrNotVerified = errors.New("NOT VERIFIED")
)

// Signed is a statement with a signature that has not been checked.
type Signed struct {
	Statement
	// Origin is that of the statement's own URL, which alone may sign it (section
	// 4.5.1 of the extension).
	Origin string
	// KeyID names the key that is said to have signed.
	KeyID string
	jws   *signature.JWS
}

// ParseSigned reads a signed artifact in compact form. Error: ErrNotValid.
func ParseSigned(compact string) (Signed, error) {
	jws, err := signature.ParseJWS(compact)
	if err != nil {
		return Signed{}, fmt.Errorf("%w: it %w", ErrNotValid, err)
	}
	statement, err := ParseStatement(jws.Payload)
	if err != nil {
		return Signed{}, fmt.Errorf("%w: it %w", ErrNotValid, err)
	}
	resource, err := offer.ParseURL(statement.ResourceURL())
	if err != nil {
		return Signed{}, fmt.Errorf("%w: its resourceUrl names no domain: %w", ErrNotValid, err)
	}
	return Signed{statement, offer.Origin(resource), jws.KeyID, jws}, nil
}

// Verify asks the domain of the statement's URL for the key. Errors: ErrNotValid,
// ErrNotVerified. They may repeat what the statement says.
func (s Signed) Verify(ctx context.Context, keys *signature.Resolver) error {
	key, err := keys.Key(ctx, s.Origin, s.KeyID)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotVerified, err)
	}
	if !s.jws.VerifiedBy(key) {
		return fmt.Errorf("%w: the signature is not that of the key which %s publishes; the text was changed, or somebody else signed it",
			ErrNotValid, offer.Host(s.Origin))
	}
	return nil
}
