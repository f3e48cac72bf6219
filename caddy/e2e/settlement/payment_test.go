package settlement

import (
	"crypto/ecdsa"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// payment is a signed payment of the price, as a version 2 client sends it.
type payment struct {
	chain.Authorization
	buyer     *ecdsa.PrivateKey
	signature hexutil.Bytes
	payload   []byte
}

func (p payment) attempt() x402.Attempt {
	return x402.Attempt{Payload: p.payload, Client: "127.0.0.1"}
}

// key is the payment's name in the ledger.
func (p payment) key() ledger.IntentKey {
	return ledger.IntentKey{
		Network: caip2(p.Network), Asset: strings.ToLower(p.Network.USDC.Hex()),
		From: strings.ToLower(p.From.Hex()), Nonce: p.Nonce.Hex(),
	}
}

// call encodes the transaction that makes the payment.
func (p payment) call(t *testing.T) []byte { return p.Call(t, p.signature) }

// front makes the payment on the chain, as anybody can who has seen it.
func (s *shop) front(p payment) common.Hash {
	s.Helper()
	transaction := lab.Must(s.chain.Send(s.chain.USDC, p.Call(s, s.chain.Deploy(s, p.signature))))(s)
	s.chain.Mine(s, 1)
	require.True(s, s.chain.Succeeded(s, transaction))
	return transaction
}

// payment signs a new payment by a buyer.
func (s *shop) payment(buyer *ecdsa.PrivateKey) payment {
	s.Helper()
	return s.sign(chain.NewAuthorization(s, chain.Address(buyer), s.payee, price).Nonce, buyer)
}

// sign signs a payment with a nonce.
func (s *shop) sign(nonce common.Hash, buyer *ecdsa.PrivateKey) payment {
	s.Helper()
	p := payment{buyer: buyer, Authorization: chain.NewAuthorization(s, chain.Address(buyer), s.payee, price)}
	p.Network, p.Nonce = s.chain.Network, nonce
	p.signature = p.Sign(s, buyer)
	p.encode(s.T)
	return p
}

// paymentOf signs a new payment by an account of any kind.
func (s *shop) paymentOf(account chain.Account) payment {
	s.Helper()
	p := payment{Authorization: chain.NewAuthorization(s, account.Address, s.payee, price)}
	p.Network = s.chain.Network
	p.signature = account.Sign(s, p.Authorization)
	p.encode(s.T)
	return p
}

// encode writes the payload.
func (p *payment) encode(t *testing.T) {
	t.Helper()
	var err error
	p.payload, err = json.Marshal(p.Payload(p.signature))
	require.NoError(t, err)
}

// caip2 is the name of a network in x402 version 2.
func caip2(n chain.Network) string { return "eip155:" + strconv.FormatInt(n.ID, 10) }
