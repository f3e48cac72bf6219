package x402

import (
	"context"
	"errors"
	"fmt"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

const (
	// minSignature is the length of an ECDSA signature in bytes.
	minSignature = 65
	// maxSignature bounds that of a contract wallet. The longest ones in use,
	// several passkeys (about 700 bytes each) of an account that is still to be
	// deployed (1 to 2 KB), stay below half of it, and each byte is paid for as
	// calldata by whoever settles.
	maxSignature = 8 << 10
)

// checkSignature checks the length of a signature. What it must look like is for the
// payer's account to say: a contract may take any bytes.
func checkSignature(signature []byte) error {
	if len(signature) < minSignature || len(signature) > maxSignature {
		return fmt.Errorf("'payload.signature' must be 0x and %d to %d bytes of hexadecimal", minSignature, maxSignature)
	}
	return nil
}

// prove asks the chain about a signature that is not that of the payer's key: the payer
// may be a contract (ERC-1271, EIP-7702) or become one (ERC-6492). If the chain cannot be
// asked, the signature stays unproven and the facilitator decides.
func (s *Service) prove(ctx context.Context, p *payment, rail *Rail) *refusal {
	if p.proven || rail.Chain == nil {
		return nil
	}
	valid, err := rail.Chain.Signed(ctx, p.authorization.From, digest(p.authorization, rail.terms.domain), p.signature)
	switch {
	case err != nil:
		s.Logger.Warn("signature could not be checked", "network", p.network, "error", err.Error())
		return nil
	case !valid:
		return refusedSignature
	}
	p.proven = true
	return nil
}

// refusedSignature refuses what neither a key nor the chain takes for the payer's.
var refusedSignature = &refusal{reason: reasonSignature, detail: "The signature is not that of 'from' for this authorization, token and chain."}

// reasonRejected says that another payment of the payer is or was in the way.
const reasonRejected = "payer_has_open_payment"

// reject answers a payment whose signature is not proven if another payment of the payer is
// in the way. The ledger remembers it, so that it is never sent. It does not get the other
// payment's answer, and it changes nothing about the other payment.
func (s *Service) reject(ctx context.Context, p *payment, i, other ledger.Intent) Outcome {
	if !p.isAnother(other) {
		i.Reason = reasonRejected
		if err := s.Ledger.RejectIntent(ctx, i); err != nil {
			if exists, ok := errors.AsType[*ledger.IntentExistsError](err); ok {
				return s.replay(ctx, p, exists.Existing)
			}
			return p.unreadable()
		}
	}
	o := p.rejected()
	o.Intent = other.Nonce
	return o
}

func (p *payment) rejected() Outcome {
	return p.outcome(Conflict, reasonRejected, "This payment was not sent, because another payment of its payer came first. "+
		"Send that one again to learn its outcome. Sign a new one only if it was not charged.")
}
