package buyer

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

func TestWhatIsNotUnderstoodIsNotPaid(t *testing.T) {
	s := openSeller(t)
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	for name, c := range map[string]struct {
		accept object
		want   string
	}{
		"another token":        {object{"asset": "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"}, "which is not USDC (" + usdc + ")"},
		"no token":             {object{"asset": ""}, "which is not USDC"},
		"another name":         {object{"extra": object{"name": "USD Coin", "version": "2"}}, `it calls the token "USD Coin" version "2", and USDC on Base Sepolia`},
		"no name":              {object{"extra": object{}}, `it calls the token ""`},
		"another version":      {object{"extra": object{"name": "USDC", "version": "1"}}, `version "1"`},
		"other decimals":       {object{"extra": object{"name": "USDC", "version": "2", "decimals": 18}}, "USDC has 18 decimals, and it has 6"},
		"above the maximum":    {object{"amount": "50000001"}, "it costs 50.000001 USD, which is more than --max 50"},
		"far above it":         {object{"amount": "99999999999999999999"}, "is not a number of atomic units"},
		"nothing":              {object{"amount": "0"}, "is not a number of atomic units"},
		"less than nothing":    {object{"amount": "-1"}, "is not a number of atomic units"},
		"a fraction":           {object{"amount": "1.5"}, "is not a number of atomic units"},
		"an amount of zeros":   {object{"amount": "042"}, "is not a number of atomic units"},
		"a number":             {object{"amount": 42}, "has the wrong shape"},
		"an unknown network":   {object{"network": "eip155:56"}, `the network "eip155:56" is not known here`},
		"a name of version 1":  {object{"network": "base-sepolia"}, `the network "base-sepolia" is not known here`},
		"another chain family": {object{"network": "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"}, "is not known here"},
		"the token's address of another network": {object{"network": "eip155:8453", "extra": object{"name": "USD Coin", "version": "2"}},
			"which is not USDC (0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913)"},
		"another scheme":                        {object{"scheme": "upto"}, `the scheme "upto" is not known here`},
		"another method":                        {object{"extra": object{"name": "USDC", "version": "2", "assetTransferMethod": "permit2"}}, `by the method "permit2"`},
		"another flow":                          {object{"extra": object{"name": "USDC", "version": "2", "paymentFlow": "escrow"}}, `its payment flow is "escrow"`},
		"no time":                               {object{"maxTimeoutSeconds": 0}, "for how long"},
		"no payee":                              {object{"payTo": ""}, `the payee "" cannot be paid`},
		"the zero address":                      {object{"payTo": "0x0000000000000000000000000000000000000000"}, "the zero address"},
		"a mistyped payee":                      {object{"payTo": "0x52908400098527886E0F7030069857D2E4169EE8"[:41] + "e"}, "cannot be paid"},
		"a token as payee":                      {object{"payTo": usdc}, "is the USDC contract"},
		"steering characters":                   {object{"scheme": "a\x1b[2J\u202eb\n"}, `the scheme "a[2Jb" is not known here`},
		"a name that other readers do not know": {object{"payTo": "", "payto": "0x52908400098527886E0F7030069857D2E4169EE7"}, `the payee "" cannot be paid`},
		"an accept of no shape":                 {object{"extra": deep}, "wrong shape"},
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

func TestTheFirstWayToPayThatIsUnderstoodIsTaken(t *testing.T) {
	s := openSeller(t)
	base := object{"network": "eip155:8453", "asset": "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", "amount": "41000000",
		"extra": object{"name": "USD Coin", "version": "2", "paymentFlow": "upfront"}, "maxTimeoutSeconds": 86400}
	s.quote["accepts"] = []any{s.accept(object{"network": "solana:x"}), s.accept(nil), s.accept(base)}
	c := newCustomer(t, s)
	q, err := c.Quote(t.Context(), c.target)
	require.NoError(t, err)
	require.Equal(t, baseSepolia, q.Network.CAIP2())
	require.Equal(t, 5*time.Minute, q.Validity)

	for _, name := range []string{"base", "eip155:8453"} {
		c.Network = name
		q, err = c.Quote(t.Context(), c.target)
		require.NoError(t, err)
		require.Equal(t, []any{int64(41_000_000), "upfront", maxValidity}, []any{q.Atomic, q.Flow, q.Validity})
	}
	c.Network = "polygon"
	_, err = c.Quote(t.Context(), c.target)
	require.ErrorContains(t, err, "none of the 3 ways to pay can be taken")
	require.ErrorContains(t, err, "it is paid on Base, and --network is polygon")
}

func TestAnAnswerThatIsNoQuoteIsExplained(t *testing.T) {
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
		"nothing to pay":      {200, nil, "", "it asks for no payment (status 200)"},
		"a redirect":          {307, func(w http.ResponseWriter) { w.Header().Set("Location", "https://evil.example/\u202ex") }, "", `it redirects (status 307) to "https://evil.example/`},
		"not there":           {404, nil, "", "answers with status 404 instead of 402"},
		"version 1 alone":     {402, nil, v1, "it speaks version 1 of x402 alone, and this command speaks version 2 alone"},
		"version 3":           {402, nil, `{"x402Version":3}`, "it speaks version 3 of x402"},
		"version 1 in header": {402, header(x402.EncodeHeader(json.RawMessage(v1))), "", "version 1 of x402 alone"},
		"no x402":             {402, nil, `{"error":"pay"}`, "by other means than x402"},
		"no JSON":             {402, nil, "<html>", "by other means than x402"},
		"no base64":           {402, header("!"), "", "is not base64"},
		"no JSON in base64":   {402, header("AAAA"), "", "is not JSON that all read alike"},
		"two names":           {402, header("eyJhIjoxLCJhIjoyfQ=="), "", "is not JSON that all read alike"},
		"twice": {402, func(w http.ResponseWriter) {
			w.Header()[http.CanonicalHeaderKey(x402.HeaderRequired)] = []string{"e30=", "e30="}
		}, "", "stands twice"},
		"no way to pay":       {402, nil, `{"x402Version":2,"accepts":[]}`, "accepts no way to pay"},
		"too many":            {402, nil, `{"x402Version":2,"accepts":[` + strings.Repeat("1,", maxAccepts) + `1]}`, "more than 64 ways to pay"},
		"a wrong resource":    {402, nil, `{"x402Version":2,"resource":1,"accepts":[1]}`, "its resource has the wrong shape"},
		"a long echo":         {402, nil, `{"x402Version":2,"accepts":[1],"extensions":{"a":"` + strings.Repeat("x", maxEcho) + `"}}`, "that a payment must repeat"},
		"a huge body":         {402, nil, strings.Repeat(" ", maxQuote+1), "longer than"},
		"a huge header":       {402, header(strings.Repeat("A", maxHeader+1)), "", "cannot be asked for its price"},
		"a broken connection": {402, func(w http.ResponseWriter) { w.Header().Set("Content-Length", "10") }, "", "the connection broke"},
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

func TestAQuoteInTheBodyIsRead(t *testing.T) {
	s := openSeller(t)
	q, err := parseQuote(http.Header{}, encoded(t, s.quote))
	require.NoError(t, err)
	require.Equal(t, "A thing", q.Description)
	terms, err := q.choose("", 50_000_000)
	require.NoError(t, err)
	require.Equal(t, payee, terms.PayTo)
}

func TestOnlyHTTPSAndLoopbackArePaid(t *testing.T) {
	for address, want := range map[string]string{
		"http://pay.example.org/x":             "use https",
		"https://user:secret@pay.example.org/": "holds a user name or password",
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

func TestAnOfferIsVouchedForByTheHostOfTheURLAlone(t *testing.T) {
	other := openSeller(t)
	for name, c := range map[string]struct {
		extension func(s *seller) any
		want      Vouch
		words     string
	}{
		"signed":       {func(s *seller) any { return s.offered(nil) }, Vouch{Verified: true}, "signed by 127.0.0.1:"},
		"not signed":   {func(*seller) any { return object{"info": object{"offers": []any{}}} }, Vouch{}, "not signed"},
		"another host": {func(*seller) any { return other.offered(nil) }, Vouch{}, "which proves nothing about"},
		"another host's key": {func(s *seller) any {
			return other.offered(func(o *x402.OfferPayload) { o.ResourceURL = s.base + "/buy" })
		}, Vouch{}, "which proves nothing about"},
		"another amount": {func(s *seller) any { return s.offered(func(o *x402.OfferPayload) { o.Amount = "1" }) }, Vouch{Wrong: true}, "other terms than the quote"},
		"another payee":  {func(s *seller) any { return s.offered(func(o *x402.OfferPayload) { o.PayTo = usdc }) }, Vouch{Wrong: true}, "other terms"},
		"ended":          {func(s *seller) any { return s.offered(func(o *x402.OfferPayload) { o.ValidUntil = 1 }) }, Vouch{Wrong: true}, "has ended"},
		"a receipt": {func(s *seller) any {
			return signedBy(s.keys.Sign(x402.ReceiptPayload{Version: 1, Network: baseSepolia, ResourceURL: s.base + "/buy", Payer: payee, IssuedAt: 1}))
		}, Vouch{Wrong: true}, "it is no offer"},
		"tampered": {func(s *seller) any {
			signed := s.keys.Sign(x402.OfferPayload{Version: 1, ResourceURL: s.base, Scheme: "exact", Network: baseSepolia, PayTo: payee})
			good := s.keys.Sign("other")
			return signedBy(signed[:strings.LastIndex(signed, ".")] + good[strings.LastIndex(good, "."):])
		}, Vouch{Wrong: true}, "does not hold"},
		"another format": {func(*seller) any {
			return object{"info": object{"offers": []any{object{"format": "eip712", "signature": "0x00"}}}}
		}, Vouch{}, `in the format "eip712", which is not read here`},
		"no statement": {func(*seller) any { return signedBy("eyJ.eyJ.AA") }, Vouch{Wrong: true}, "cannot be read"},
		"of two, one matches": {func(s *seller) any {
			offers := object{"offers": []any{}}
			for _, amount := range []string{"1", "42000000"} {
				signed := s.offered(func(o *x402.OfferPayload) { o.Amount = amount })
				offers["offers"] = append(offers["offers"].([]any), signed["info"].(object)["offers"].([]any)...)
			}
			return object{"info": offers}
		}, Vouch{Verified: true}, "signed by"},
	} {
		t.Run(name, func(t *testing.T) {
			s := openSeller(t)
			s.quote["extensions"].(object)["offer-receipt"] = c.extension(s)
			buyer := newCustomer(t, s)
			q, err := buyer.Quote(t.Context(), buyer.target)
			require.NoError(t, err)
			require.Equal(t, []bool{c.want.Verified, c.want.Wrong}, []bool{q.Verified, q.Wrong}, q.Words)
			require.Contains(t, q.Words, c.words)
		})
	}
	require.Zero(t, other.quotes)
}

func FuzzAQuoteIsReadOrRefused(f *testing.F) {
	accept := `{"scheme":"exact","network":"eip155:84532","asset":"` + usdc + `","payTo":"` + payee + `","amount":"42000000","maxTimeoutSeconds":300,"extra":{"name":"USDC","version":"2"}}`
	f.Add(true, []byte(`{"x402Version":2,"resource":{"url":"https://a.example/"},"accepts":[`+accept+`],"extensions":{"payment-identifier":{"info":{"required":true}}}}`), []byte("{}"))
	f.Add(false, []byte{}, []byte(`{"x402Version":2,"accepts":[`+accept+`],"extensions":{"offer-receipt":{"info":{"offers":[{"format":"jws","signature":"eyJ.eyJ.AA"}]}}}}`))
	f.Add(false, []byte{}, []byte(`{"x402Version":1,"accepts":[]}`))
	key, err := ParseKey(strings.Repeat("1", 64))
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, inHeader bool, quote, body []byte) {
		header := http.Header{}
		if inHeader {
			header.Set(x402.HeaderRequired, base64.StdEncoding.EncodeToString(quote))
		}
		q, err := parseQuote(header, body)
		if err != nil {
			requireOneLine(t, err.Error())
			return
		}
		if q.Terms, err = q.choose("", 50_000_000); err != nil {
			for line := range strings.Lines(err.Error()) {
				requireOneLine(t, strings.TrimSuffix(line, "\n"))
			}
			return
		}
		// What is left can be paid: known money, an address, an amount within the limit.
		known, err := offer.LookupNetwork(q.Network.CAIP2())
		require.NoError(t, err)
		require.Equal(t, known, q.Network)
		require.True(t, q.Atomic > 0 && q.Atomic <= 50_000_000)
		payTo, err := offer.ParseEVMAddress(q.PayTo)
		require.NoError(t, err)
		require.Equal(t, payTo, q.PayTo)
		require.True(t, q.Validity > 0 && q.Validity <= maxValidity)
		authorized := x402.Authorize(key.private, q.Network, q.PayTo, q.Atomic, time.Now())
		text, err := x402.DecodeHeader(q.payload(authorized))
		require.NoError(t, err)
		require.True(t, json.Valid(text))
		require.True(t, bytes.Contains(text, []byte(authorized.Signature)))
	})
}

func requireOneLine(t *testing.T, text string) {
	t.Helper()
	require.Equal(t, strings.TrimSpace(text), strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x202e {
			return -1
		}
		return r
	}, text)))
}
