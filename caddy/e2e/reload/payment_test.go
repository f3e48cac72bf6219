package reload

import (
	"crypto/ecdsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// price is 42 USDC in atomic units.
const price = 42_000_000

// newBuyers returns new accounts that hold the price of one payment each. Few blocks move it to them: each is dated a second
// after the one before, and the chain must not run ahead of the clock.
func (s *shop) newBuyers(count int) (buyers []*ecdsa.PrivateKey) {
	s.Helper()
	rich := []*ecdsa.PrivateKey{s.chain.Buyers[0], s.chain.Buyers[1], s.chain.Payer}
	var gifts [][]byte
	for i := range count {
		key, from := chain.NewKey(s), rich[i%len(rich)]
		gift := chain.NewAuthorization(s, chain.Address(from), chain.Address(key), price)
		gifts, buyers = append(gifts, gift.Call(s, gift.Sign(s, from))), append(buyers, key)
	}
	for some := range slices.Chunk(gifts, 2) {
		_, err := s.chain.Send(chain.Multicall3, s.chain.Batch(s, some...))
		require.NoError(s, err)
		s.chain.Mine(s, 1)
	}
	for _, buyer := range buyers {
		require.Equal(s, big.NewInt(price), s.chain.BalanceOf(s, chain.Address(buyer)))
	}
	return buyers
}

// sign makes the header of a new payment, as a version 2 client sends it.
func (s *shop) sign(buyer *ecdsa.PrivateKey) http.Header {
	s.Helper()
	a := chain.NewAuthorization(s, chain.Address(buyer), s.payee, price)
	return chain.Payment(s, a.Payload(a.Sign(s, buyer)))
}

// pay sends a payment, the same one until it is answered. It may be called beside the test's goroutine.
func (s *shop) pay(client *http.Client, payment http.Header) answer {
	return ask(client, http.MethodPost, s.url+"/v1/sponsor", "", payment)
}

// transaction is what the answer to a payment names; empty for any but a 200.
func (a answer) transaction() string {
	var response struct {
		Success     bool
		Transaction string
	}
	data, err := base64.StdEncoding.DecodeString(a.header.Get("PAYMENT-RESPONSE"))
	if a.status != http.StatusOK || err != nil || json.Unmarshal(data, &response) != nil || !response.Success {
		return ""
	}
	return response.Transaction
}

// requirePaid pays and requires the 200.
func (s *shop) requirePaid(client *http.Client, buyer *ecdsa.PrivateKey) (transaction string) {
	s.Helper()
	a := s.pay(client, s.sign(buyer))
	require.NotEmpty(s, a.transaction(), "%d: %s", a.status, a.body)
	return a.transaction()
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
