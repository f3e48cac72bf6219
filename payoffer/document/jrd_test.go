package document

import (
	"crypto/ed25519"
	"encoding/json"
	"encoding/xml"
	"errors"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// checkJRD checks the rules of RFC 7033 section 4.4 that typed clients rely on.
func checkJRD(t *testing.T, doc map[string]any) {
	t.Helper()
	for name := range doc {
		require.Contains(t, []string{"subject", "aliases", "properties", "links"}, name)
	}
	for name, value := range doc["properties"].(map[string]any) {
		u, err := url.Parse(name)
		require.NoError(t, err)
		require.True(t, u.IsAbs(), name)
		require.IsType(t, "", value, "numbers break typed readers")
	}
	for _, l := range doc["links"].([]any) {
		l := l.(map[string]any)
		require.NotEmpty(t, l["rel"])
		require.NotEqual(t, l["href"] != nil, l["template"] != nil, "a link has href or template")
		for _, title := range asMap(l["titles"]) {
			require.IsType(t, "", title)
		}
	}
}

func asMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// hrefs are the targets of a relation in a descriptor.
func hrefs(doc map[string]any, rel string) []string {
	var out []string
	for _, l := range doc["links"].([]any) {
		if l := l.(map[string]any); l["rel"] == rel {
			out = append(out, l["href"].(string))
		}
	}
	return out
}

// paymentTargets is what rel=payment must lead to: the checkout, then each rail.
func paymentTargets(o *offer.Offer) []string {
	targets := []string{o.Card.URL}
	for _, rail := range o.Rails {
		targets = append(targets, "https://pay.example.org/v1/pay/"+rail.Name()+".uri")
	}
	return targets
}

func TestHostMetaJSONLinksToEveryRail(t *testing.T) {
	o := fullOffer(t, terms())
	doc := decode(t, HostMetaJSON(o))
	checkJRD(t, doc)
	require.NotContains(t, doc, "subject", "no URI identifies a host")
	require.Equal(t, paymentTargets(o), hrefs(doc, "payment"))
	require.Equal(t, "text/html", at(t, doc, "links", 0, "type"))

	links := doc["links"].([]any)
	lrdd := links[len(links)-1].(map[string]any)
	require.Equal(t, "lrdd", lrdd["rel"])
	require.Equal(t, "https://pay.example.org/.well-known/webfinger?resource={uri}", lrdd["template"])
}

func TestHostMetaXRDMatchesJSON(t *testing.T) {
	o := fullOffer(t, terms())
	var doc struct {
		XMLName xml.Name `xml:"http://docs.oasis-open.org/ns/xri/xrd-1.0 XRD"`
		Links   []struct {
			Rel      string `xml:"rel,attr"`
			Type     string `xml:"type,attr"`
			Href     string `xml:"href,attr"`
			Template string `xml:"template,attr"`
			Title    string `xml:"Title"`
		} `xml:"http://docs.oasis-open.org/ns/xri/xrd-1.0 Link"`
		Properties []struct {
			Type  string `xml:"type,attr"`
			Value string `xml:",chardata"`
		} `xml:"Property"`
	}
	body := HostMetaXRD(o).Body
	require.NoError(t, xml.Unmarshal(body, &doc), "%s", body)
	require.Contains(t, string(body), `<?xml version="1.0" encoding="UTF-8"?>`)

	fromJSON := decode(t, HostMetaJSON(o))
	require.Len(t, doc.Links, len(fromJSON["links"].([]any)))
	var payments []string
	for i, l := range doc.Links {
		want := at(t, fromJSON, "links", i).(map[string]any)
		require.Equal(t, want["rel"], l.Rel)
		require.Equal(t, want["type"], l.Type)
		if l.Rel == "payment" {
			payments = append(payments, l.Href)
			require.Equal(t, at(t, want, "titles", "en"), l.Title)
		} else {
			require.Equal(t, want["template"], l.Template)
		}
	}
	require.Equal(t, paymentTargets(o), payments)
	for _, p := range doc.Properties {
		require.Equal(t, at(t, fromJSON, "properties", p.Type), p.Value)
	}
}

func TestWebFingerPayAccount(t *testing.T) {
	plain := fullOffer(t, terms())
	withPort := terms()
	withPort.BaseURL = "https://pay.example.org:8443"
	port := fullOffer(t, withPort)
	cases := map[string]struct {
		offer    *offer.Offer
		resource string
		want     error
	}{
		"account":                   {plain, "acct:pay@pay.example.org", nil},
		"account in capitals":       {plain, "ACCT:Pay@PAY.example.ORG", nil},
		"origin":                    {plain, "https://pay.example.org", nil},
		"origin with a slash":       {plain, "https://PAY.example.org/", nil},
		"DID":                       {plain, "did:web:pay.example.org", nil},
		"account with port":         {port, "acct:pay@pay.example.org:8443", nil},
		"account without its port":  {port, "acct:pay@pay.example.org", nil},
		"DID with port":             {port, "did:web:pay.example.org%3A8443", nil},
		"other account":             {plain, "acct:root@pay.example.org", ErrUnknownResource},
		"other host":                {plain, "acct:pay@example.org", ErrUnknownResource},
		"host that only ends alike": {plain, "acct:pay@evil@pay.example.org", ErrUnknownResource},
		"page of the origin":        {plain, "https://pay.example.org/other", ErrUnknownResource},
		"origin without TLS":        {plain, "http://pay.example.org/", ErrUnknownResource},
		"wrong port":                {port, "https://pay.example.org:8444/", ErrUnknownResource},
		"DID in small hex":          {port, "did:web:pay.example.org%3a8443", ErrUnknownResource},
		"missing":                   {plain, "", errResource},
		"no scheme":                 {plain, "pay@pay.example.org", errResource},
		"not a URI":                 {plain, "acct:pay@pay.example.org\n", errResource},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d, err := WebFinger(c.offer, c.resource, nil)
			require.ErrorIs(t, err, c.want)
			if c.want == nil {
				doc := decode(t, d)
				checkJRD(t, doc)
				require.Equal(t, c.offer.Acct(), doc["subject"])
				require.Equal(t, []any{c.offer.BaseURL, c.offer.DID()}, doc["aliases"])
				require.Equal(t, c.offer.Card.URL, hrefs(doc, "payment")[0])
			}
		})
	}
}

func TestWebFingerFiltersLinksByRelation(t *testing.T) {
	o := fullOffer(t, terms())
	get := func(rels ...string) map[string]any {
		d, err := WebFinger(o, o.Acct(), rels)
		require.NoError(t, err)
		return decode(t, d)
	}
	require.Equal(t, paymentTargets(o), hrefs(get("payment"), "payment"))
	require.Len(t, get("payment")["links"], len(paymentTargets(o)))
	require.Len(t, get("payment", "http://webfinger.net/rel/profile-page")["links"], len(paymentTargets(o))+1)

	none := get("author")
	require.Equal(t, []any{}, none["links"], "no match is an empty list, not an error")
	require.Equal(t, o.Acct(), none["subject"])
	require.Len(t, get()["links"], len(paymentTargets(o))+1)
}

func FuzzWebFinger(f *testing.F) {
	for _, seed := range []string{
		"acct:pay@pay.example.org", "https://pay.example.org/", "did:web:pay.example.org", "acct:", "acct:@", "://", "acct://pay@pay.example.org",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, resource string) {
		o := cardOffer(t, terms())
		d, err := WebFinger(o, resource, nil)
		if err != nil {
			require.True(t, errors.Is(err, errResource) || errors.Is(err, ErrUnknownResource))
			require.Empty(t, d.Body)
			return
		}
		var doc struct{ Subject string }
		require.NoError(t, json.Unmarshal(d.Body, &doc))
		require.Equal(t, "acct:pay@pay.example.org", doc.Subject, "the subject never comes from the request")
	})
}

func TestDIDListsSigningKeys(t *testing.T) {
	with := terms()
	with.BaseURL = "https://pay.example.org:8443"
	o := cardOffer(t, with)
	bare := decode(t, DID(o))
	require.NotContains(t, bare, "verificationMethod", "an empty list would name a key that there is not")
	require.NotContains(t, bare, "assertionMethod")

	// The public key of RFC 8037 appendix A.2.
	key := ed25519.PublicKey{
		0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7, 0xd5, 0x4b, 0xfe, 0xd3, 0xc9, 0x64, 0x07, 0x3a,
		0x0e, 0xe1, 0x72, 0xf3, 0xda, 0xa6, 0x23, 0x25, 0xaf, 0x02, 0x1a, 0x68, 0xf7, 0x07, 0x51, 0x1a,
	}
	doc := decode(t, DID(o, VerificationKey{"new", key}, VerificationKey{"old", key}))
	const did = "did:web:pay.example.org%3A8443"
	require.Equal(t, map[string]any{
		"id": did + "#new", "type": "JsonWebKey2020", "controller": did,
		"publicKeyJwk": map[string]any{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
	}, at(t, doc, "verificationMethod", 0))
	require.Equal(t, []any{did + "#new", did + "#old"}, doc["assertionMethod"])
	require.Equal(t, "https://www.w3.org/ns/did/v1", at(t, doc, "@context", 0), "which must be the first")
	require.Equal(t, bare["service"], doc["service"])
}

func TestOpenAPIInfo(t *testing.T) {
	withContact := terms()
	withContact.Contact = "help@example.org"
	o := fullOffer(t, withContact)
	doc := decode(t, api(o))
	require.Equal(t, "3.1.0", doc["openapi"])
	require.Equal(t, map[string]any{"name": "Example Org", "url": "https://www.example.org", "email": "help@example.org"}, at(t, doc, "info", "contact"))
	require.NotContains(t, at(t, decode(t, api(fullOffer(t, terms()))), "info", "contact"), "email")
	for _, c := range []struct {
		want any
		path []any
	}{
		{"0.2.0", []any{"info", "version"}}, {"Example Offer", []any{"info", "title"}}, {"One fixed payment.", []any{"info", "description"}},
		{"https://pay.example.org", []any{"servers", 0, "url"}}, {"https://www.example.org", []any{"servers", 1, "url"}},
		{o.Card.URL, []any{"externalDocs", "url"}}, {[]any{}, []any{"security"}},
		{"https://pay.example.org/openapi.json", []any{"x-service-info", "docs", "apiReference"}},
		{map[string]any{"scheme": "stripe", "amountUsd": 42.0, "url": o.Card.URL}, []any{"x-payment"}},
	} {
		require.Equal(t, c.want, at(t, doc, c.path...), c.path)
	}
}

func TestOpenAPIDescribesAnOperation(t *testing.T) {
	doc := decode(t, api(fullOffer(t, terms())))
	op := at(t, doc, "paths", "/v1/received/{id}", "get")
	require.Equal(t, "get_v1_received__id_", at(t, op, "operationId"))
	require.Equal(t, []any{map[string]any{"$ref": "#/components/schemas/Received"}, map[string]any{"$ref": "#/components/schemas/Feed"}},
		at(t, op, "responses", "200", "content", "application/json", "schema", "oneOf"))
	require.Equal(t, "path", at(t, op, "parameters", 0, "in"))
	require.Equal(t, true, at(t, op, "parameters", 0, "required"))
	require.Equal(t, "after", at(t, op, "parameters", 1, "name"))
	require.Equal(t, "#/components/responses/Problem", at(t, op, "responses", "4XX", "$ref"))
	require.Equal(t, "#/components/responses/Later", at(t, op, "responses", "503", "$ref"))
	require.NotContains(t, op, "x-payment")
	require.Equal(t, []any{"one"}, at(t, doc, "components", "schemas", "Received", "properties", "any", "enum"))
}

// Every entry of x-payment-info has a challenge at run time: each chain of an offer that
// challenges, and never the card.
func TestOpenAPIPaymentInfoMatchesChallenges(t *testing.T) {
	for field, challenges := range map[string]bool{"Authorization": true, "Payment-Authorization": true, "": false} {
		chosen := terms()
		chosen.MPP = field
		o := fullOffer(t, chosen)
		doc := decode(t, api(o))
		operation := at(t, doc, "paths", "/v1/sponsor", "post").(map[string]any)
		require.Contains(t, operation, "x-payment")
		at(t, operation, "requestBody", "content", "application/json", "schema")
		at(t, operation, "responses", "200", "content", "application/json")
		info := operation["x-payment-info"].(map[string]any)
		require.Equal(t, map[string]any{"mode": "fixed", "amount": "42.00", "currency": "USD"}, info["price"])
		protocols := []any{map[string]any{"x402": map[string]any{}}}
		if !challenges {
			require.NotContains(t, info, "offers")
			require.NotContains(t, doc["components"], "securitySchemes")
			require.Equal(t, protocols, info["protocols"])
			continue
		}
		var offers []any
		for _, u := range o.USDC() {
			offers = append(offers, map[string]any{
				"intent": "charge", "method": "evm", "amount": "42000000", "currency": u.Network.USDC, "description": unpricedMethod(o, u).Title,
			})
		}
		require.Equal(t, offers, info["offers"])
		require.Equal(t, append(protocols, map[string]any{"mpp": map[string]any{
			"method": "evm", "intent": "charge", "currency": o.USDC()[0].Network.USDC,
		}}), info["protocols"])
		require.Contains(t, operation["description"], "in the request header "+field+".")
		at(t, operation, "responses", "402", "content", "application/problem+json")
		at(t, operation, "responses", "402", "headers", "WWW-Authenticate", "schema")
		require.Equal(t, "#/components/schemas/PaymentReceipt", at(t, operation, "responses", "200", "headers", "Payment-Receipt", "schema", "contentSchema", "$ref"))
		require.Equal(t, []any{map[string]any{}, map[string]any{"mpp": []any{}}}, operation["security"], "without a credential it answers the quote")
		require.Equal(t, field, at(t, doc, "components", "securitySchemes", "mpp", "name"))
	}
	card := at(t, decode(t, api(cardOffer(t, terms()))), "paths", "/v1/sponsor", "post")
	require.NotContains(t, card, "x-payment-info", "directories list the operation as payable")
	require.NotContains(t, card, "parameters")
}
