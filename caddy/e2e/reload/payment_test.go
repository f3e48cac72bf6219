package reload

import (
	"crypto/ecdsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"net/http"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// price is 42 USDC in atomic units.
const price = 42_000_000

// sign makes the header of a new payment, as a version 2 client sends it.
func (s *shop) sign(buyer *ecdsa.PrivateKey) http.Header {
	s.Helper()
	a := chain.NewAuthorization(s, chain.Address(buyer), s.payee, price)
	return chain.Payment(s, a.Payload(a.Sign(s, buyer)))
}

// pay sends a payment, the same one until it is answered. It may be called beside the test's goroutine.
func (s *shop) pay(client *http.Client, payment http.Header) server.Answer {
	return server.Ask(client, http.MethodPost, s.url+"/v1/sponsor", "", payment)
}

// transaction is what the answer to a payment names; empty for any but a 200.
func transaction(a server.Answer) string {
	var response struct {
		Success     bool
		Transaction string
	}
	data, err := base64.StdEncoding.DecodeString(a.Header.Get("PAYMENT-RESPONSE"))
	if a.Status != http.StatusOK || err != nil || json.Unmarshal(data, &response) != nil || !response.Success {
		return ""
	}
	return response.Transaction
}

// requirePaid pays and requires the 200.
func (s *shop) requirePaid(buyer *ecdsa.PrivateKey) string {
	s.Helper()
	a := s.pay(server.Client, s.sign(buyer))
	require.NotEmpty(s, transaction(a), "%d: %s", a.Status, a.Body)
	return transaction(a)
}

// requireCharged compares the chain with what the answers to the payments named: each happened, once.
func (s *shop) requireCharged(transactions []string) {
	s.Helper()
	var charged []string
	for _, transfer := range s.chain.TransfersTo(s, s.payee) {
		require.Equal(s, big.NewInt(price), transfer.Value)
		charged = append(charged, transfer.Tx.Hex())
	}
	require.ElementsMatch(s, transactions, charged)
}

// hold makes the facilitator wait with each broadcast until release.
func (s *shop) hold() (release func()) {
	held := make(chan struct{})
	s.held.Store(&held)
	return func() { close(held) }
}

// broadcast is what the facilitator does: as the reference one, it tries a call before it pays for it, and answers when
// the transaction is in a block.
func (s *shop) broadcast(settlement payoffertest.Settlement) (string, error) {
	if held := s.held.Load(); held != nil {
		<-*held
	}
	hash, err := s.chain.Broadcast(s, settlement)
	if err != nil {
		return "", err
	}
	s.chain.Mine(s, 1)
	if !s.chain.Succeeded(s, hash) {
		return "", errors.New("the transaction was reverted")
	}
	return hash.Hex(), nil
}
