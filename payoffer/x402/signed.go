package x402

import (
	"context"
	"errors"
	"fmt"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/signature"
)

var (
	// ErrNotValid: the statement was not signed by the key of its domain.
	ErrNotValid = errors.New("NOT VALID")
	// ErrNotVerified: the key of the statement was not found.
	ErrNotVerified = errors.New("NOT VERIFIED")
)

// Signed is an offer or a receipt with an unchecked signature.
type Signed struct {
	Offer   *OfferPayload
	Receipt *ReceiptPayload
	// Origin is that of the statement's URL. Only its key may sign (section 4.5.1 of the extension).
	Origin string
	KeyID  string
	jws    *signature.JWS
}

// ParseSigned reads a signed artifact in compact form. Error: ErrNotValid.
func ParseSigned(compact string) (s Signed, err error) {
	jws, err := signature.ParseJWS(compact)
	var resourceURL string
	if err == nil {
		s, resourceURL, err = parseStatement(jws.Payload)
	}
	if err != nil {
		return s, fmt.Errorf("%w: it %w", ErrNotValid, err)
	}
	resource, err := offer.ParseURL(resourceURL)
	if err != nil {
		return s, fmt.Errorf("%w: its resourceUrl names no domain: %w", ErrNotValid, err)
	}
	s.Origin, s.KeyID, s.jws = offer.Origin(resource), jws.KeyID, jws
	return s, nil
}

// Verify checks the signature with the key that the domain of the statement's URL publishes. Errors:
// ErrNotValid, ErrNotVerified. They may repeat parts of the statement.
func (s Signed) Verify(ctx context.Context, keys *signature.Resolver) error {
	key, err := keys.Key(ctx, s.Origin, s.KeyID)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotVerified, err)
	}
	if !s.jws.VerifiedBy(key) {
		return fmt.Errorf("%w: the key that %s publishes did not make this signature; the text was changed or another key signed it: do not trust it",
			ErrNotValid, offer.Host(s.Origin))
	}
	return nil
}
