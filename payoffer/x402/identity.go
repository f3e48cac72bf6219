package x402

import (
	"errors"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Identity names the payment of an attempt in the ledger. SecretHash is the hash of the attempt's secret, or empty
// (ledger.Intent.Secret).
type Identity struct{ Account, Payer, Nonce, SecretHash string }

// Identify decodes a payment without charging it. It does no I/O and does not check the signature, nor the price and
// the payee, which may have changed since the payment.
func (s *Service) Identify(a Attempt) (Identity, error) {
	p, err := a.decode()
	if err != nil {
		return Identity{}, err
	}
	network, err := offer.LookupNetwork(p.network)
	if err != nil || p.asset != strings.ToLower(network.USDC) {
		return Identity{}, errors.New("the payment is not in USDC on a known network")
	}
	key := p.key()
	return Identity{offer.USDCAccount(network, p.authorization.To), key.From, key.Nonce, p.secret}, nil
}

// decode reads the payload and the secret of an attempt.
func (a Attempt) decode() (*payment, error) {
	p, err := decodePayment(a.Payload)
	if err != nil {
		return nil, err
	}
	p.response = a.Response
	if a.Secret != "" {
		p.secret = hashSecret(a.Secret)
	}
	return p, nil
}
