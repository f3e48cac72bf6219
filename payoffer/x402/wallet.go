package x402

import (
	"context"
	"errors"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

const (
	// minSignature is the length of an ECDSA signature in bytes.
	minSignature = 65
	// maxSignature is twice the longest contract wallet signatures in use: several passkeys
	// (about 700 bytes each) and the deployment of the account (1 to 2 KB).
	maxSignature = 8 << 10
)

// prove asks the chain about a signature that the payer's key did not make: the payer may be a
// contract (ERC-1271, EIP-7702) or become one (ERC-6492). If the chain cannot be read, the
// signature stays unproven and the facilitator decides.
func (s *Service) prove(ctx context.Context, p *payment, rail *Rail) *assessment {
	if p.proven || rail.Chain == nil {
		return nil
	}
	valid, err := rail.Chain.Signed(ctx, p.authorization.From, digest(p.authorization, rail.terms.domain), p.signature)
	switch {
	case err != nil:
		s.Logger.Warn("wallet signature not checked on the chain", "network", p.network, "error", err.Error(), "hint", hintChain)
		return nil
	case !valid:
		return refusedSignature
	}
	p.proven = true
	return nil
}

var refusedSignature = declined(reasonSignature, "The signature was not made by 'authorization.from' for this authorization, token and chain. Sign again with that account.")

// reasonRejected: another payment of the payer is or was in conflict with this one.
const reasonRejected = "payer_has_open_payment"

// reject stores and answers a payment with an unproven signature that conflicts with another one, so that it is never
// sent. Its sender does not get the other payment's outcome, and the other payment does not change.
func (s *Service) reject(ctx context.Context, p *payment, i, other ledger.Intent) Outcome {
	if !p.isOtherPurchase(other) {
		i.Reason = reasonRejected
		if err := s.Ledger.RejectIntent(ctx, i); err != nil {
			if exists, ok := errors.AsType[*ledger.IntentExistsError](err); ok {
				return s.replay(ctx, p, exists.Existing)
			}
			return p.ledgerUnavailable()
		}
	}
	o := p.rejected()
	o.Intent = other.Nonce
	return o
}

func (p *payment) rejected() Outcome {
	return p.answer(assessment{event: accounting.EventForged, reason: reasonRejected, detail: "This payment was not sent, because another payment of this payer " +
		"came first. Send that one again to learn its outcome. Sign a new one only if that one was not charged."})
}
