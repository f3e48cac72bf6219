package bench

import (
	"crypto/ecdsa"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
)

// demand is what a seller asks for in its 402.
type demand struct {
	request
	version    int
	resource   json.RawMessage
	accepted   json.RawMessage
	payTo      common.Address
	amount     int64
	identified bool // whether a payment has an identifier
}

// demanded asks a seller.
func demanded(t testing.TB, seller *side, r request) demand {
	t.Helper()
	a := seller.ask(t, r)
	require.Equal(t, http.StatusPaymentRequired, a.Status)
	data, err := base64.StdEncoding.DecodeString(a.Header.Get("Payment-Required"))
	require.NoError(t, err)
	var required struct {
		X402Version int
		Resource    json.RawMessage
		Accepts     []json.RawMessage
		Extensions  map[string]json.RawMessage
	}
	require.NoError(t, json.Unmarshal(data, &required))
	d := demand{request: r, version: required.X402Version, resource: required.Resource, accepted: required.Accepts[0]}
	_, d.identified = required.Extensions["payment-identifier"]
	var terms struct{ PayTo, Amount string }
	require.NoError(t, json.Unmarshal(d.accepted, &terms))
	d.payTo = common.HexToAddress(terms.PayTo)
	d.amount, err = strconv.ParseInt(terms.Amount, 10, 64)
	require.NoError(t, err)
	return d
}

// signed is a request that pays what is demanded, as it goes to a host.
func (d demand) signed(t testing.TB, buyer *ecdsa.PrivateKey, host string) []byte {
	t.Helper()
	a := chain.NewAuthorization(t, chain.Address(buyer), d.payTo, d.amount)
	payload := map[string]any{
		"x402Version": d.version, "resource": d.resource, "accepted": d.accepted,
		"payload": map[string]any{"signature": a.Sign(t, buyer), "authorization": a},
	}
	if d.identified {
		payload["extensions"] = map[string]any{"payment-identifier": map[string]any{"info": map[string]any{"required": true, "id": "pay_" + rand.Text()}}}
	}
	data, err := json.Marshal(payload)
	require.NoError(t, err)
	paying := d.request
	paying.header = http.Header{"Payment-Signature": {base64.StdEncoding.EncodeToString(data)}}
	return paying.bytes(host)
}

// requirePaid is the error of an answer to a payment that is none.
func requirePaid(status int, err error) error {
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("the payment is answered %d", status)
	}
	return err
}
