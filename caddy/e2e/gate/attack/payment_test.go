package attack

import (
	"crypto/ecdsa"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/mpp"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

type object = map[string]any

// Addresses at which a payment is taken.
const (
	atGate    = "gate"
	atSponsor = "sponsor"
	atAgent   = "MCP"
)

// payment is a signed authorization with all that its payer knows.
type payment struct {
	chain.Authorization
	buyer     *ecdsa.PrivateKey
	signature hexutil.Bytes
	// token is that of the quote, and challenge the one of the Payment scheme that it answers.
	token     string
	challenge mpp.Challenge
}

// address is where requests without a body are paid.
func (s *shop) address(at string) (method, url string) {
	if at == atGate {
		return "GET", s.url("app", "/paid")
	}
	return "POST", s.url("members", "/v1/sponsor")
}

// sign asks for the terms at an address and signs a payment for them.
func (s *shop) sign(at string) *payment {
	s.Helper()
	if at == atAgent {
		at = atSponsor // its challenges have the same realm
	}
	method, url := s.address(at)
	quoted := s.ask(method, url, nil)
	require.Equal(s, http.StatusPaymentRequired, quoted.Status, quoted.Body)
	buyer := s.chain.NewBuyer(s)
	p := &payment{Authorization: chain.NewAuthorization(s, chain.Address(buyer), s.payee, price), buyer: buyer}
	p.token, p.challenge = s.token(quoted), mpp.Challenged(s, quoted.Header, chain.BaseSepolia)
	p.Nonce = p.challenge.Nonce()
	p.signature = p.Sign(s, buyer)
	return p
}

// token is the one in a quote.
func (s *shop) token(quoted server.Answer) string {
	s.Helper()
	text := lab.Must(base64.StdEncoding.DecodeString(quoted.Header.Get("Payment-Required")))(s)
	var required struct {
		Extensions struct {
			Access struct{ Info struct{ Token string } }
		}
	}
	require.NoError(s, json.Unmarshal(text, &required))
	require.NotEmpty(s, required.Extensions.Access.Info.Token)
	return required.Extensions.Access.Info.Token
}

// v1 and v2 are the payloads of x402; v2 has the token unless it is empty.
func (p *payment) v1() object {
	return object{"x402Version": 1, "scheme": "exact", "network": "base-sepolia",
		"payload": object{"signature": p.signature, "authorization": p.Authorization}}
}

func (p *payment) v2(token string) object {
	payload := p.Payload(p.signature)
	if token != "" {
		payload["extensions"] = object{"access": object{"info": object{"token": token}}}
	}
	return payload
}

func (s *shop) inHeader(name string, payload object) http.Header {
	text := lab.Must(json.Marshal(payload))(s)
	return http.Header{name: {base64.StdEncoding.EncodeToString(text)}}
}

func (s *shop) authorization(credential object) http.Header {
	return http.Header{"Authorization": {mpp.Authorization(s, credential)}}
}

// request is a payment on its way.
type request struct {
	name, method, url, body string
	header                  http.Header
}

// callTool is a call of the offer's tool with a payment.
func (s *shop) callTool(name string, meta object) request {
	body, err := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
		"params": object{"name": "first_42_sponsor", "arguments": object{}, "_meta": meta}})
	require.NoError(s, err)
	return request{name, "POST", s.url("members", "/mcp"), string(body), http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
	}}
}

// send sends a request; written, if not nil, is called when the server can have it.
func (s *shop) send(r request, written func()) server.Answer {
	message := lab.Must(http.NewRequestWithContext(s.Context(), r.method, r.url, strings.NewReader(r.body)))(s)
	message.Header = r.header.Clone()
	if written != nil {
		message = message.WithContext(httptrace.WithClientTrace(message.Context(), &httptrace.ClientTrace{
			WroteRequest: func(httptrace.WroteRequestInfo) { written() },
		}))
	}
	response, err := s.client.Do(message)
	if err != nil {
		return server.Answer{Body: err.Error()}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return server.Answer{Body: err.Error()}
	}
	return server.Answer{Status: response.StatusCode, Header: response.Header, Body: string(body)}
}

// ways are how a payer pays, by name: the request of a payment, which is the same each time.
var ways = map[string]struct {
	at      string
	request func(s *shop, p *payment) request
	// again says that the same request is a proof later.
	again bool
}{
	"x402 version 2 at the gate": {atGate, func(s *shop, p *payment) request {
		return s.toGate(s.inHeader("Payment-Signature", p.v2(p.token)))
	}, true},
	"x402 version 1 at the gate": {atGate, func(s *shop, p *payment) request {
		return s.toGate(s.inHeader("X-Payment", p.v1()))
	}, false},
	"MPP at the gate": {atGate, func(s *shop, p *payment) request {
		return s.toGate(s.authorization(p.challenge.Credential(p.Authorization, p.signature)))
	}, true},
	"x402 version 2": {atSponsor, func(s *shop, p *payment) request {
		return s.toSponsor(s.inHeader("Payment-Signature", p.v2(p.token)))
	}, true},
	"MPP": {atSponsor, func(s *shop, p *payment) request {
		return s.toSponsor(s.authorization(p.challenge.Credential(p.Authorization, p.signature)))
	}, true},
	"x402 over MCP": {atAgent, func(s *shop, p *payment) request {
		return s.callTool("", object{"x402/payment": p.v2(p.token)})
	}, true},
	"MPP over MCP": {atAgent, func(s *shop, p *payment) request {
		return s.callTool("", object{"org.paymentauth/credential": mpp.Native(s, p.challenge.Credential(p.Authorization, p.signature))})
	}, true},
}

func (s *shop) toGate(header http.Header) request {
	method, url := s.address(atGate)
	return request{"", method, url, "", header}
}

func (s *shop) toSponsor(header http.Header) request {
	method, url := s.address(atSponsor)
	return request{"", method, url, "", header}
}

// delivers reports whether an answer has what only the payer gets.
func (s *shop) delivers(a server.Answer) bool {
	return a.Status == http.StatusOK && (strings.Contains(a.Body, s.content) || strings.Contains(a.Body, "/v1/receipt/"))
}

// cookie is what a payer sends after an answer of a gate.
func (s *shop) cookie(a server.Answer) http.Header {
	s.Helper()
	set := a.Header.Get("Set-Cookie")
	require.NotEmpty(s, set, "no cookie: %d %s", a.Status, a.Body)
	value, _, _ := strings.Cut(set, ";")
	return http.Header{"Cookie": {value}}
}

// pays pays at the gate and returns the answer.
func (s *shop) pays() (*payment, server.Answer) {
	s.Helper()
	p := s.sign(atGate)
	a := s.send(ways["x402 version 2 at the gate"].request(s, p), nil)
	require.True(s, s.delivers(a), "%d %s", a.Status, a.Body)
	return p, a
}

// receipt is the address of the receipt of a new payment.
func (s *shop) receipt() string {
	s.Helper()
	return s.receiptOf(s.send(ways["x402 version 2"].request(s, s.sign(atSponsor)), nil))
}

// receiptOf is the address of the receipt in an answer of /v1/sponsor.
func (s *shop) receiptOf(a server.Answer) string {
	s.Helper()
	var paid struct {
		ReceiptURL string
		Access     struct{ URL string }
	}
	require.NoError(s, json.Unmarshal([]byte(a.Body), &paid))
	require.NotEmpty(s, paid.ReceiptURL, a.Body)
	require.Equal(s, paid.ReceiptURL+"/enter", paid.Access.URL)
	return paid.ReceiptURL
}

// code is that of a new entry link of a receipt.
func (s *shop) code(receipt string) string {
	s.Helper()
	a := s.ask("GET", receipt+"/enter", nil)
	_, code, found := strings.Cut(a.Header.Get("Location"), "pay_offer=")
	require.True(s, found, "%d %v", a.Status, a.Header)
	return code
}

// calldata is the authorization of a charge as it stands on the chain, with its signature.
type calldata struct {
	chain.Authorization
	signature hexutil.Bytes
}

// parseCalldata reads transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes).
func parseCalldata(data []byte) (c calldata) {
	word := func(n int) common.Hash { return common.BytesToHash(data[4+32*n : 4+32*(n+1)]) }
	number := func(n int) int64 { return word(n).Big().Int64() }
	c.Authorization = chain.Authorization{
		Network: chain.BaseSepolia, From: common.BytesToAddress(word(0).Bytes()), To: common.BytesToAddress(word(1).Bytes()),
		Value: number(2), ValidAfter: number(3), ValidBefore: number(4), Nonce: word(5),
	}
	c.signature = data[4+32*8 : 4+32*8+number(7)]
	return c
}

// fromCalldata are all requests that a stranger makes of a charge that is on the chain.
func (s *shop) fromCalldata() (all []request) {
	s.Helper()
	client := lab.Must(ethclient.Dial(s.chain.URL))(s)
	defer client.Close()
	charges := s.chain.TransfersTo(s, s.payee)
	require.NotEmpty(s, charges)
	transaction, _, err := client.TransactionByHash(s.Context(), charges[len(charges)-1].Tx)
	require.NoError(s, err)
	public := parseCalldata(transaction.Data())
	p := &payment{Authorization: public.Authorization, signature: public.signature}

	_, gate := s.address(atGate)
	_, sponsor := s.address(atSponsor)
	headers := map[string]http.Header{"version 1": s.inHeader("X-Payment", p.v1())}
	payloads := map[string]object{"without a token": p.v2(""), "with a short token": p.v2("x")}
	for _, name := range []string{"first", "second"} {
		payloads["with a random token, the "+name] = p.v2(rand.Text())
	}
	payloads["with the token of a quote"] = p.v2(s.token(s.ask("GET", gate, nil)))
	named := p.v2(rand.Text())
	named["extensions"].(object)["payment-identifier"] = object{"info": object{"required": false, "id": rand.Text()}}
	payloads["with a payment identifier"] = named
	credentials := map[string]object{}
	for name, quoted := range map[string]server.Answer{"gate": s.ask("GET", gate, nil), "sponsor": s.ask("POST", sponsor, nil)} {
		challenge := mpp.Challenged(s, quoted.Header, chain.BaseSepolia)
		credentials["of another challenge of the "+name] = challenge.Credential(p.Authorization, p.signature)
		challenge["opaque"] = rand.Text()
		credentials["with another opaque at the "+name] = challenge.Credential(p.Authorization, p.signature)
		challenge["id"] = rand.Text()
		credentials["with another id at the "+name] = challenge.Credential(p.Authorization, p.signature)
	}
	for name, payload := range payloads {
		headers["x402 "+name] = s.inHeader("Payment-Signature", payload)
		all = append(all, s.callTool("x402 over MCP "+name, object{"x402/payment": payload}))
	}
	for name, credential := range credentials {
		headers["MPP "+name] = s.authorization(credential)
		all = append(all, s.callTool("MPP over MCP "+name, object{"org.paymentauth/credential": mpp.Native(s, credential)}))
	}
	for name, header := range headers {
		all = append(all, request{name + ", GET", "GET", gate, "", header}, request{name + ", POST", "POST", gate, "", header},
			request{name + ", HEAD", "HEAD", gate, "", header}, request{name + ", a file", "GET", s.url("shop", "/paid/secret.txt"), "", header},
			request{name + ", sponsor", "POST", sponsor, "", header})
	}
	return all
}

// A charged authorization is calldata that everyone can read. It opens nothing, neither while its payer waits for the answer
// nor when it has it. The payer gets in, each time.
func TestAPaymentFromCalldataOpensNothing(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	count := 0
	for name, way := range ways {
		p := s.sign(way.at)
		own := way.request(s, p)
		mined, answer := make(chan struct{}), make(chan struct{})
		s.mu.Lock()
		s.mined, s.answer = mined, answer
		s.mu.Unlock()

		var waiting, written sync.WaitGroup
		var first server.Answer
		waiting.Go(func() { first = s.send(own, nil) })
		<-mined
		stolen := s.fromCalldata()
		answers := make([]server.Answer, len(stolen))
		for n, r := range stolen {
			written.Add(1)
			once := sync.OnceFunc(written.Done)
			waiting.Go(func() {
				defer once()
				answers[n] = s.send(r, once)
			})
		}
		written.Wait()
		close(answer)
		waiting.Wait()
		require.True(t, s.delivers(first), "%s: %d %s", name, first.Status, first.Body)
		for n, r := range stolen {
			s.requireClosed(answers[n], name+", before the 200: "+r.name)
		}
		again := s.send(own, nil)
		assert.Equal(t, way.again, s.delivers(again), "%s: %d %s", name, again.Status, again.Body)
		for _, r := range stolen {
			s.requireClosed(s.send(r, nil), name+", after the 200: "+r.name)
		}
		count += 2 * len(stolen)
		if way.at == atGate {
			require.Equal(t, http.StatusOK, s.ask("GET", own.url, s.cookie(first)).Status)
		}
	}
	require.Equal(t, len(ways), s.charges(), "each payer was charged once")
	t.Logf("%d requests with calldata of %d payments", count, len(ways))
}
