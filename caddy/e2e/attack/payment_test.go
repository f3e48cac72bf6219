package attack

import (
	"crypto/ecdsa"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/mpp"
)

type object = map[string]any

type payment struct {
	chain.Authorization
	buyer *ecdsa.PrivateKey
	// signature is a hexadecimal string or, in a forged payment, what stands in its place.
	signature any
	// extra are members that no payment has.
	extra object
	// id is the payment's identifier, and token that of the quote, if any.
	id, token string
	// challenge is that of the Payment scheme which the payment answers.
	challenge mpp.Challenge
}

// sign signs a new payment, as clients do for every call. It answers a challenge of the Payment scheme, so that it can be
// sent by every transport.
func (s *shop) sign(buyer *ecdsa.PrivateKey, changes ...func(*chain.Authorization)) payment {
	s.Helper()
	p := payment{Authorization: chain.NewAuthorization(s, chain.Address(buyer), s.payee, price), buyer: buyer}
	p.Network = s.chain.Network
	if s.process != nil {
		p.challenge = s.challenge(p.Network)
		p.Nonce = p.challenge.Nonce()
	}
	for _, change := range changes {
		change(&p.Authorization)
	}
	p.signature = p.Sign(s, buyer)
	return p
}

// call encodes the transaction that makes the payment.
func (s *shop) call(p payment) []byte {
	s.Helper()
	return p.Call(s, p.signature.(hexutil.Bytes))
}

// payload is the payment in a version of x402.
func (p payment) payload(version int) object {
	signed := object{"signature": p.signature, "authorization": p.Authorization}
	for name, value := range p.extra {
		signed[name] = value
	}
	if version == 1 {
		return object{"x402Version": 1, "scheme": "exact", "network": "base-sepolia", "payload": signed}
	}
	payload := object{
		"x402Version": 2,
		"accepted": object{
			"scheme": "exact", "network": caip2(p.Network), "asset": p.Network.USDC.Hex(), "amount": strconv.Itoa(price),
			"payTo": p.To.Hex(), "maxTimeoutSeconds": 300, "extra": object{"name": "USDC", "version": "2"},
		},
		"payload": signed,
	}
	extensions := object{}
	if p.id != "" {
		extensions["payment-identifier"] = object{"info": object{"required": false, "id": p.id}}
	}
	if p.token != "" {
		extensions["access"] = object{"info": object{"token": p.token}}
	}
	payload["extensions"] = extensions
	return payload
}

// caip2 is the name of a network in x402 version 2.
func caip2(n chain.Network) string { return "eip155:" + strconv.FormatInt(n.ID, 10) }

// nonce is the name of the payment in answers.
func (p payment) nonce() string { return strings.ToLower(p.Nonce.Hex()) }

func (m *market) encode(v any) []byte {
	m.Helper()
	data, err := json.Marshal(v)
	require.NoError(m, err)
	return data
}
