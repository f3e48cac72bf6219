package web

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

func TestIfNoneMatchIs304(t *testing.T) {
	s := newWorld(t).server(t)
	etag := send(t, s, "GET", "/v1/invoice", "").Header.Get("ETag")
	require.Regexp(t, `^"[A-Za-z0-9_-]{22}"$`, etag)
	for _, held := range []string{etag, `"other", ` + etag, "W/" + etag, "*"} {
		res := send(t, s, "GET", "/v1/invoice", "", "If-None-Match", held)
		require.Equal(t, 304, res.StatusCode, held)
		require.Empty(t, read(t, res))
		require.Equal(t, etag, res.Header.Get("ETag"))
		require.Equal(t, []string{"Accept, Accept-Encoding"}, res.Header.Values("Vary"))
		require.Equal(t, "*", res.Header.Get("Access-Control-Allow-Origin"))
		require.Empty(t, res.Header.Get("Content-Type"))
	}
	for _, held := range []string{`"other"`, etag[:5], ""} {
		require.Equal(t, 200, send(t, s, "GET", "/v1/invoice", "", "If-None-Match", held).StatusCode, held)
	}
}

func TestCacheControlPerPath(t *testing.T) {
	s := newWorld(t).server(t)
	for target, want := range map[string]string{
		"/openapi.json": "public, max-age=300", "/.well-known/host-meta.json": "public, max-age=300",
		"/v1/sponsor": "no-cache", "/.well-known/host-meta": "no-cache", "/v1/pay/transfer": "no-cache",
		"/v1/invoice": "no-cache", "/v1/pay/btc.uri": "no-cache",
		"/pay": "no-store", "/v1/offer": "no-store", "/v1/pay/btc.png": "no-store", "/v1/received": "no-store",
		"/.well-known/webfinger": "no-store",
	} {
		res := send(t, s, "GET", target, "")
		require.Equal(t, want, res.Header.Get("Cache-Control"), target)
		kind := regexp.MustCompile(`^(W/)?"|^`).FindString(res.Header.Get("ETag"))
		switch {
		case want == "no-store":
			require.Empty(t, res.Header.Get("ETag"), target)
		default:
			require.Equal(t, `"`, kind, target)
		}
	}
}

// A cache that reads Vary wrongly must not serve a page to software: what Accept chooses is
// revalidated or not stored. nginx before 1.23 uses only the last line of Vary.
func TestVaryIsOneLineAndRevalidated(t *testing.T) {
	s, revalidated := newWorld(t).server(t), 0
	for _, target := range targets(s) {
		for _, accept := range accepts {
			h := getPage(s, target, accept, "de").Header()
			require.LessOrEqual(t, len(h.Values("Vary")), 1, target)
			if !slices.Contains(strings.Split(h.Get("Vary"), ", "), "Accept") {
				continue
			}
			if h.Get("Cache-Control") == "no-store" {
				continue
			}
			revalidated++
			require.Equal(t, "no-cache", h.Get("Cache-Control"), target)
			require.NotEmpty(t, h.Get("Etag"), target)
		}
	}
	require.Greater(t, revalidated, 10)
}

func TestRefreshAppliesNewRate(t *testing.T) {
	w := newWorld(t)
	s := w.server(t)
	before := send(t, s, "GET", "/v1/pay/btc.uri", "")
	require.Contains(t, read(t, before), "amount=0.00045678&")
	w.live.Satoshis = 50_000
	s.Refresh()
	after := send(t, s, "GET", "/v1/pay/btc.uri", "", "If-None-Match", before.Header.Get("ETag"))
	require.Equal(t, 200, after.StatusCode)
	require.Contains(t, read(t, after), "amount=0.0005&")
	require.Contains(t, read(t, send(t, s, "GET", "/v1/invoice", "")), `"50000"`)
	require.Contains(t, read(t, send(t, s, "GET", "/v1/pay", "", "Accept", browser)), "0.0005 BTC")
}

func TestRenewExtendsSecurityTxt(t *testing.T) {
	s := newWorld(t).server(t)
	before := read(t, send(t, s, "GET", "/.well-known/security.txt", ""))
	s.Renew(at.AddDate(0, 6, 0))
	require.NotEqual(t, before, read(t, send(t, s, "GET", "/.well-known/security.txt", "")))
}

func TestNewRefusesInvalidConfig(t *testing.T) {
	_, err := New(Config{})
	require.Error(t, err)

	w := newWorld(t)
	long := make([]byte, 3000)
	for i := range long {
		long[i] = 'a'
	}
	shop, err := offer.NewStorefront("shop", "https://shop.example/"+string(long), 42_00)
	require.NoError(t, err)
	w.offer = must(offer.New(terms(), w.offer.Card, shop))(t)
	require.ErrorContains(t, CheckImages(w.offer), `rail "shop"`)
}

// Other handlers of a site add to headers and edit values in place. No other response changes.
func TestEditedHeadersAreNotShared(t *testing.T) {
	s := newWorld(t).server(t)
	want := getPage(s, "/v1/pay", browser, "de").Header()
	edited := getPage(s, "/v1/pay", browser, "de").Header()
	require.Equal(t, want, edited)
	for name := range edited {
		edited[name][0] += " edited"
		edited[name] = append(edited[name], "added")
	}
	for name, values := range want {
		expected := append([]string{values[0] + " edited"}, values[1:]...)
		require.Equal(t, append(expected, "added"), edited[name])
	}
	require.Equal(t, want, getPage(s, "/v1/pay", browser, "de").Header())
}

func TestCacheComputesOnce(t *testing.T) {
	var made atomic.Int64
	render := func() *response { made.Add(1); return new(response) }
	var answers cache[string, *response]
	document := renderOnce(render)
	for name, ask := range map[string]func() *response{
		"in a cache": func() *response { return answers.get("a", render) },
		"fixed":      func() *response { return document(nil) },
	} {
		made.Store(0)
		first := ask()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { require.Same(t, first, ask(), name) })
		}
		all.Wait()
		require.EqualValues(t, 1, made.Load(), name)
	}
}

func TestCacheIsBounded(t *testing.T) {
	var c cache[int, int]
	for i := range 3 * maxCached {
		require.Equal(t, i, c.get(i, func() int { return i }))
		require.LessOrEqual(t, len(c.values), maxCached)
	}
}

// schema is as much of a JSON schema as the tests look at.
type schema struct {
	Ref                  string `json:"$ref"`
	Type                 any
	Enum, Required       []any
	Format               string
	Description          string
	OneOf                []schema
	Items                *schema
	Properties           map[string]schema
	AdditionalProperties any
}

// schemas are those of an offer's description.
func schemas(t *testing.T, o *offer.Offer, hooks ...string) map[string]schema {
	t.Helper()
	var api struct {
		Components struct{ Schemas map[string]schema }
	}
	require.NoError(t, json.Unmarshal(OpenAPI(o, hooks...).Body, &api))
	return api.Components.Schemas
}

func TestOpenAPISchemas(t *testing.T) {
	all := schemas(t, payoffertest.Offer(t, terms(), "base"), "card")
	receipt, rail, report := all["Receipt"], all["RailReport"], all["Received"]

	require.Equal(t, "number", report.Properties["goalUsd"].Type, "an amount is a number, not the cents of the Go type")
	require.Equal(t, "date-time", receipt.Properties["occurredAt"].Format)
	require.Equal(t, []any{"seen", "confirmed", "dropped", "refunded", "reversed", "moved"}, receipt.Properties["status"].Enum)
	require.Contains(t, rail.Properties["state"].Enum, "manual")
	require.Equal(t, "uri", all["Method"].Properties["url"].Format)

	// What may be null says so, also where its values are listed.
	require.ElementsMatch(t, []any{"string", "null"}, receipt.Properties["amountUsdDecimal"].Type)
	require.Contains(t, rail.Properties["lastError"].Enum, nil)
	require.Equal(t, []schema{{Ref: "#/components/schemas/Sum"}, {Type: "null"}}, rail.Properties["seen"].OneOf)
	require.NotEmpty(t, rail.Properties["seen"].Description)
	require.Equal(t, "array", report.Properties["receipts"].Type)

	require.ElementsMatch(t, []any{"boolean", "null"}, report.Properties["goalMet"].Type)
	require.ElementsMatch(t, []any{"number", "null"}, rail.Properties["receivedUsd"].Type)
	require.Equal(t, &schema{Ref: "#/components/schemas/CurrencySum"}, all["Sum"].Properties["currencies"].Items)
	require.Equal(t, []any{"face", "quote", "rate", "stated"}, receipt.Properties["valueBasis"].Enum)

	require.NotContains(t, receipt.Required, "via")
	require.Contains(t, receipt.Required, "amountUsd")
	for name, s := range all {
		require.NotEmpty(t, s.Properties, name)
		require.Nil(t, s.AdditionalProperties, "%s is closed, but members may be added", name)
	}
}

func TestOpenAPIDescribesMembersOfPayments(t *testing.T) {
	chosen := terms()
	chosen.MPP = "Authorization"
	all := schemas(t, payoffertest.Offer(t, chosen, "base"))
	for name := range strings.FieldsSeq("Quote Terms Requirement Fallback PaymentRequired PaymentRequirements Resource PaymentPayload PaymentPayloadV1 " +
		"ExactPayload SettleResponse Settlement SignedReceipt Problem PaymentCredential ChargeRequest PaymentReceipt") {
		require.NotEmpty(t, all[name].Properties, name)
		for member, property := range all[name].Properties {
			require.True(t, property.Description != "" || property.Ref != "", "%s.%s", name, member)
		}
	}
}

// An offer that no program can pay says nothing of how one would.
func TestOpenAPICardOnlyOffer(t *testing.T) {
	card := must(offer.NewCard(checkout, nil, 42_00))(t)
	o := must(offer.New(terms(), card))(t)
	text := strings.ToLower(string(OpenAPI(o).Body))
	for _, word := range []string{
		"usdc", "x402", "btc", "bitcoin", "bip21", "eip681", "eip155", "ethereum", "mailto", "transfer", "storefront",
		"tip-jar", "spending cap", "exchange rate",
	} {
		require.NotContains(t, text, word)
	}
	require.Equal(t, []any{"error", "fallback"}, schemas(t, o)["Quote"].Required)
	require.Equal(t, []any{"x402Version", "error", "fallback", "accepts", "hint"}, schemas(t, payoffertest.Offer(t, terms(), "base"))["Quote"].Required)
}

func TestWebFingerResourceForms(t *testing.T) {
	s := newWorld(t).server(t)
	for query, want := range map[string]int{
		"resource=acct:pay@pay.example.org":                                 200,
		"resource=acct%3Apay%40pay.example.org":                             200,
		"resource=acct:pay@pay.example.org&rel=payment&rel=other&unknown=1": 200,
		"":             400,
		"resource=%zz": 400,
		"rel=payment":  400,
		"resource=acct:pay@pay.example.org&resource=acct:b@pay.example.org": 400,
		"resource=acct:other@pay.example.org":                               404,
	} {
		res := send(t, s, "GET", "/.well-known/webfinger?"+query, "")
		require.Equal(t, want, res.StatusCode, query)
		if want == http.StatusOK {
			require.Equal(t, "application/jrd+json", res.Header.Get("Content-Type"))
			require.Equal(t, "acct:pay@pay.example.org", readJSON(t, res)["subject"])
			continue
		}
		require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
		require.Contains(t, readJSON(t, res)["detail"], "acct:pay@pay.example.org")
	}
}

// Keys are known after the start, and change while the configuration stays.
func TestDIDDocumentListsCurrentKeys(t *testing.T) {
	w := newWorld(t)
	var keys []document.VerificationKey
	config := w.config()
	config.Keys = func() []document.VerificationKey { return keys }
	s := must(New(config))(t)
	before := send(t, s, http.MethodGet, offer.PathDID, "")
	require.Nil(t, readJSON(t, before)["verificationMethod"])

	keys = []document.VerificationKey{{ID: "one", Public: make([]byte, 32)}}
	s.Refresh()
	for _, path := range []string{offer.PathDID, offer.PathDIDRoot} {
		after := send(t, s, http.MethodGet, path, "")
		require.Equal(t, "public, max-age=300", after.Header.Get("Cache-Control"), "the time that a rotation waits for")
		require.NotEqual(t, before.Header.Get("Etag"), after.Header.Get("Etag"))
		require.Equal(t, []any{w.offer.DID() + "#one"}, readJSON(t, after)["assertionMethod"])
	}
}
