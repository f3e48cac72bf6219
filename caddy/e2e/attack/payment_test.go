package attack

import (
	"crypto/ecdsa"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/mpp"
)

type object = map[string]any

type payment struct {
	chain.Authorization
	buyer *ecdsa.PrivateKey
	// signature is a hexadecimal string or, in a forged payment, what stands in its place.
	signature any
	// extra are members that no payment has.
	extra object
	// id is the payment's identifier, if any.
	id string
	// challenge is that of the Payment scheme which the payment answers.
	challenge mpp.Challenge
}

// sign signs a new payment, as clients do for every call. It answers a challenge of the Payment scheme, so that it can be
// sent by every transport.
func (s *shop) sign(buyer *ecdsa.PrivateKey, changes ...func(*chain.Authorization)) payment {
	s.Helper()
	p := payment{Authorization: chain.NewAuthorization(s, chain.Address(buyer), s.payee, price), buyer: buyer}
	p.Network = s.chain.Network
	if s.process != nil {
		p.challenge = s.challenge(p.Network)
		p.Nonce = p.challenge.Nonce()
	}
	for _, change := range changes {
		change(&p.Authorization)
	}
	p.signature = p.Sign(s, buyer)
	return p
}

// call encodes the transaction that makes the payment.
func (s *shop) call(p payment) []byte {
	s.Helper()
	return p.Call(s, p.signature.(hexutil.Bytes))
}

// payload is the payment in a version of x402.
func (p payment) payload(version int) object {
	signed := object{"signature": p.signature, "authorization": p.Authorization}
	for name, value := range p.extra {
		signed[name] = value
	}
	if version == 1 {
		return object{"x402Version": 1, "scheme": "exact", "network": "base-sepolia", "payload": signed}
	}
	payload := p.Payload(nil)
	payload["payload"] = signed
	extensions := object{}
	if p.id != "" {
		extensions["payment-identifier"] = object{"info": object{"required": false, "id": p.id}}
	}
	payload["extensions"] = extensions
	return payload
}

// nonce is the name of the payment in answers.
func (p payment) nonce() string { return strings.ToLower(p.Nonce.Hex()) }

func (m *market) encode(v any) []byte {
	m.Helper()
	data := lab.Must(json.Marshal(v))(m)
	return data
}

// challenge asks for payment, without one, and returns the challenge for a network.
func (s *shop) challenge(network chain.Network) (found mpp.Challenge) {
	s.Helper()
	s.eventually("the shop challenges", func() bool {
		answer, err := s.client.Post(s.url+"/v1/sponsor", "", nil)
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		_, _ = io.Copy(io.Discard, answer.Body)
		found = mpp.Challenged(s, answer.Header, network)
		return found != nil
	})
	return found
}

// credential is the payment as an answer to its challenge.
func (p payment) credential() object { return p.challenge.Credential(p.Authorization, p.signature) }

// message are names that every message of A2A has anew.
var message = regexp.MustCompile(`"(id|messageId|contextId|taskId)":"[0-9a-f]{32}"`)

// One signature is sent by every transport at once: it is one purchase, which each is told of in the end, and told again.
func TestOneSignatureChargedOnceOverAllTransports(t *testing.T) {
	t.Parallel()
	m := openMarket(t, 1)
	facilitator := m.facilitator()
	s := openShop(m, m.payee(), unlimited, rail{"base-sepolia", m.chain.URL, []string{facilitator}})
	p := s.sign(s.buyer())

	var mu sync.Mutex
	var work sync.WaitGroup
	all := map[string][]answer{}
	for name, send := range transports {
		work.Go(func() {
			answers := s.followBy(send, p, func(a answer) bool { return a.status == http.StatusOK })
			mu.Lock()
			defer mu.Unlock()
			all[name] = answers
		})
	}
	work.Wait()
	charges := s.charges(s.payee, p.buyer)
	require.Len(t, charges, 1, "charged more than once")
	for name, answers := range all {
		requireTruth(t, name, answers, charges[0])
		for _, a := range answers {
			require.True(t, a.again || a.status == http.StatusOK, "%s: %d %s", name, a.status, a.text)
			unsent := strings.Contains(a.text, "did not send it") // because the facilitator was too slow: no payment to name
			require.True(t, a.names(p) || a.again && unsent, "%s: %s", name, a.text)
		}
	}

	// Once the observer has found it, nothing changes any more.
	s.eventually("the payment is read on the chain", func() bool {
		a := s.pay(p)
		return a.status == http.StatusOK && !strings.Contains(a.text, `"claimed"`)
	})
	for name, send := range transports {
		first, again := send(t.Context(), s, p), send(t.Context(), s, p)
		require.Equal(t, http.StatusOK, first.status, "%s: %s", name, first.text)
		require.Equal(t, message.ReplaceAllString(first.text, ""), message.ReplaceAllString(again.text, ""), name)
	}
	require.Len(t, s.charges(s.payee, p.buyer), 1)
}
