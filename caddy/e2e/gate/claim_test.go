package gate

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

// claim is a signed authorization with all that its payer knows.
type claim struct {
	chain.Authorization
	buyer     *ecdsa.PrivateKey
	signature hexutil.Bytes
	// token is that of the quote, and challenge the one of the Payment scheme that it answers.
	token     string
	challenge mpp.Challenge
}

// address is where requests without a body are paid.
func (f *fort) address(at string) (method, url string) {
	if at == atGate {
		return "GET", f.url("app", "/paid")
	}
	return "POST", f.url("members", "/v1/sponsor")
}

// sign asks for the terms at an address and signs a payment for them.
func (f *fort) sign(at string) *claim {
	f.Helper()
	if at == atAgent {
		at = atSponsor // its challenges have the same realm
	}
	method, url := f.address(at)
	quoted := f.ask(method, url, nil)
	require.Equal(f, http.StatusPaymentRequired, quoted.Status, quoted.Body)
	buyer := f.chain.NewBuyer(f)
	p := &claim{Authorization: chain.NewAuthorization(f, chain.Address(buyer), f.payee, fortPrice), buyer: buyer}
	p.token, p.challenge = f.token(quoted), mpp.Challenged(f, quoted.Header, chain.BaseSepolia)
	p.Nonce = p.challenge.Nonce()
	p.signature = p.Sign(f, buyer)
	return p
}

// token is the one in a quote.
func (f *fort) token(quoted server.Answer) string {
	f.Helper()
	text := lab.Must(base64.StdEncoding.DecodeString(quoted.Header.Get("Payment-Required")))(f)
	var required struct {
		Extensions struct {
			Access struct{ Info struct{ Token string } }
		}
	}
	require.NoError(f, json.Unmarshal(text, &required))
	require.NotEmpty(f, required.Extensions.Access.Info.Token)
	return required.Extensions.Access.Info.Token
}

// v1 and v2 are the payloads of x402; v2 has the token unless it is empty.
func (c *claim) v1() object {
	return object{"x402Version": 1, "scheme": "exact", "network": "base-sepolia",
		"payload": object{"signature": c.signature, "authorization": c.Authorization}}
}

func (c *claim) v2(token string) object {
	payload := c.Payload(c.signature)
	if token != "" {
		payload["extensions"] = object{"access": object{"info": object{"token": token}}}
	}
	return payload
}

func (f *fort) inHeader(name string, payload object) http.Header {
	text := lab.Must(json.Marshal(payload))(f)
	return http.Header{name: {base64.StdEncoding.EncodeToString(text)}}
}

func (f *fort) authorization(credential object) http.Header {
	return http.Header{"Authorization": {mpp.Authorization(f, credential)}}
}

// request is a payment on its way.
type request struct {
	name, method, url, body string
	header                  http.Header
}

// callTool is a call of the offer's tool with a payment.
func (f *fort) callTool(name string, meta object) request {
	body, err := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
		"params": object{"name": "first_42_sponsor", "arguments": object{}, "_meta": meta}})
	require.NoError(f, err)
	return request{name, "POST", f.url("members", "/mcp"), string(body), http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
	}}
}

// send sends a request; written, if not nil, is called when the server can have it.
func (f *fort) send(r request, written func()) server.Answer {
	message := lab.Must(http.NewRequestWithContext(f.Context(), r.method, r.url, strings.NewReader(r.body)))(f)
	message.Header = r.header.Clone()
	if written != nil {
		message = message.WithContext(httptrace.WithClientTrace(message.Context(), &httptrace.ClientTrace{
			WroteRequest: func(httptrace.WroteRequestInfo) { written() },
		}))
	}
	response, err := f.client.Do(message)
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

// transports are how a payer pays, by name: the request of a payment, which is the same each time.
var transports = map[string]struct {
	at      string
	request func(s *fort, p *claim) request
	// again says that the same request is a proof later.
	again bool
}{
	"x402 version 2 at the gate": {atGate, func(s *fort, p *claim) request {
		return s.toGate(s.inHeader("Payment-Signature", p.v2(p.token)))
	}, true},
	"x402 version 1 at the gate": {atGate, func(s *fort, p *claim) request {
		return s.toGate(s.inHeader("X-Payment", p.v1()))
	}, false},
	"MPP at the gate": {atGate, func(s *fort, p *claim) request {
		return s.toGate(s.authorization(p.challenge.Credential(p.Authorization, p.signature)))
	}, true},
	"x402 version 2": {atSponsor, func(s *fort, p *claim) request {
		return s.toSponsor(s.inHeader("Payment-Signature", p.v2(p.token)))
	}, true},
	"MPP": {atSponsor, func(s *fort, p *claim) request {
		return s.toSponsor(s.authorization(p.challenge.Credential(p.Authorization, p.signature)))
	}, true},
	"x402 over MCP": {atAgent, func(s *fort, p *claim) request {
		return s.callTool("", object{"x402/payment": p.v2(p.token)})
	}, true},
	"MPP over MCP": {atAgent, func(s *fort, p *claim) request {
		return s.callTool("", object{"org.paymentauth/credential": mpp.Native(s, p.challenge.Credential(p.Authorization, p.signature))})
	}, true},
}

func (f *fort) toGate(header http.Header) request {
	method, url := f.address(atGate)
	return request{"", method, url, "", header}
}

func (f *fort) toSponsor(header http.Header) request {
	method, url := f.address(atSponsor)
	return request{"", method, url, "", header}
}

// delivers reports whether an answer has what only the payer gets.
func (f *fort) delivers(a server.Answer) bool {
	return a.Status == http.StatusOK && (strings.Contains(a.Body, f.content) || strings.Contains(a.Body, "/v1/receipt/"))
}

// cookie is what a payer sends after an answer of a gate.
func (f *fort) cookie(a server.Answer) http.Header {
	f.Helper()
	set := a.Header.Get("Set-Cookie")
	require.NotEmpty(f, set, "no cookie: %d %s", a.Status, a.Body)
	value, _, _ := strings.Cut(set, ";")
	return http.Header{"Cookie": {value}}
}

// pays pays at the gate and returns the answer.
func (f *fort) pays() (*claim, server.Answer) {
	f.Helper()
	p := f.sign(atGate)
	a := f.send(transports["x402 version 2 at the gate"].request(f, p), nil)
	require.True(f, f.delivers(a), "%d %s", a.Status, a.Body)
	return p, a
}

// receipt is the address of the receipt of a new payment.
func (f *fort) receipt() string {
	f.Helper()
	return f.receiptOf(f.send(transports["x402 version 2"].request(f, f.sign(atSponsor)), nil))
}

// receiptOf is the address of the receipt in an answer of /v1/sponsor.
func (f *fort) receiptOf(a server.Answer) string {
	f.Helper()
	var paid struct {
		ReceiptURL string
		Access     struct{ URL string }
	}
	require.NoError(f, json.Unmarshal([]byte(a.Body), &paid))
	require.NotEmpty(f, paid.ReceiptURL, a.Body)
	require.Equal(f, paid.ReceiptURL+"/enter", paid.Access.URL)
	return paid.ReceiptURL
}

// code is that of a new entry link of a receipt.
func (f *fort) code(receipt string) string {
	f.Helper()
	a := f.ask("GET", receipt+"/enter", nil)
	_, code, found := strings.Cut(a.Header.Get("Location"), "pay_offer=")
	require.True(f, found, "%d %v", a.Status, a.Header)
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
func (f *fort) fromCalldata() (all []request) {
	f.Helper()
	client := lab.Must(ethclient.Dial(f.chain.URL))(f)
	defer client.Close()
	charges := f.chain.TransfersTo(f, f.payee)
	require.NotEmpty(f, charges)
	transaction, _, err := client.TransactionByHash(f.Context(), charges[len(charges)-1].Tx)
	require.NoError(f, err)
	public := parseCalldata(transaction.Data())
	p := &claim{Authorization: public.Authorization, signature: public.signature}

	_, gate := f.address(atGate)
	_, sponsor := f.address(atSponsor)
	headers := map[string]http.Header{"version 1": f.inHeader("X-Payment", p.v1())}
	payloads := map[string]object{"without a token": p.v2(""), "with a short token": p.v2("x")}
	for _, name := range []string{"first", "second"} {
		payloads["with a random token, the "+name] = p.v2(rand.Text())
	}
	payloads["with the token of a quote"] = p.v2(f.token(f.ask("GET", gate, nil)))
	named := p.v2(rand.Text())
	named["extensions"].(object)["payment-identifier"] = object{"info": object{"required": false, "id": rand.Text()}}
	payloads["with a payment identifier"] = named
	credentials := map[string]object{}
	for name, quoted := range map[string]server.Answer{"gate": f.ask("GET", gate, nil), "sponsor": f.ask("POST", sponsor, nil)} {
		challenge := mpp.Challenged(f, quoted.Header, chain.BaseSepolia)
		credentials["of another challenge of the "+name] = challenge.Credential(p.Authorization, p.signature)
		challenge["opaque"] = rand.Text()
		credentials["with another opaque at the "+name] = challenge.Credential(p.Authorization, p.signature)
		challenge["id"] = rand.Text()
		credentials["with another id at the "+name] = challenge.Credential(p.Authorization, p.signature)
	}
	for name, payload := range payloads {
		headers["x402 "+name] = f.inHeader("Payment-Signature", payload)
		all = append(all, f.callTool("x402 over MCP "+name, object{"x402/payment": payload}))
	}
	for name, credential := range credentials {
		headers["MPP "+name] = f.authorization(credential)
		all = append(all, f.callTool("MPP over MCP "+name, object{"org.paymentauth/credential": mpp.Native(f, credential)}))
	}
	for name, header := range headers {
		all = append(all, request{name + ", GET", "GET", gate, "", header}, request{name + ", POST", "POST", gate, "", header},
			request{name + ", HEAD", "HEAD", gate, "", header}, request{name + ", a file", "GET", f.url("shop", "/paid/secret.txt"), "", header},
			request{name + ", sponsor", "POST", sponsor, "", header})
	}
	return all
}

// A charged authorization is calldata that everyone can read. It opens nothing, neither while its payer waits for the answer
// nor when it has it. The payer gets in, each time.
func TestCalldataCopyOpensNothing(t *testing.T) {
	t.Parallel()
	s := openFort(t)
	count := 0
	for name, way := range transports {
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
	require.Equal(t, len(transports), s.charges(), "each payer was charged once")
	t.Logf("%d requests with calldata of %d payments", count, len(transports))
}
