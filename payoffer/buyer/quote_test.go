package buyer

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

func TestUnknownPaymentTermsAreNotPaid(t *testing.T) {
	s := openSeller(t)
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	for name, c := range map[string]struct {
		accept object
		want   string
	}{
		"another token":        {object{"asset": "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"}, "is not USDC (" + usdc + ")"},
		"no token":             {object{"asset": ""}, "is not USDC"},
		"another name":         {object{"extra": object{"name": "USD Coin", "version": "2"}}, `the quote names the token "USD Coin" version "2", but USDC on Base Sepolia`},
		"another version":      {object{"extra": object{"name": "USDC", "version": "1"}}, `version "1"`},
		"above the maximum":    {object{"amount": "50000001"}, "it costs 50.000001 USD, more than --max 50"},
		"far above it":         {object{"amount": "99999999999999999999"}, "is not a number of atomic units"},
		"nothing":              {object{"amount": "0"}, "is not a number of atomic units"},
		"less than nothing":    {object{"amount": "-1"}, "is not a number of atomic units"},
		"an amount of zeros":   {object{"amount": "042"}, "is not a number of atomic units"},
		"a fraction":           {object{"amount": "1.5"}, "is not a number of atomic units"},
		"a number":             {object{"amount": 42}, "has a member of the wrong type"},
		"an unknown network":   {object{"network": "eip155:56"}, `the network "eip155:56" is not supported`},
		"another chain family": {object{"network": "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"}, "is not supported"},
		"the token's address of another network": {object{"network": "eip155:8453", "extra": object{"name": "USD Coin", "version": "2"}},
			"is not USDC (0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913)"},
		"another scheme":                        {object{"scheme": "upto"}, `the scheme "upto" is not supported`},
		"another method":                        {object{"extra": object{"name": "USDC", "version": "2", "assetTransferMethod": "permit2"}}, `the transfer method "permit2"`},
		"no time":                               {object{"maxTimeoutSeconds": 0}, "maxTimeoutSeconds is 0"},
		"no payee":                              {object{"payTo": ""}, `the payee "" cannot be paid`},
		"the zero address":                      {object{"payTo": "0x0000000000000000000000000000000000000000"}, "the zero address"},
		"a mistyped payee":                      {object{"payTo": "0x52908400098527886E0F7030069857D2E4169EE8"[:41] + "e"}, "cannot be paid"},
		"a token as payee":                      {object{"payTo": usdc}, "is the USDC contract"},
		"steering characters":                   {object{"scheme": "a\x1b[2J\u202eb\n"}, `the scheme "a[2Jb" is not supported`},
		"a name that other readers do not know": {object{"payTo": "", "payto": "0x52908400098527886E0F7030069857D2E4169EE7"}, `the payee "" cannot be paid`},
		"an accept of no shape":                 {object{"extra": deep}, "of the wrong type"},
	} {
		t.Run(name, func(t *testing.T) {
			s.quote["accepts"] = []any{s.accept(c.accept)}
			buyer := newCustomer(t, s)
			_, err := buyer.Quote(t.Context(), buyer.target)
			require.ErrorContains(t, err, "not paid: ")
			require.ErrorContains(t, err, c.want)
		})
	}
	all, _ := s.sent()
	require.Zero(t, all)
}

func TestFirstSupportedTermsAreChosen(t *testing.T) {
	s := openSeller(t)
	base := object{"network": "eip155:8453", "asset": "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", "amount": "41000000",
		"extra": object{"name": "USD Coin", "version": "2"}, "maxTimeoutSeconds": 86400}
	s.quote["accepts"] = []any{s.accept(object{"network": "solana:x"}), s.accept(nil), s.accept(base)}
	c := newCustomer(t, s)
	q, err := c.Quote(t.Context(), c.target)
	require.NoError(t, err)
	require.Equal(t, baseSepolia, q.Network.CAIP2())
	require.Equal(t, 5*time.Minute, q.Validity)

	for _, name := range []string{"base", "eip155:8453"} {
		c.Network = name
		q = must(c.Quote(t.Context(), c.target))(t)
		require.Equal(t, []any{int64(41_000_000), maxValidity}, []any{q.Atomic, q.Validity})
	}
	c.Network = "polygon"
	_, err = c.Quote(t.Context(), c.target)
	require.ErrorContains(t, err, "the seller is paid on Base, and --network is polygon")
	require.ErrorContains(t, err, `the network "solana:x" is not supported`)
}

func TestQuoteErrors(t *testing.T) {
	v1 := `{"x402Version":1,"error":"","accepts":[{"scheme":"exact"}]}`
	header := func(value string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { w.Header().Set(x402.HeaderRequired, value) }
	}
	for name, c := range map[string]struct {
		status int
		header func(http.ResponseWriter)
		body   string
		want   string
	}{
		"nothing to pay":      {200, nil, "", "does not ask for a payment (status 200)"},
		"a redirect":          {307, func(w http.ResponseWriter) { w.Header().Set("Location", "https://evil.example/\u202ex") }, "", `redirects (status 307) to "https://evil.example/`},
		"not there":           {404, nil, "", "responds with status 404 instead of 402"},
		"version 1 alone":     {402, nil, v1, "the quote is of x402 version 1, but this command pays only version 2"},
		"version 1 in header": {402, header(x402.EncodeHeader(json.RawMessage(v1))), "", "the quote is of x402 version 1"},
		"no x402":             {402, nil, `{"error":"pay"}`, "has no x402 quote"},
		"a checkout alone":    {402, nil, `{"error":"pay","fallback":{"url":"https://buy.example/\u202e1"}}`, `takes no x402 payment; a person can pay at "https://buy.example/1"`},
		"another fallback":    {402, nil, `{"x402Version":2,"accepts":[],"fallback":"https://buy.example/1"}`, "the quote has no payment methods"},
		"no JSON":             {402, nil, "<html>", "has no x402 quote"},
		"no base64":           {402, header("!"), "", "is not base64"},
		"no JSON in base64":   {402, header("AAAA"), "", "has no x402 quote"},
		"two names":           {402, header("eyJhIjoxLCJhIjoyfQ=="), "", "has no x402 quote"},
		"no way to pay":       {402, nil, `{"x402Version":2,"accepts":[]}`, "the quote has no payment methods"},
		"a wrong resource":    {402, nil, `{"x402Version":2,"resource":1,"accepts":[1]}`, "the resource of the quote is not an object"},
		"a huge body":         {402, nil, strings.Repeat(" ", maxQuote+1), "longer than"},
		"a huge header":       {402, header(strings.Repeat("A", maxHeader+1)), "", "sent no quote"},
		"a broken connection": {402, func(w http.ResponseWriter) { w.Header().Set("Content-Length", "10") }, "", "the connection ended early"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				require.Equal(t, "/buy?a=secret", r.URL.RequestURI(), "a redirect was followed")
				if c.header != nil {
					c.header(w)
				}
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			t.Cleanup(server.Close)
			target, err := NewTarget(http.MethodGet, server.URL+"/buy?a=secret#fragment")
			require.NoError(t, err)
			_, err = (&Buyer{Max: 1}).Quote(t.Context(), target)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "secret")
			require.NotContains(t, err.Error(), "\u202e")
		})
	}
}

func TestTargetNeedsHTTPSOrLoopback(t *testing.T) {
	for address, want := range map[string]string{
		"http://pay.example.org/x":             "write https",
		"https://user:secret@pay.example.org/": "contains a user name or password",
		"pay.example.org":                      "this is not an absolute URL",
		"ftp://pay.example.org":                "this is not an absolute URL",
		"0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d": "this is not an absolute URL",
	} {
		_, err := NewTarget(http.MethodPost, address)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret")
		require.NotContains(t, err.Error(), "59c6")
	}
	_, err := NewTarget(http.MethodDelete, "https://pay.example.org")
	require.ErrorContains(t, err, "GET or POST")
	target, err := NewTarget(http.MethodPost, "HTTPS://Pay.Example.org:443/x?y=Z#f")
	require.NoError(t, err)
	require.Equal(t, "https://pay.example.org/x?y=Z", target.URL())
}

func TestQuoteInBody(t *testing.T) {
	s := openSeller(t)
	in := must(parseRequired(http.Header{}, encoded(t, s.quote)))(t)
	q := must((&Buyer{Max: 50_000_000}).choose(in.Accepts))(t)
	require.Equal(t, payee, q.PayTo)
}

func FuzzQuote(f *testing.F) {
	accept := `{"scheme":"exact","network":"eip155:84532","asset":"` + usdc + `","payTo":"` + payee + `","amount":"42000000","maxTimeoutSeconds":300,"extra":{"name":"USDC","version":"2"}}`
	f.Add(true, []byte(`{"x402Version":2,"resource":{"url":"https://a.example/"},"accepts":[`+accept+`],"extensions":{"payment-identifier":{"info":{"required":true}}}}`), []byte("{}"))
	f.Add(false, []byte{}, []byte(`{"x402Version":2,"accepts":[`+accept+`],"extensions":{"offer-receipt":{"info":{"offers":[{"format":"jws","signature":"eyJ.eyJ.AA"}]}}}}`))
	f.Add(false, []byte{}, []byte(`{"x402Version":1,"accepts":[]}`))
	key := must(ParseKey(strings.Repeat("1", 64)))(f)
	f.Fuzz(func(t *testing.T, inHeader bool, quote, body []byte) {
		header := http.Header{}
		if inHeader {
			header.Set(x402.HeaderRequired, base64.StdEncoding.EncodeToString(quote))
		}
		in, err := parseRequired(header, body)
		if err != nil {
			return
		}
		q, err := (&Buyer{Max: 50_000_000}).choose(in.Accepts)
		if err != nil {
			return
		}
		// What is left can be paid: known money, an address, an amount within the limit.
		known := must(offer.LookupNetwork(q.Network.CAIP2()))(t)
		require.Equal(t, known, q.Network)
		require.True(t, q.Atomic > 0 && q.Atomic <= 50_000_000)
		payTo := must(offer.ParseEVMAddress(q.PayTo))(t)
		require.Equal(t, payTo, q.PayTo)
		require.True(t, q.Validity > 0 && q.Validity <= maxValidity)
		q.resource, q.extensions = in.Resource, in.Extensions
		authorized := x402.Authorize(key.private, q.Network, q.PayTo, q.Atomic, time.Now())
		text := must(x402.DecodeHeader(q.payload(authorized)))(t)
		require.True(t, json.Valid(text))
		require.True(t, bytes.Contains(text, []byte(authorized.Signature)))
	})
}

func TestQuoteFromUntrustedServer(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	target, err := NewTarget(http.MethodGet, server.URL)
	require.NoError(t, err)
	_, err = (&Buyer{Max: 1}).Quote(t.Context(), target)
	require.ErrorContains(t, err, "sent no quote: the server's certificate is not trusted (x509: ")
	require.NotContains(t, err.Error(), "network connection")
}
