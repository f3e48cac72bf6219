package e2e

import (
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
)

// The tests of this file need no server of ours. They show that the laboratory itself is sound, so that a failure of
// another test is one of the server.

func TestTheFacilitatorSettlesAnAuthorizationOnTheChain(t *testing.T) {
	for name, request := range map[string]func(chain.Authorization, []byte, string) object{
		"x402 version 1": requestV1,
		"x402 version 2": requestV2,
	} {
		t.Run(name, func(t *testing.T) {
			lab.RequireNode(t)
			c := chain.Start(t)
			facilitator := node.StartFacilitator(t, c.URL, c.Facilitator)
			payee := newAddress(t)
			a := chain.NewAuthorization(t, chain.Address(c.Buyers[0]), payee, price)
			body := request(a, a.Sign(t, c.Buyers[0]), payee.Hex())

			verified := post(t, facilitator+"/verify", body)
			require.Equal(t, true, verified["isValid"], "%v", verified)
			require.Empty(t, c.TransfersTo(t, payee), "verifying moves no money")

			settled := post(t, facilitator+"/settle", body)
			require.Equal(t, true, settled["success"], "%v", settled)
			transfers := c.TransfersTo(t, payee)
			require.Len(t, transfers, 1)
			require.Equal(t, transfers[0].Tx.Hex(), settled["transaction"])
			require.Equal(t, a.From, transfers[0].From)
			require.Equal(t, big.NewInt(price), transfers[0].Value)
		})
	}
}

func TestTheFacilitatorSettlesTwoPaymentsAtATime(t *testing.T) {
	lab.RequireNode(t)
	c := chain.Start(t)
	facilitator := node.StartFacilitator(t, c.URL, c.Facilitator)
	payee := newAddress(t)

	answers := make(chan object, len(c.Buyers))
	for _, buyer := range c.Buyers {
		a := chain.NewAuthorization(t, chain.Address(buyer), payee, price)
		body := requestV2(a, a.Sign(t, buyer), payee.Hex())
		go func() { answers <- post(t, facilitator+"/settle", body) }()
	}
	for range c.Buyers {
		settled := <-answers
		require.Equal(t, true, settled["success"], "%v", settled)
	}
	require.Len(t, c.TransfersTo(t, payee), len(c.Buyers))
}

func TestTheFacilitatorSaysWhyItRefuses(t *testing.T) {
	lab.RequireNode(t)
	c := chain.Start(t)
	facilitator := node.StartFacilitator(t, c.URL, c.Facilitator)
	buyer, payee := c.Buyers[0], newAddress(t)
	spent := chain.NewAuthorization(t, chain.Address(buyer), payee, price)
	settled := post(t, facilitator+"/settle", requestV2(spent, spent.Sign(t, buyer), payee.Hex()))
	require.Equal(t, true, settled["success"], "%v", settled)

	for reason, spoil := range map[string]func(*chain.Authorization){
		"invalid_exact_evm_payload_authorization_value_mismatch": func(a *chain.Authorization) { a.Value-- },
		"invalid_exact_evm_recipient_mismatch":                   func(a *chain.Authorization) { a.To = newAddress(t) },
		"invalid_exact_evm_payload_authorization_valid_before": func(a *chain.Authorization) {
			a.ValidBefore = time.Now().Add(-time.Second).Unix()
		},
		"invalid_exact_evm_payload_authorization_valid_after": func(a *chain.Authorization) {
			a.ValidAfter = time.Now().Add(time.Hour).Unix()
		},
		"invalid_exact_evm_nonce_already_used": func(a *chain.Authorization) { a.Nonce = spent.Nonce },
		"invalid_exact_evm_signature":          func(a *chain.Authorization) { a.From = chain.Address(c.Buyers[1]) },
	} {
		t.Run(reason, func(t *testing.T) {
			a := chain.NewAuthorization(t, chain.Address(buyer), payee, price)
			spoil(&a)
			body := requestV2(a, a.Sign(t, buyer), payee.Hex())

			verified := post(t, facilitator+"/verify", body)
			require.Equal(t, false, verified["isValid"])
			require.Equal(t, reason, verified["invalidReason"], "%v", verified)

			settled := post(t, facilitator+"/settle", body)
			require.Equal(t, false, settled["success"])
			require.Equal(t, reason, settled["errorReason"], "%v", settled)
		})
	}
	require.Len(t, c.TransfersTo(t, payee), 1, "only the first authorization moved money")
}
