package e2e

import (
	"io"
	"net/http"
	"strconv"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
)

// object is a JSON object.
type object = map[string]any

// requestV2 is what a server of x402 version 2 sends to a facilitator that is to verify or settle a payment of the
// price to payTo.
func requestV2(a chain.Authorization, signature []byte, payTo string) object {
	requirements := object{
		"scheme": "exact", "network": "eip155:84532", "asset": chain.USDC.Hex(), "amount": strconv.Itoa(price),
		"payTo": payTo, "maxTimeoutSeconds": 300, "extra": object{"name": "USDC", "version": "2"},
	}
	return object{
		"x402Version": 2,
		"paymentPayload": object{
			"x402Version": 2,
			"resource":    object{"url": "http://localhost/", "description": "", "mimeType": "application/json"},
			"accepted":    requirements,
			"payload":     object{"signature": hexutil.Encode(signature), "authorization": a},
		},
		"paymentRequirements": requirements,
	}
}

// requestV1 is the same in x402 version 1.
func requestV1(a chain.Authorization, signature []byte, payTo string) object {
	return object{
		"x402Version": 1,
		"paymentPayload": object{
			"x402Version": 1, "scheme": "exact", "network": "base-sepolia",
			"payload": object{"signature": hexutil.Encode(signature), "authorization": a},
		},
		"paymentRequirements": object{
			"scheme": "exact", "network": "base-sepolia", "asset": chain.USDC.Hex(), "maxAmountRequired": strconv.Itoa(price),
			"payTo": payTo, "maxTimeoutSeconds": 300, "extra": object{"name": "USDC", "version": "2"},
			"resource": "http://localhost/", "description": "", "mimeType": "application/json",
		},
	}
}

// get returns answer and body of an address, without following a redirect. accept is the Accept header; without one the
// client is a program.
func get(t *testing.T, url string, accept ...string) (*http.Response, string) {
	t.Helper()
	answer, body, err := fetch(url, accept...)
	require.NoError(t, err)
	return answer, body
}

// fetch is get for conditions that are polled: those run beside the test's goroutine, where nothing may end the test.
func fetch(url string, accept ...string) (*http.Response, string, error) {
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return nil, "", err
	}
	for _, a := range accept {
		request.Header.Add("Accept", a)
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer, string(body), err
}

// newAddress returns an account that nobody has used.
func newAddress(t *testing.T) common.Address {
	t.Helper()
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	return chain.Address(key)
}
