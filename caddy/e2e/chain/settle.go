package chain

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"strconv"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// Broadcast does what the reference facilitator does when it settles: it tries the call, then sends it. It does not
// wait for the block.
func (c *Chain) Broadcast(t testing.TB, s payoffertest.Settlement) (common.Hash, error) {
	var numbers [3]*big.Int
	for i, text := range []string{s.Value, s.ValidAfter, s.ValidBefore} {
		number, ok := new(big.Int).SetString(text, 10)
		if !ok {
			return common.Hash{}, fmt.Errorf("%q is not a number", text)
		}
		numbers[i] = number
	}
	signature, err := hexutil.Decode(s.Signature)
	if err != nil {
		return common.Hash{}, err
	}
	call := Pack(t, "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)",
		common.HexToAddress(s.From), common.HexToAddress(s.To), numbers[0], numbers[1], numbers[2], common.HexToHash(s.Nonce), signature)
	if err := c.Try(c.USDC, call); err != nil {
		return common.Hash{}, err
	}
	return c.Send(c.USDC, call)
}

// Payload is the authorization as a payment of x402 version 2.
func (a Authorization) Payload(signature []byte) map[string]any {
	return map[string]any{
		"x402Version": 2,
		"accepted": map[string]any{
			"scheme": "exact", "network": "eip155:" + strconv.FormatInt(a.Network.ID, 10), "asset": a.Network.USDC.Hex(),
			"amount": strconv.FormatInt(a.Value, 10), "payTo": a.To.Hex(), "maxTimeoutSeconds": 300,
			"extra": map[string]any{"name": a.Network.Token, "version": "2"},
		},
		"payload": map[string]any{"signature": hexutil.Encode(signature), "authorization": a},
	}
}

// Payment is the header with which a client of x402 version 2 sends a payload.
func Payment(t testing.TB, payload map[string]any) http.Header {
	t.Helper()
	text, err := json.Marshal(payload)
	require.NoError(t, err)
	return http.Header{"Payment-Signature": {base64.StdEncoding.EncodeToString(text)}}
}
