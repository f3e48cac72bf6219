package gate

import (
	"context"
	"crypto/ecdsa"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/mpp"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

// payment is a signed authorization of a new wallet with the terms that it answers.
type payment struct {
	chain.Authorization
	key       *ecdsa.PrivateKey
	signature hexutil.Bytes
	accepted  json.RawMessage
	token     string
	challenge mpp.Challenge
}

func (p *payment) nonce() string { return strings.ToLower(p.Nonce.Hex()) }

// sign asks a gate for its terms and signs a payment for them, which change may change.
func (s *shop) sign(url string, change ...func(*payment)) *payment {
	s.Helper()
	quoted := s.ask(http.MethodGet, url, nil)
	require.Equal(s, http.StatusPaymentRequired, quoted.Status, "%s: %s", url, quoted.Body)
	text := lab.Must(base64.StdEncoding.DecodeString(quoted.Header.Get("Payment-Required")))(s)
	var terms struct {
		Accepts    []json.RawMessage
		Extensions struct {
			Access struct{ Info struct{ Token string } }
		}
	}
	require.NoError(s, json.Unmarshal(text, &terms))
	var accepted struct {
		Network, Asset, PayTo, Amount string
		Extra                         struct{ Name string }
	}
	require.NoError(s, json.Unmarshal(terms.Accepts[0], &accepted))
	id := lab.Must(strconv.ParseInt(strings.TrimPrefix(accepted.Network, "eip155:"), 10, 64))(s)
	network := chain.Network{ID: id, USDC: common.HexToAddress(accepted.Asset), Token: accepted.Extra.Name}
	key := chain.NewKey(s)
	value := lab.Must(strconv.ParseInt(accepted.Amount, 10, 64))(s)
	p := &payment{
		Authorization: chain.NewAuthorization(s, chain.Address(key), common.HexToAddress(accepted.PayTo), value), key: key,
		accepted: terms.Accepts[0], token: terms.Extensions.Access.Info.Token, challenge: mpp.Challenged(s, quoted.Header, network),
	}
	p.Network = network
	p.Nonce = p.challenge.Nonce()
	for _, f := range change {
		f(p)
	}
	p.From = chain.Address(p.key)
	p.signature = p.Sign(s, p.key)
	return p
}

// ways are how a payment is sent.
var ways = map[string]func(s *shop, p *payment) http.Header{
	"x402 version 2": (*shop).v2,
	"x402 version 1": func(s *shop, p *payment) http.Header {
		return s.encode("X-Payment", map[string]any{
			"x402Version": 1, "scheme": "exact", "network": "base-sepolia",
			"payload": map[string]any{"signature": p.signature, "authorization": p.Authorization},
		})
	},
	"MPP": func(s *shop, p *payment) http.Header {
		return http.Header{"Authorization": {mpp.Authorization(s, p.challenge.Credential(p.Authorization, p.signature))}}
	},
}

// v2 is a payment as clients of x402 version 2 send it: with the accepted terms and the token of the quote.
func (s *shop) v2(p *payment) http.Header {
	payload := p.Payload(p.signature)
	payload["accepted"] = p.accepted
	payload["extensions"] = map[string]any{"access": map[string]any{"info": map[string]any{"token": p.token}}}
	return s.encode("Payment-Signature", payload)
}

func (s *shop) encode(name string, payload any) http.Header {
	text := lab.Must(json.Marshal(payload))(s)
	return http.Header{name: {base64.StdEncoding.EncodeToString(text)}}
}

// answer is a response with what came before and after it.
type answer struct {
	server.Answer
	informed int   // 1xx responses
	err      error // if the response was cut off
	trailer  http.Header
}

// dial reaches every host at a port of this machine.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	_, port, _ := net.SplitHostPort(address)
	return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+port)
}

// clients are HTTP/1.1 and HTTP/2 without TLS. They do not change the content's encoding, follow no redirect and keep no
// connection.
var clients = map[string]*http.Client{"HTTP/1.1": newClient(false), "HTTP/2": newClient(true)}

func newClient(second bool) *http.Client {
	var protocols http.Protocols
	protocols.SetHTTP1(!second)
	protocols.SetUnencryptedHTTP2(second)
	return &http.Client{Timeout: 2 * server.Patience, CheckRedirect: server.Stay, Transport: &http.Transport{
		Protocols: &protocols, DisableKeepAlives: !second, DisableCompression: true, DialContext: dial,
	}}
}

func (s *shop) ask(method, url string, header http.Header) answer {
	s.Helper()
	return s.send(s.Context(), clients["HTTP/1.1"], method, url, header)
}

// send sends a request. POST has a body.
func (s *shop) send(ctx context.Context, client *http.Client, method, url string, header http.Header) (a answer) {
	s.Helper()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error { a.informed++; return nil }})
	var body io.Reader
	if method == http.MethodPost {
		body = strings.NewReader(`{"query":"the body"}`)
	}
	request := lab.Must(http.NewRequestWithContext(ctx, method, url, body))(s)
	for name, values := range header {
		request.Header[name] = values
	}
	response, err := client.Do(request)
	if err != nil {
		a.err = err
		return a
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	a.err, a.trailer = err, response.Trailer
	a.Answer = server.Answer{Status: response.StatusCode, Header: response.Header, Body: string(read)}
	return a
}

// everything is an answer as text.
func (a answer) everything() string {
	var text strings.Builder
	_ = a.Header.Write(&text)
	_ = a.trailer.Write(&text)
	return text.String() + a.Body
}

// requireNoContent requires that nothing of the content came out, and no pass.
func (s *shop) requireNoContent(a answer) {
	s.Helper()
	require.NotContains(s, a.everything(), secret)
	for _, name := range []string{"Set-Cookie", "Etag", "Last-Modified", "Accept-Ranges", "Content-Range", "Content-Disposition", "Trailer", "X-Content"} {
		require.Empty(s, a.Header.Values(name), name)
	}
}

// pass is the header with the cookie that an answer set, or nil.
func pass(a answer) http.Header {
	for _, line := range a.Header.Values("Set-Cookie") {
		if value, _, _ := strings.Cut(line, ";"); strings.HasPrefix(value, "pay_offer_") {
			return http.Header{"Cookie": {value}}
		}
	}
	return nil
}

// confirmation is the header of a charge in an answer.
func confirmation(a answer) string {
	return a.Header.Get("Payment-Response") + a.Header.Get("X-Payment-Response") + a.Header.Get("Payment-Receipt")
}

// sell delivers the notice of a card payment to an offer and returns the address of its receipt.
func (s *shop) sell(offer, base, id string) string {
	s.Helper()
	event, _ := server.CardPaid(id, price, cardSecret)
	event = strings.Replace(event, "plink_1", "plink_"+offer, 1)
	a := lab.Must(server.Do(clients["HTTP/1.1"], http.MethodPost, base+"/v1/hook/card", event, server.CardHeader(event, cardSecret)))(s)
	require.Equal(s, http.StatusOK, a.Status, a.Body)
	var arrival struct {
		Payment *struct{ ReceiptURL string }
	}
	server.Eventually(s, "the thanks page names the receipt", func() bool {
		a := s.ask(http.MethodGet, base+"/v1/thanks?session_id=cs_"+id, nil)
		return a.Status == http.StatusOK && json.Unmarshal([]byte(a.Body), &arrival) == nil && arrival.Payment != nil
	})
	return arrival.Payment.ReceiptURL
}

// code is that of a new entry link of a receipt.
func (s *shop) code(receipt string) string {
	s.Helper()
	a := s.ask(http.MethodGet, receipt+"/enter", nil)
	_, code, found := strings.Cut(a.Header.Get("Location"), "pay_offer=")
	require.True(s, found, "%d %v", a.Status, a.Header)
	return code
}
