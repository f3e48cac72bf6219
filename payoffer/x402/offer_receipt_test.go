package x402

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/signature"
)

// testSigner signs with a key of the tests; none while key is nil.
type testSigner struct{ key ed25519.PrivateKey }

func newTestSigner(seed byte) *testSigner {
	return &testSigner{ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune(seed)), ed25519.SeedSize)))}
}

func (s *testSigner) Sign(payload any) string {
	if s.key == nil {
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
	return signed + "." + b64(ed25519.Sign(s.key, []byte(signed)))
}

// payload is the statement that the signer's key signed.
func (s *testSigner) payload(t *testing.T, compact string) Statement {
	t.Helper()
	jws, err := signature.ParseJWS(compact)
	require.NoError(t, err)
	require.True(t, jws.VerifiedBy(s.key.Public().(ed25519.PublicKey)))
	statement, err := ParseStatement(jws.Payload)
	require.NoError(t, err)
	return statement
}

func headerOf(t *testing.T, s *Service) (header []byte, quote PaymentRequired) {
	t.Helper()
	header, err := base64.StdEncoding.DecodeString(s.Quote().Header)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(header, &quote))
	return header, quote
}

func offersOf(t *testing.T, s *Service) []string {
	t.Helper()
	header, _ := headerOf(t, s)
	return FindSigned(header)
}

func TestQuoteSignsEveryWayToPay(t *testing.T) {
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
	require.NoError(t, json.Unmarshal(quote.Extensions["offer-receipt"], &extension))
	require.Len(t, extension.Info.Offers, 2)
	for n, signed := range extension.Info.Offers {
		require.Equal(t, "jws", signed.Format)
		require.Equal(t, n, signed.AcceptIndex)
		says := signer.payload(t, signed.Signature).Offer
		require.NotNil(t, says)
		accepted := quote.Accepts[n]
		require.InDelta(t, time.Now().Add(48*time.Hour).Unix(), says.ValidUntil, 60)
		says.ValidUntil = 0
		require.Equal(t, &OfferPayload{
			Version: 1, ResourceURL: quote.Resource.URL, Scheme: "exact", Network: accepted.Network,
			Asset: accepted.Asset, PayTo: accepted.PayTo, Amount: accepted.Amount,
		}, says)
	}
	require.Less(t, len(shopOf(t, setup{signer: signer}).Quote().Header), 3200,
		"with one rail, a proxy's buffer of 4 KB takes it beside the other headers")
}

func TestRefreshPublishesOffersOfTheCurrentKey(t *testing.T) {
	signer := newTestSigner(1)
	key := signer.key
	signer.key = nil
	s := shopOf(t, setup{signer: signer})
	require.Empty(t, offersOf(t, s), "no key is loaded yet")
	before := s.Quote()
	require.Same(t, before, s.Quote())

	signer.key = key
	s.Refresh()
	require.NotSame(t, before, s.Quote())
	first := offersOf(t, s)
	require.Len(t, first, 1)
	require.NotNil(t, signer.payload(t, first[0]).Offer)
	refusal, err := base64.StdEncoding.DecodeString(s.Refusal("no").Header)
	require.NoError(t, err)
	require.Equal(t, first, FindSigned(refusal), "a refusal signs nothing anew")
	require.Equal(t, before.Body, s.Quote().Body, "version 1 stays as it was")

	*signer = *newTestSigner(2)
	s.Refresh()
	require.NotNil(t, signer.payload(t, offersOf(t, s)[0]).Offer)
}

func TestPaidAnswerCarriesOneReceiptForEver(t *testing.T) {
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
		after := newShop(t, setup{facilitators: one(f), ledger: s.book, owner: "instance-2", signer: newTestSigner(2)})
		require.Equal(t, first, after.pay(b.v2(t)), "another instance, another key, another time")
		require.Empty(t, after.pay(b.v1(t)).Response.Extensions, "extensions are of version 2")
	})
}

func TestPaidInVersion1ShowsNoReceiptThereAndKeepsIt(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f, signer := payoffertest.NewPipedFacilitator(t, "one"), newTestSigner(1)
		s := newShop(t, setup{facilitators: one(f), signer: signer})
		b := newBuyer(1)
		require.Empty(t, s.pay(b.v1(t)).Response.Extensions)
		require.Contains(t, s.pay(b.v2(t)).Response.Extensions, "offer-receipt")
	})
}

// A facilitator's word that the chain may still disprove is not signed for.
func TestAClaimIsSignedForOnceItIsProven(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f, chain, b := payoffertest.NewPipedFacilitator(t, "one"), newChain(t), newBuyer(1)
		chain.Down(true)
		s := newShop(t, setup{facilitators: one(f), chain: chain, signer: newTestSigner(1)})
		claimed := s.pay(b.v2(t))
		require.Equal(t, Settled, claimed.Status, claimed.Detail)
		require.Equal(t, "claimed", claimed.Evidence)
		require.Empty(t, claimed.Response.Extensions)

		chain.Down(false)
		chain.Transfer(b.key(), claimed.Response.Transaction, 42_000_000, false)
		time.Sleep(time.Hour)
		s.Resolve(t.Context())
		proven := s.pay(b.v2(t))
		require.Equal(t, "seen", proven.Evidence)
		require.Contains(t, proven.Response.Extensions, "offer-receipt")
	})
}

// The observer of the chain may settle an intent before anything answered its
// buyer, for example after a crash.
func TestPaymentThatTheObserverSettledGetsOneReceipt(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f := payoffertest.NewPipedFacilitator(t, "one")
		s := newShop(t, setup{facilitators: one(f), signer: newTestSigner(1)})
		f.Script(payoffertest.CallSettle, payoffertest.FacilitatorReply{Fault: payoffertest.FaultCloseRead})
		b := newBuyer(1)
		require.Equal(t, Open, s.pay(b.v2(t)).Status)
		require.NoError(t, s.book.SettleIntent(t.Context(), b.key(), someTransaction, nil, ledger.EvidenceChain))

		first := s.pay(b.v2(t))
		require.Equal(t, Settled, first.Status)
		require.Equal(t, someTransaction, first.Response.Transaction)
		require.Contains(t, first.Response.Extensions, "offer-receipt")
		time.Sleep(time.Hour)
		require.Equal(t, first, s.pay(b.v2(t)))
	})
}

func TestPaymentWithoutASignerHasNoExtension(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		for name, signer := range map[string]Signer{"none": nil, "keyless": new(testSigner)} {
			f := payoffertest.NewPipedFacilitator(t, name)
			s := newShop(t, setup{facilitators: one(f), signer: signer})
			require.Empty(t, offersOf(t, s.Service))
			got := s.Pay(context.Background(), Attempt{Payload: newBuyer(1).v2(t)})
			require.Equal(t, Settled, got.Status, got.Detail)
			require.Empty(t, got.Response.Extensions)
		}
	})
}

func TestBazaarDescribesTheOneCall(t *testing.T) {
	_, quote := headerOf(t, shopOf(t, setup{}))
	var bazaar map[string]any
	require.NoError(t, json.Unmarshal(quote.Extensions["bazaar"], &bazaar))
	require.JSONEq(t, `{"input":{"type":"http","method":"POST","bodyType":"json","body":{}},
		"output":{"type":"json","example":{"success":true,"status":"seen","amountUsd":42,"currency":"USD"}}}`, string(mustJSON(t, bazaar["info"])))
	require.Equal(t, "https://json-schema.org/draft/2020-12/schema", bazaar["schema"].(map[string]any)["$schema"])
}
