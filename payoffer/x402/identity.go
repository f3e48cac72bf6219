package x402

import (
	"errors"
	"strings"
)

// Identity names the payment of an attempt in the ledger. SecretHash is the hash of the attempt's secret, or empty
// (ledger.Intent.Secret).
type Identity struct{ Account, Payer, Nonce, SecretHash string }

// Identify decodes a payment without charging it. It does no I/O and does not check the signature or the price, which
// may have changed since the payment.
func (s *Service) Identify(a Attempt) (Identity, error) {
	p, err := a.decode()
	if err != nil {
		return Identity{}, err
	}
	for _, rail := range s.Rails {
		want := &rail.terms.accepted
		if p.network == want.Network && p.asset == strings.ToLower(want.Asset) && strings.EqualFold(p.authorization.To, want.PayTo) {
			key := p.key()
			return Identity{rail.USDC.Account(), key.From, key.Nonce, p.secret}, nil
		}
	}
	return Identity{}, errors.New("the payment is for another network, token or payee than those of this offer")
}

// decode reads the payload and the secret of an attempt.
func (a Attempt) decode() (*payment, error) {
	p, err := decodePayment(a.Payload)
	if err == nil && a.Secret != "" {
		p.secret = hashSecret(a.Secret)
	}
	return p, err
}
