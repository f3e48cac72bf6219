package standards

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDocumentsAreConsistent reads everything that the shop publishes, for programs and for people, and compares each
// fact in it with what the operator wrote.
func TestDocumentsAreConsistent(t *testing.T) {
	s := openShop(t, moreRails)
	v := &vocabulary{shop: s, seen: map[string]int{}}
	for page, text := range s.everything(t) {
		v.readText(t, page, text)
		var document any
		if json.Unmarshal([]byte(text), &document) == nil {
			v.read(t, page, document)
		}
		for _, script := range jsonLD.FindAllStringSubmatch(text, -1) {
			require.NoError(t, json.Unmarshal([]byte(script[1]), &document), page)
			v.readOffer(t, page, document.(map[string]any))
		}
	}
	for fact, atLeast := range map[string]int{
		"amountUsd": 20, "amount": 6, "network": 20, "asset": 20, "payTo": 10, "card": 15, "currency": 8, "operator": 6, "name": 6,
		"rail": 30, "address": 40, "outside": 60, "price": 60, "schema.org": 3, "mailbox": 8,
	} {
		require.GreaterOrEqual(t, v.seen[fact], atLeast, "%s: the test hardly reads it: %v", fact, v.seen)
	}
}

var (
	jsonLD = regexp.MustCompile(`(?s)<script type="application/ld\+json">(.*?)</script>`)
	// signed is a compact JWS (RFC 7515 section 3.1) and its payload.
	signed = regexp.MustCompile(`^eyJ[\w-]+\.(eyJ[\w-]+)\.[\w-]+$`)
)

// everything is what the shop publishes, by where it stands.
func (s *shop) everything(t *testing.T) map[string]string {
	t.Helper()
	var api struct {
		Paths map[string]map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(s.get(t, "/openapi.json")), &api))
	all := map[string]string{}
	for path, item := range api.Paths {
		if item["get"] == nil || strings.Contains(path, "{") || path == "/v1/received" { // which holds sums
			continue
		}
		target := s.base + path
		if path == "/.well-known/webfinger" {
			target += "?resource=" + url.QueryEscape("acct:pay@localhost")
		}
		for _, accept := range []string{"*/*", "text/html"} {
			answer := s.ask(t, http.MethodGet, target, "", "Accept", accept)
			all["GET "+path+" "+accept] = answer.Body
			all["headers of GET "+path+" "+accept] = strings.Join(append(answer.Header["Link"], answer.Header["Location"]...), "\n")
		}
	}
	answer := s.ask(t, http.MethodPost, s.base+"/v1/sponsor", "")
	require.Equal(t, http.StatusPaymentRequired, answer.Status)
	header, err := base64.StdEncoding.DecodeString(answer.Header.Get("PAYMENT-REQUIRED"))
	require.NoError(t, err)
	all["POST /v1/sponsor"], all["PAYMENT-REQUIRED"] = answer.Body, string(header)
	for name, call := range map[string]string{
		"MCP":         `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"first_42_sponsor"}}`,
		"MCP's tools": `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		"A2A": `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"1","role":"user",
			"parts":[{"kind":"text","text":"How can I pay?"}]}}}`,
	} {
		all[name] = s.ask(t, http.MethodPost, s.base+"/mcp", call, "Content-Type", "application/json").Body
	}
	all["the site's page"] = s.ask(t, http.MethodGet, s.site+"/offer/", "").Body
	require.Greater(t, len(all), 80)
	return all
}

// vocabulary compares facts and counts them by their kind.
type vocabulary struct {
	*shop
	seen map[string]int
}

func (v *vocabulary) equal(t *testing.T, fact string, want, got any, page string) {
	t.Helper()
	v.seen[fact]++
	require.Equal(t, want, got, "%s in %s", fact, page)
}

// read walks a decoded document.
func (v *vocabulary) read(t *testing.T, page string, value any) {
	t.Helper()
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			v.read(t, page, item)
		}
	case string: // a document may stand in another as text, or signed
		if match := signed.FindStringSubmatch(value); match != nil {
			payload, err := base64.RawURLEncoding.DecodeString(match[1])
			require.NoError(t, err, page)
			value = string(payload)
		}
		var inner map[string]any
		if strings.HasPrefix(value, "{") && json.Unmarshal([]byte(value), &inner) == nil {
			v.read(t, page, inner)
		}
	case map[string]any:
		v.readObject(t, page, value)
		for _, item := range value {
			v.read(t, page, item)
		}
	}
}

// readObject compares the members of an object whose meaning is known. A member of another type is part of a schema.
func (v *vocabulary) readObject(t *testing.T, page string, o map[string]any) {
	t.Helper()
	if amount, ok := o["amountUsd"].(float64); ok {
		v.equal(t, "amountUsd", 42.0, amount, page)
	}
	switch currency, ok := o["currency"].(string); {
	case ok && strings.HasPrefix(currency, "0x"): // of the Payment scheme: a token
		require.Contains(t, slices.Collect(maps.Values(tokens)), currency, page)
		if amount, priced := o["amount"]; priced {
			v.equal(t, "amount", "42000000", amount, page)
		}
	case ok:
		v.equal(t, "currency", "USD", strings.ToUpper(currency), page)
	}
	if scheme, ok := o["scheme"].(string); ok && scheme == "stripe" {
		v.equal(t, "card", card, o["url"], page)
	}
	if url, ok := o["card"].(string); ok {
		v.equal(t, "card", card, url, page)
	}
	v.readNames(t, page, o)
	v.readMoney(t, page, o)
	v.readRail(t, page, o)
}

// readNames compares who offers what.
func (v *vocabulary) readNames(t *testing.T, page string, o map[string]any) {
	t.Helper()
	for member, want := range map[string]string{
		"operator": operator, "organization": operator, "payee": operator, "nodeName": name, "nodeDescription": description, "documentationUrl": source,
		"repository": source,
	} {
		if got, ok := o[member].(string); ok {
			v.equal(t, "operator", want, got, page)
		}
	}
	// An object that says what the offer is names it; a requirement of version 1 has no name.
	if got, ok := o["description"].(string); ok && got == description {
		if _, ok := o["role"]; ok { // a manifest describes who asks by what is offered
			v.equal(t, "operator", operator, o["name"], page)
			return
		}
		for _, member := range []string{"name", "title"} {
			if named, ok := o[member].(string); ok && !strings.Contains(page, "/package.json") {
				v.equal(t, "name", name, named, page)
			}
		}
	}
}

// networks are the names of the shop's networks in the versions of x402.
var networks = map[string]string{"base-sepolia": "eip155:84532"}

// readMoney compares what is paid where: the members of a method, of a requirement and of a signed offer.
func (v *vocabulary) readMoney(t *testing.T, page string, o map[string]any) {
	t.Helper()
	network, ok := o["network"].(string)
	if !ok {
		return
	}
	if long, known := networks[network]; known {
		network = long
	}
	v.seen["network"]++
	want, atomic := map[string]any{"asset": "USD"}, "42000000"
	switch token := tokens[network]; {
	case token != "":
		want = map[string]any{"asset": token, "payTo": payTo, "amount": atomic, "maxAmountRequired": atomic, "amountAtomic": atomic}
	case strings.HasPrefix(network, "bip122:"):
		want["asset"] = "BTC"
	default:
		require.Equal(t, "fiat", network, page)
		if _, mailed := o["memo"]; mailed {
			want["payTo"] = inbox
		}
	}
	for member, fact := range map[string]string{
		"asset": "asset", "payTo": "payTo", "amount": "amount", "maxAmountRequired": "amount", "amountAtomic": "amount",
	} {
		if got, ok := o[member]; ok && want[member] != nil {
			v.equal(t, fact, want[member], got, page)
		}
	}
}

// readRail compares the addresses of a rail.
func (v *vocabulary) readRail(t *testing.T, page string, o map[string]any) {
	t.Helper()
	rail, ok := o["rail"].(string)
	if !ok {
		return
	}
	require.Contains(t, []string{"card", "usdc", "usdc-421614", "btc", "transfer", "tip-jar", "pack"}, rail, page)
	v.seen["rail"]++
	for member, suffix := range map[string]string{"uriList": ".uri", "qr": ".png"} {
		if got, ok := o[member].(string); ok {
			v.equal(t, "rail", v.base+"/v1/pay/"+rail+suffix, got, page)
		}
	}
	if got, ok := o["url"].(string); ok && o["scheme"] != "x402" {
		v.equal(t, "rail", map[string]string{"card": card, "tip-jar": tipJar, "pack": pack}[rail], got, page)
	}
}

// readOffer compares the schema.org Offer of a page.
func (v *vocabulary) readOffer(t *testing.T, page string, o map[string]any) {
	t.Helper()
	v.equal(t, "schema.org", map[string]any{
		"@context": "https://schema.org", "@type": "Offer", "name": name, "description": description, "url": card,
		"price": "42.00", "priceCurrency": "USD", "availability": "https://schema.org/InStock",
		"seller": map[string]any{"@type": "Organization", "name": operator, "url": v.site},
	}, o, page)
}

var (
	evmAddress = regexp.MustCompile(`0x[0-9a-fA-F]{40}\b`)
	mailbox    = regexp.MustCompile(`[a-z][a-z0-9+.-]*@example\.org`)
	outside    = regexp.MustCompile(`https://(?:checkout|shop|code)\.example[^\s"'<>)\\` + "`" + `]*`)
	price      = regexp.MustCompile(`\b([0-9][0-9.,]*) USDC?\b`)
	chainID    = regexp.MustCompile(`eip155:([0-9]+)`)
)

// readText compares what has a form of its own wherever it stands.
func (v *vocabulary) readText(t *testing.T, page, text string) {
	t.Helper()
	text = html.UnescapeString(strings.NewReplacer(`\u0026`, "&", `\u003c`, "<", `\u003e`, ">").Replace(text))
	compare := func(fact string, pattern *regexp.Regexp, want ...string) {
		for _, got := range pattern.FindAllString(text, -1) {
			v.seen[fact]++
			require.Contains(t, want, strings.TrimRight(got, ".,;:"), "%s in %s", fact, page)
		}
	}
	compare("address", evmAddress, payTo, tokens["eip155:84532"], tokens["eip155:421614"])
	compare("mailbox", mailbox, contact, inbox)
	compare("outside", outside, card, tipJar, pack, source)
	compare("network", chainID, "eip155:84532", "eip155:421614")
	for _, match := range price.FindAllStringSubmatch(text, -1) {
		amount, err := strconv.ParseFloat(match[1], 64)
		require.NoError(t, err, page)
		v.seen["price"]++
		// "1 USD" is what clients refuse to pass by default.
		require.True(t, slices.Contains([]float64{42, 1}, amount), "%s in %s", match[0], page)
	}
}
