package attack

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"regexp"
	"strconv"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
)

// challenge is one of the Payment scheme as a credential repeats it: its parameters, by name.
type challenge map[string]string

// parameter is a parameter of a challenge. None of the server's has a quotation mark in it.
var parameter = regexp.MustCompile(`(\w+)="([^"]*)"`)

// challenge asks for payment, without one, and returns the challenge for a network.
func (s *shop) challenge(network chain.Network) (found challenge) {
	s.Helper()
	s.eventually("the shop challenges", func() bool {
		answer, err := s.client.Post(s.url+"/v1/sponsor", "", nil)
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		_, _ = io.Copy(io.Discard, answer.Body)
		for _, value := range answer.Header.Values("WWW-Authenticate") {
			c := challenge{}
			for _, match := range parameter.FindAllStringSubmatch(value, -1) {
				c[match[1]] = match[2]
			}
			var request struct{ MethodDetails struct{ ChainID int64 } }
			require.NoError(s, json.Unmarshal(c.request(s), &request))
			if request.MethodDetails.ChainID == network.ID {
				found = c
			}
		}
		return found != nil
	})
	return found
}

// request is what the challenge asks for, as JSON.
func (c challenge) request(t require.TestingT) []byte {
	request, err := base64.RawURLEncoding.DecodeString(c["request"])
	require.NoError(t, err)
	return request
}

// nonce is that of the authorization which answers the challenge.
func (c challenge) nonce() common.Hash { return crypto.Keccak256Hash([]byte(c["id"] + c["realm"])) }

// credential is the payment as an answer to its challenge.
func (p payment) credential() object {
	repeated := object{}
	for name, value := range p.challenge {
		repeated[name] = value
	}
	return object{
		"challenge": repeated,
		"payload": object{
			"type": "authorization", "from": p.From.Hex(), "to": p.To.Hex(), "value": strconv.FormatInt(p.Value, 10),
			"validAfter": strconv.FormatInt(p.ValidAfter, 10), "validBefore": strconv.FormatInt(p.ValidBefore, 10),
			"nonce": p.Nonce.Hex(), "signature": p.signature,
		},
		"source": "did:pkh:" + caip2(p.Network) + ":" + p.From.Hex(),
	}
}

// authorization is a credential as the value of its header.
func (s *shop) authorization(credential object) string {
	return "Payment " + base64.RawURLEncoding.EncodeToString(s.encode(credential))
}

// native is a credential as JSON-RPC has it, with the request as an object.
func (s *shop) native(credential object) object {
	challenged := credential["challenge"].(object)
	request, err := base64.RawURLEncoding.DecodeString(challenged["request"].(string))
	require.NoError(s, err)
	challenged["request"] = json.RawMessage(request)
	return credential
}
