// Package mpp is a client of the Payment scheme, with an EIP-3009 authorization of Base Sepolia's USDC, that shows its caller
// every member of what it sends.
package mpp

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
)

// Object is a JSON object.
type Object = map[string]any

// Challenge is a demand for payment: the parameters, by name, that a credential repeats.
type Challenge map[string]string

// parameter is a parameter of a challenge. None of the server's has a quotation mark in it.
var parameter = regexp.MustCompile(`(\w+)="([^"]*)"`)

// Challenged finds the challenge for a network in a 402, nil without one.
func Challenged(t require.TestingT, header http.Header, network chain.Network) Challenge {
	for _, value := range header.Values("WWW-Authenticate") {
		c := Challenge{}
		for _, match := range parameter.FindAllStringSubmatch(value, -1) {
			c[match[1]] = match[2]
		}
		var request struct{ MethodDetails struct{ ChainID int64 } }
		require.NoError(t, json.Unmarshal(c.Request(t), &request))
		if request.MethodDetails.ChainID == network.ID {
			return c
		}
	}
	return nil
}

// Request is what the challenge asks for, as JSON.
func (c Challenge) Request(t require.TestingT) json.RawMessage {
	request, err := base64.RawURLEncoding.DecodeString(c["request"])
	require.NoError(t, err)
	return request
}

// Nonce is that of the authorization which answers the challenge.
func (c Challenge) Nonce() common.Hash { return crypto.Keccak256Hash([]byte(c["id"] + c["realm"])) }

// Credential answers the challenge with an authorization and its signature.
func (c Challenge) Credential(a chain.Authorization, signature any) Object {
	repeated := Object{}
	for name, value := range c {
		repeated[name] = value
	}
	return Object{
		"challenge": repeated,
		"payload": Object{
			"type": "authorization", "from": a.From.Hex(), "to": a.To.Hex(), "value": strconv.FormatInt(a.Value, 10),
			"validAfter": strconv.FormatInt(a.ValidAfter, 10), "validBefore": strconv.FormatInt(a.ValidBefore, 10),
			"nonce": a.Nonce.Hex(), "signature": signature,
		},
		"source": "did:pkh:eip155:" + strconv.FormatInt(a.Network.ID, 10) + ":" + a.From.Hex(),
	}
}

// Authorization is a credential as the value of the header.
func Authorization(t require.TestingT, credential Object) string {
	text, err := json.Marshal(credential)
	require.NoError(t, err)
	return "Payment " + base64.RawURLEncoding.EncodeToString(text)
}

// Native is a credential as JSON-RPC has it: the request of its challenge is an object. It changes the credential.
func Native(t require.TestingT, credential Object) Object {
	challenge := credential["challenge"].(Object)
	request, err := base64.RawURLEncoding.DecodeString(challenge["request"].(string))
	require.NoError(t, err)
	challenge["request"] = json.RawMessage(request)
	return credential
}
