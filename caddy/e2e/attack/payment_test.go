package attack

import (
	"crypto/ecdsa"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/mpp"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

type object = map[string]any

type payment struct {
	chain.Authorization
	buyer *ecdsa.PrivateKey
	// signature is a hexadecimal string or, in a forged payment, what stands in its place.
	signature any
	// extra are members that no payment has.
	extra object
	// id is the payment's identifier, and token that of the quote, if any.
	id, token string
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
	payload := object{
		"x402Version": 2,
		"accepted": object{
			"scheme": "exact", "network": caip2(p.Network), "asset": p.Network.USDC.Hex(), "amount": strconv.Itoa(price),
			"payTo": p.To.Hex(), "maxTimeoutSeconds": 300, "extra": object{"name": "USDC", "version": "2"},
		},
		"payload": signed,
	}
	extensions := object{}
	if p.id != "" {
		extensions["payment-identifier"] = object{"info": object{"required": false, "id": p.id}}
	}
	if p.token != "" {
		extensions["access"] = object{"info": object{"token": p.token}}
	}
	payload["extensions"] = extensions
	return payload
}

// caip2 is the name of a network in x402 version 2.
func caip2(n chain.Network) string { return "eip155:" + strconv.FormatInt(n.ID, 10) }

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
func TestOneSignatureByEveryTransportIsOneCharge(t *testing.T) {
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

// problems begins the types of the Payment scheme's problems.
const problems = "https://paymentauth.org/problems/"

// Credentials that are not what a challenge of this shop asks for are refused with the problem that the scheme has for it, by
// HTTP and over MCP alike, and nobody settles anything. The payment itself is as good as before, and its credential sent again
// is no other purchase.
func TestAWrongCredentialIsRefusedAndChargesNothing(t *testing.T) {
	t.Parallel()
	m := openMarket(t, 1)
	facilitator := payoffertest.NewFacilitator(t)
	facilitator.OnBroadcast(m.settle)
	payee := m.payee()
	s := openShop(m, payee, unlimited, rail{"base-sepolia", m.chain.URL, []string{facilitator.URL()}})
	other := openShop(m, payee, unlimited, rail{"base-sepolia", m.chain.URL, []string{facilitator.URL()}})
	p := s.sign(s.buyer())

	challenged := func(name string, value any) func(object) {
		return func(c object) { c["challenge"].(object)[name] = value }
	}
	paid := func(name string, value any) func(object) {
		return func(c object) { c["payload"].(object)[name] = value }
	}
	asked := func(change func(request object)) func(object) {
		return func(c object) {
			var request object
			require.NoError(t, json.Unmarshal(p.challenge.Request(t), &request))
			change(request)
			challenged("request", base64.RawURLEncoding.EncodeToString(s.encode(request)))(c)
		}
	}
	answering := func(c mpp.Challenge) func(object) {
		q := p
		q.challenge, q.Nonce = c, c.Nonce()
		q.signature = q.Sign(s, q.buyer)
		return func(credential object) { maps.Copy(credential, q.credential()) }
	}
	stranger := chain.Address(s.stranger()).Hex()

	for name, c := range map[string]struct {
		problem string
		change  func(credential object)
	}{
		"another id":                 {"invalid-challenge", challenged("id", base64.RawURLEncoding.EncodeToString(make([]byte, 32)))},
		"another realm":              {"invalid-challenge", challenged("realm", "example.org")},
		"another method":             {"method-unsupported", challenged("method", "tempo")},
		"a smaller amount":           {"invalid-challenge", asked(func(r object) { r["amount"] = "1" })},
		"another recipient":          {"invalid-challenge", asked(func(r object) { r["recipient"] = stranger })},
		"one more way to pay":        {"invalid-challenge", asked(func(r object) { r["methodDetails"].(object)["credentialTypes"] = []string{"authorization", "hash"} })},
		"a later end":                {"invalid-challenge", challenged("expires", time.Now().Add(time.Hour).UTC().Format(time.RFC3339))},
		"another server's challenge": {"invalid-challenge", answering(other.challenge(p.Network))},
		"an expired challenge":       {"invalid-challenge", answering(s.expired(p.challenge))},
		"another type":               {"verification-failed", paid("type", "permit2")},
		"another payer":              {"verification-failed", paid("from", stranger)},
		"another payee":              {"verification-failed", paid("to", stranger)},
		"less money":                 {"verification-failed", paid("value", "1")},
		"another end":                {"verification-failed", paid("validBefore", "99999999999")},
		"another signature":          {"verification-failed", paid("signature", hexutil.Encode(make([]byte, 65)))},
		"another source":             {"verification-failed", func(c object) { c["source"] = "did:pkh:eip155:84532:" + stranger }},
		"a nonce that nobody prescribed": {"verification-failed", func(c object) {
			q := p
			q.Nonce = common.HexToHash("0x02")
			q.signature = q.Sign(s, q.buyer)
			c["payload"] = q.credential()["payload"]
		}},
		"no challenge":        {"malformed-credential", func(c object) { delete(c, "challenge") }},
		"a number as a value": {"malformed-credential", paid("value", price)},
	} {
		credential := p.credential()
		c.change(credential)
		answer := s.authorized(t.Context(), mpp.Authorization(s, credential))
		s.requireProblem(name, answer, c.problem)
		if challenge, ok := credential["challenge"]; ok {
			require.NotContains(t, answer.header.Get("WWW-Authenticate"), challenge.(object)["id"], name)
			s.requireProblemOverMCP(name, s.callTool(t.Context(), object{"org.paymentauth/credential": mpp.Native(s, credential)}), c.problem)
		}
	}

	right := mpp.Authorization(s, p.credential())
	signature := base64.StdEncoding.EncodeToString(s.encode(p.payload(2)))
	for name, c := range map[string]struct {
		status  int
		problem string // of the scheme, if any
		header  http.Header
	}{
		"no base64":            {http.StatusPaymentRequired, "malformed-credential", http.Header{"Authorization": {"Payment %"}}},
		"nothing":              {http.StatusPaymentRequired, "malformed-credential", http.Header{"Authorization": {"Payment"}}},
		"two credentials":      {http.StatusBadRequest, "", http.Header{"Authorization": {right, right}}},
		"beside x402":          {http.StatusBadRequest, "", http.Header{"Authorization": {right}, "Payment-Signature": {signature}}},
		"in a field not named": {http.StatusPaymentRequired, "", http.Header{"Payment-Authorization": {right}}},
	} {
		answer := s.send(t.Context(), c.header)
		if c.problem != "" {
			s.requireProblem(name, answer, c.problem)
			continue
		}
		require.NoError(t, answer.err, name)
		require.Equal(t, c.status, answer.status, "%s: %s", name, answer.text)
		require.Equal(t, c.status == http.StatusPaymentRequired, answer.header.Get("WWW-Authenticate") != "", name)
	}
	both := s.callTool(t.Context(), object{"org.paymentauth/credential": mpp.Native(s, p.credential()), "x402/payment": p.payload(2)})
	require.NoError(t, both.err)
	require.Equal(t, http.StatusPaymentRequired, both.status, both.text)
	require.Contains(t, both.text, "so none was sent")
	quoted, body, err := s.post(t.Context(), "/v1/quote", nil, http.Header{"Authorization": {right}})
	require.NoError(t, err)
	require.Equal(t, http.StatusPaymentRequired, quoted.StatusCode)
	require.Empty(t, quoted.Header.Values("WWW-Authenticate"))
	require.Contains(t, body, "so the payment was not sent")

	require.Empty(t, facilitator.Calls(payoffertest.CallSettle), "somebody was asked to settle")
	require.Empty(t, s.charges(s.payee, p.buyer))
	var transaction common.Hash
	for range 2 {
		answer := transports["MPP"](t.Context(), s, p)
		require.Equal(t, http.StatusOK, answer.status, answer.text)
		require.Empty(t, answer.header.Get("WWW-Authenticate"))
		transaction = answer.transaction
	}
	require.Equal(t, []common.Hash{transaction}, s.charges(s.payee, p.buyer))
}

// requireProblem requires a definite no of the scheme, with another challenge where that helps.
func (s *shop) requireProblem(name string, a answer, problem string) {
	s.Helper()
	require.NoError(s, a.err, name)
	var body struct {
		Type, Detail string
		Status       int
	}
	require.NoError(s, json.NewDecoder(strings.NewReader(a.text)).Decode(&body), "%s: %s", name, a.text)
	require.Equal(s, problems+problem, body.Type, "%s: %s", name, a.text)
	require.NotEmpty(s, body.Detail)
	require.Equal(s, a.status, body.Status)
	require.Equal(s, "application/problem+json", a.header.Get("Content-Type"), name)
	require.Contains(s, a.header.Get("Cache-Control"), "no-store", name)
	require.Empty(s, a.header.Get("Payment-Receipt"), name)
	if problem == "method-unsupported" {
		require.Equal(s, http.StatusBadRequest, a.status, name)
		return
	}
	require.Equal(s, http.StatusPaymentRequired, a.status, name)
	require.NotEmpty(s, a.header.Get("WWW-Authenticate"), name)
}

// requireProblemOverMCP is requireProblem for the tool's result, which is an error of the call.
func (s *shop) requireProblemOverMCP(name string, a answer, problem string) {
	s.Helper()
	require.NoError(s, a.err, name)
	var reply struct {
		Result struct {
			IsError bool
			Meta    map[string]json.RawMessage `json:"_meta"`
		}
	}
	require.NoError(s, json.Unmarshal([]byte(a.text), &reply), "%s: %s", name, a.text)
	require.True(s, reply.Result.IsError, name)
	require.NotContains(s, reply.Result.Meta, "org.paymentauth/receipt", name)
	var required struct {
		Challenges []json.RawMessage
		Problem    struct{ Type string }
	}
	require.NoError(s, json.Unmarshal(reply.Result.Meta["org.paymentauth/payment-required"], &required), "%s: %s", name, a.text)
	require.Equal(s, problems+problem, required.Problem.Type, "%s: %s", name, a.text)
	require.NotEmpty(s, required.Challenges, name)
}

// expired is a challenge as the shop made it an hour ago. Its id needs the shop's key.
func (s *shop) expired(c mpp.Challenge) mpp.Challenge {
	s.Helper()
	secret := lab.Must(os.ReadFile(s.path + "-storage/pay_offer/qr.key"))(s)
	mac := func(key []byte, text string) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	key := mac(secret, "challenges of the Payment scheme\x00"+s.url)
	id := func(c mpp.Challenge) string {
		slots := []string{c["realm"], c["method"], c["intent"], c["request"], c["expires"], "", c["opaque"]}
		return base64.RawURLEncoding.EncodeToString(mac(key, strings.Join(slots, "|")))
	}
	require.Equal(s, c["id"], id(c), "the shop makes its challenges in another way")
	old := maps.Clone(c)
	old["expires"] = time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	old["id"] = id(old)
	return old
}
