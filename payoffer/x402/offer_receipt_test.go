package x402

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/signature"
)

// testSigner signs with a key of the tests; none while key is nil.
type testSigner struct{ key ed25519.PrivateKey }

func newTestSigner(seed byte) *testSigner {
	return &testSigner{ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune(seed)), ed25519.SeedSize)))}
}

func (ts *testSigner) Sign(payload any) string {
	if ts.key == nil {
		return ""
	}
	text, err := json.Marshal(payload)
	if err == nil {
		text, err = signature.Canonical(text)
	}
	if err != nil {
		panic(err)
	}
	b64 := base64.RawURLEncoding.EncodeToString
	signed := b64([]byte(`{"alg":"EdDSA","kid":"did:web:pay.example.org#`+strings.Repeat("k", 43)+`"}`)) + "." + b64(text)
	return signed + "." + b64(ed25519.Sign(ts.key, []byte(signed)))
}

// payload is the statement that the signer's key signed.
func (ts *testSigner) payload(t *testing.T, compact string) Signed {
	t.Helper()
	jws := must(signature.ParseJWS(compact))(t)
	require.True(t, jws.VerifiedBy(ts.key.Public().(ed25519.PublicKey)))
	statement, _, err := parseStatement(jws.Payload)
	require.NoError(t, err)
	return statement
}

func headerOf(t *testing.T, s *Service) (header []byte, quote PaymentRequired) {
	t.Helper()
	header = must(base64.StdEncoding.DecodeString(s.Quote().Header()))(t)
	require.NoError(t, json.Unmarshal(header, &quote))
	return header, quote
}

// bodyOf is the body of the standing quote.
func bodyOf(t *testing.T, s *Service) (body PaymentRequiredV1) {
	t.Helper()
	require.NoError(t, json.Unmarshal(s.Quote().Body, &body))
	return body
}

func offersOf(s *Service) []string { return FindSigned(s.Quote().Body) }

func TestQuoteSignsEveryOffer(t *testing.T) {
	signer := newTestSigner(1)
	s := shopOf(t, setup{networks: []string{"base", "base-sepolia"}, signer: signer})
	_, quote := headerOf(t, s)
	var extension struct {
		Info struct {
			Offers []struct {
				Format      string `json:"format"`
				AcceptIndex int    `json:"acceptIndex"`
				Signature   string `json:"signature"`
			} `json:"offers"`
		} `json:"info"`
	}
	require.NotContains(t, quote.Extensions, "offer-receipt", "the header has no room")
	require.Equal(t, s.Required("").Extensions["offer-receipt"], bodyOf(t, s).Extensions["offer-receipt"])
	require.Len(t, bodyOf(t, s).Extensions, 1)
	require.Empty(t, s.Quote().Terms.Extensions)
	require.NoError(t, json.Unmarshal(bodyOf(t, s).Extensions["offer-receipt"], &extension))
	require.Len(t, extension.Info.Offers, 2)
	for n, signed := range extension.Info.Offers {
		require.Equal(t, "jws", signed.Format)
		require.Equal(t, n, signed.AcceptIndex)
		says := signer.payload(t, signed.Signature).Offer
		require.NotNil(t, says)
		accepted := quote.Accepts[n]
		day := int64(24 * time.Hour / time.Second)
		require.Zero(t, says.ValidUntil%day, "all instances sign the same")
		require.Equal(t, time.Now().Unix()/day+3, says.ValidUntil/day)
		says.ValidUntil = 0
		require.Equal(t, &OfferPayload{
			Version: 1, ResourceURL: quote.Resource.URL, Scheme: "exact", Network: accepted.Network,
			Asset: accepted.Asset, PayTo: accepted.PayTo, Amount: accepted.Amount,
		}, says)
	}
}

func TestRefreshSignsWithCurrentKey(t *testing.T) {
	signer := newTestSigner(1)
	key := signer.key
	signer.key = nil
	s := shopOf(t, setup{signer: signer})
	require.Empty(t, offersOf(s), "no key is loaded yet")
	before := s.Quote()
	require.Same(t, before, s.Quote())

	signer.key = key
	s.Refresh()
	require.NotSame(t, before, s.Quote())
	first := offersOf(s)
	require.Len(t, first, 1)
	require.NotNil(t, signer.payload(t, first[0]).Offer)
	require.Equal(t, first, FindSigned(s.Refusal("no").Body), "a refusal signs nothing anew")
	require.Equal(t, before.HeaderStart, s.Quote().HeaderStart, "the header stays as it was")
	require.Equal(t, before.Terms, s.Quote().Terms)

	*signer = *newTestSigner(2)
	s.Refresh()
	require.NotNil(t, signer.payload(t, offersOf(s)[0]).Offer)
}

func TestPayReturnsSameSignedReceipt(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f, signer := payoffertest.NewPipedFacilitator(t, "one"), newTestSigner(1)
		s := newShop(t, setup{facilitators: one(f), signer: signer})
		b := newBuyer(1)
		first := s.pay(b.v2(t))
		require.Equal(t, Settled, first.Status, first.Detail)
		signed := FindSigned([]byte(EncodeHeader(first.Response)))
		require.Len(t, signed, 1)
		require.Equal(t, &ReceiptPayload{
			Version: 1, Network: "eip155:84532", ResourceURL: "https://pay.example.org/v1/sponsor",
			Payer: strings.ToLower(b.auth.From), IssuedAt: time.Now().Unix(),
		}, signer.payload(t, signed[0]).Receipt, "and no transaction")

		time.Sleep(time.Hour)
		after := newShop(t, setup{facilitators: one(f), ledger: s.book, owner: "instance-2", signer: newTestSigner(2), limiter: limited(1, 24*time.Hour)})
		for range 3 { // and it spends no attempt
			require.Equal(t, first, after.pay(b.v2(t)), "another instance, another key, another time")
		}
		require.Empty(t, after.pay(b.v1(t)).Response.Extensions, "extensions are of version 2")
	})
}

// A facilitator's word that the chain may still disprove is not signed for.
func TestClaimReceiptIsSignedAfterProof(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f, chain, b := payoffertest.NewPipedFacilitator(t, "one"), newChain(t), newBuyer(1)
		chain.Down(true)
		s := newShop(t, setup{facilitators: one(f), chain: chain, signer: newTestSigner(1)})
		claimed := s.pay(b.v2(t))
		require.Equal(t, Settled, claimed.Status, claimed.Detail)
		require.Equal(t, "claimed", claimed.Evidence)
		require.Empty(t, claimed.Response.Extensions)

		chain.Down(false)
		chain.Transfer(b.key(), someTransaction, 42_000_000, false) // with a raised fee: another hash
		time.Sleep(time.Hour)
		s.Resolve(t.Context())
		proven := s.pay(b.v2(t))
		require.Equal(t, "seen", proven.Evidence)
		require.Equal(t, someTransaction, proven.Response.Transaction)
		require.Len(t, s.receipts(), 1)
		require.Contains(t, proven.Response.Extensions, "offer-receipt")
	})
}

// The observer of the chain may settle an intent before anything answered its
// buyer, for example after a crash.
func TestObservedPaymentGetsOneReceipt(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f := payoffertest.NewPipedFacilitator(t, "one")
		s := newShop(t, setup{facilitators: one(f), signer: newTestSigner(1)})
		f.Script(payoffertest.CallSettle, payoffertest.FacilitatorReply{Fault: payoffertest.FaultCloseRead})
		b := newBuyer(1)
		require.Equal(t, Open, s.pay(b.v2(t)).Status)
		must(s.book.Apply(t.Context(), b.key(), ledger.IntentChange{Event: accounting.EventProven, Transaction: someTransaction}))(t)

		first := s.pay(b.v2(t))
		require.Equal(t, Settled, first.Status)
		require.Equal(t, someTransaction, first.Response.Transaction)
		require.Contains(t, first.Response.Extensions, "offer-receipt")
		time.Sleep(time.Hour)
		require.Equal(t, first, s.pay(b.v2(t)))
	})
}

func TestBazaarExtension(t *testing.T) {
	_, quote := headerOf(t, shopOf(t, setup{}))
	var bazaar map[string]any
	require.NoError(t, json.Unmarshal(quote.Extensions["bazaar"], &bazaar))
	require.JSONEq(t, `{"input":{"type":"http","method":"POST","bodyType":"json","body":{}},
		"output":{"type":"json","example":{"success":true,"status":"seen","amountUsd":42,"currency":"USD"}}}`, string(mustJSON(t, bazaar["info"])))
	require.Equal(t, "https://json-schema.org/draft/2020-12/schema", bazaar["schema"].(map[string]any)["$schema"])
}

const (
	goodReceipt = `{"issuedAt":1703123456,"network":"eip155:8453","payer":"0x857b06519E91e3A54538791bDbb0E22373e36b66","resourceUrl":"https://api.example.com/premium-data","version":1}`
	goodOffer   = `{"amount":"10000","asset":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913","network":"eip155:8453","payTo":"0x209693Bc6afc0C5328bA36FaF03C514EF312287C","resourceUrl":"https://api.example.com/premium-data","scheme":"exact","validUntil":1703123516,"version":1}`
)

func TestParseStatementReceiptAndOffer(t *testing.T) {
	receipt, url, err := parseStatement([]byte(goodReceipt))
	require.NoError(t, err)
	require.Equal(t, "https://api.example.com/premium-data", url)
	require.EqualValues(t, 1703123456, receipt.Receipt.IssuedAt)
	offer, url, err := parseStatement([]byte(goodOffer))
	require.NoError(t, err)
	require.Equal(t, "https://api.example.com/premium-data", url)
	require.EqualValues(t, 1703123516, offer.Offer.ValidUntil)
	for _, optional := range []string{
		strings.Replace(goodReceipt, `,"version"`, `,"transaction":"0x12","version"`, 1),
		strings.Replace(goodOffer, `,"validUntil":1703123516`, "", 1),
	} {
		_, _, err := parseStatement([]byte(optional))
		require.NoError(t, err, optional)
	}
}

func TestParseStatementRefusesOtherPayloads(t *testing.T) {
	for name, c := range map[string]struct{ payload, want string }{
		"no JSON":                {"receipt", "is not JSON"},
		"another version":        {strings.Replace(goodReceipt, `"version":1`, `"version":2`, 1), "version 2"},
		"a member of neither":    {strings.Replace(goodReceipt, `"issuedAt"`, `"amount":"1","issuedAt"`, 1), "neither"},
		"a member twice":         {strings.Replace(goodReceipt, `"payer":`, `"payer":"0x00","payer":`, 1), "neither"},
		"no payer":               {strings.Replace(goodReceipt, `"payer":"0x857b06519E91e3A54538791bDbb0E22373e36b66",`, "", 1), "neither"},
		"a date out of time":     {strings.Replace(goodReceipt, `1703123456`, `170312345600000`, 1), "neither"},
		"spaces":                 {strings.Replace(goodReceipt, `,`, `, `, 1), "neither"},
		"members out of order":   {`{"version":1,` + strings.TrimSuffix(goodReceipt[1:], `,"version":1}`) + `}`, "neither"},
		"an offer without payTo": {strings.Replace(goodOffer, `"payTo":"0x209693Bc6afc0C5328bA36FaF03C514EF312287C",`, "", 1), "neither"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := parseStatement([]byte(c.payload))
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestFindSignedFormats(t *testing.T) {
	const jws, other = "eyJhbGciOiJFZERTQSJ9.e30.c2lnbmF0dXJl", "eyJhbGciOiJFZERTQSJ9.e30.b3RoZXI"
	settlement := `{"success":true,"extensions":{"offer-receipt":{"info":{"receipt":{"format":"jws","signature":"` + jws + `"}}}}}`
	header := base64.StdEncoding.EncodeToString([]byte(settlement))
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"the JWS":                   {" " + jws + "\n", []string{jws}},
		"a settlement":              {settlement, []string{jws}},
		"the header's value":        {header, []string{jws}},
		"the header":                {"payment-response: " + header, []string{jws}},
		"a whole answer":            {"HTTP/2 200\r\nx-a: b\r\nPayment-Response: " + header + "\r\n\r\n{}\n", []string{jws}},
		"offers, one of them twice": {`{"offers":[{"format":"jws","signature":"` + jws + `"},{"format":"jws","signature":"` + other + `"},{"format":"jws","signature":"` + jws + `"}]}`, []string{jws, other}},
		"a quote with its head":     {"HTTP/2 402\r\npayment-required: e30=\r\n\r\n" + settlement + "\n", []string{jws}},
		"a file name":               {"receipt.v1.json", nil},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, FindSigned([]byte(c.text))) })
	}
	text := ""
	for n := range 100 {
		text += "eyJ9.e30." + strings.Repeat("y", n+1) + " "
	}
	require.Len(t, FindSigned([]byte(text)), MaxArtifacts+1, "one more tells that there are too many")
}
