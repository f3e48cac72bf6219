package histories

import (
	"crypto/ecdsa"
	"crypto/rand"
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
)

// payment is a signed authorization of the price.
type payment struct {
	chain.Authorization
	name      string
	purchase  *purchase
	signature hexutil.Bytes
	// sent says that it is, or was, on its way to the chain, and taken that the shop knows it, or turned it away for another.
	sent, taken bool
	// token is that of the quote, which only the payer has; empty without a gate.
	token string
}

// validity is how long the official client lets an authorization be valid.
const validity = 5 * time.Minute

// sign signs one more authorization for a purchase, as the official client does.
func (w *world) sign(p *purchase, key *ecdsa.PrivateKey) *payment {
	a := chain.NewAuthorization(w.t, chain.Address(key), w.payee, price)
	a.ValidAfter, a.ValidBefore = 0, w.now().Add(validity).Unix()
	signed := &payment{Authorization: a, purchase: p, signature: a.Sign(w.t, key)}
	if w.script.gated {
		signed.token = rand.Text()
	}
	w.model.signed(signed)
	return signed
}

// payload is what the official client sends, with a payment identifier and the token of a quote unless they are empty.
func (p *payment) payload(t *testing.T, id, token string) []byte {
	type object = map[string]any
	payload := object{
		"x402Version": 2,
		"accepted": object{
			"scheme": "exact", "network": "eip155:" + strconv.FormatInt(p.Network.ID, 10), "asset": p.Network.USDC.Hex(),
			"amount": strconv.Itoa(price), "payTo": p.To.Hex(), "maxTimeoutSeconds": 300,
			"extra": object{"name": "USDC", "version": "2"},
		},
		"payload": object{"signature": p.signature, "authorization": p.Authorization},
	}
	extensions := object{}
	if id != "" {
		extensions["payment-identifier"] = object{"info": object{"required": false, "id": id}}
	}
	if token != "" {
		extensions["access"] = object{"info": object{"token": token}}
	}
	if len(extensions) > 0 {
		payload["extensions"] = extensions
	}
	data, err := json.Marshal(payload)
	require.NoError(t, err)
	return data
}

// payloadV1 is the same in version 1, which has no identifiers.
func (p *payment) payloadV1(t *testing.T) []byte {
	data, err := json.Marshal(map[string]any{
		"x402Version": 1, "scheme": "exact", "network": "base-sepolia",
		"payload": map[string]any{"signature": p.signature, "authorization": p.Authorization},
	})
	require.NoError(t, err)
	return data
}
