package document

import (
	"bytes"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// securityFields reads security.txt by RFC 9116 section 4: "Name: value" lines
// that end with a line break, fields with their values in order.
func securityFields(t *testing.T, d Document) map[string][]string {
	t.Helper()
	body := string(d.Body)
	require.True(t, strings.HasSuffix(body, "\n"))
	fields := make(map[string][]string)
	for line := range strings.Lines(body) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, found := strings.Cut(line, ": ")
		require.True(t, found, "%q", line)
		require.Regexp(t, `^[A-Za-z-]+$`, name)
		fields[name] = append(fields[name], value)
	}
	for name := range fields {
		require.Contains(t, []string{"Contact", "Expires", "Preferred-Languages", "Canonical"}, name)
	}
	for _, contact := range fields["Contact"] {
		u, err := url.Parse(contact)
		require.NoError(t, err)
		require.Contains(t, []string{"https", "mailto"}, u.Scheme, "a contact is a URI")
	}
	return fields
}

func TestSecurityTxtContactOrder(t *testing.T) {
	withContact := terms()
	withContact.Contact = "help@example.org"
	const invoice = "https://pay.example.org/v1/invoice"
	for name, c := range map[string]struct {
		offer *offer.Offer
		want  []string
	}{
		"inbox of the bank transfer": {fullOffer(t, withContact), []string{"mailto:bank%26co%2B42@example.org", invoice}},
		"contact without such rail":  {cardOffer(t, withContact), []string{"mailto:help@example.org", invoice}},
		"neither":                    {cardOffer(t, terms()), []string{invoice}},
	} {
		t.Run(name, func(t *testing.T) {
			fields := securityFields(t, Security(c.offer, rendered))
			require.Equal(t, c.want, fields["Contact"])
			require.Equal(t, []string{"https://pay.example.org/.well-known/security.txt"}, fields["Canonical"])
			require.Equal(t, []string{"en"}, fields["Preferred-Languages"])
		})
	}
}

func TestSecurityTxtExpires(t *testing.T) {
	o := cardOffer(t, terms())
	west := time.FixedZone("west", -9*60*60)
	for now, want := range map[time.Time]string{
		time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC):    "2027-05-20T00:00:00Z",
		time.Date(2026, 11, 21, 23, 59, 59, 9, time.UTC): "2027-05-20T00:00:00Z",
		time.Date(2026, 11, 21, 20, 0, 0, 0, west):       "2027-05-21T00:00:00Z", // the 22nd in UTC
	} {
		fields := securityFields(t, Security(o, now))
		require.Equal(t, []string{want}, fields["Expires"])
	}
}

func TestDIDIdentifier(t *testing.T) {
	for base, want := range map[string]string{
		"https://pay.example.org":      "did:web:pay.example.org",
		"https://pay.example.org:8443": "did:web:pay.example.org%3A8443",
	} {
		with := terms()
		with.BaseURL = base
		doc := decode(t, DID(cardOffer(t, with)))
		require.Equal(t, want, doc["id"])
		require.Equal(t, want+"#payment", at(t, doc, "service", 0, "id"))
		require.Equal(t, []any{"https://www.w3.org/ns/did/v1"}, doc["@context"])
	}
}

func TestDIDHasAServicePerRail(t *testing.T) {
	// A rail may be named as the service that every document has.
	clash, err := offer.NewStorefront("payment", "https://shop.example/x", 42_00)
	require.NoError(t, err)
	for _, o := range []*offer.Offer{fullOffer(t, terms()), cardOffer(t, terms(), clash)} {
		services := decode(t, DID(o))["service"].([]any)
		require.Len(t, services, 1+len(o.Rails))
		require.Equal(t, o.Card.URL, at(t, services[0], "serviceEndpoint"))
		seen := make(map[any]bool)
		for i, service := range services {
			id := at(t, service, "id").(string)
			require.False(t, seen[id], "%s stands twice", id)
			seen[id] = true
			require.True(t, strings.HasPrefix(id, o.DID()+"#"))
			require.NotEmpty(t, at(t, service, "type"))
			if i > 0 {
				require.Equal(t, o.URL(offer.URIPath(o.Rails[i-1].Name())), at(t, service, "serviceEndpoint"))
			}
		}
	}
}

func TestNodeInfoMetadata(t *testing.T) {
	o := fullOffer(t, terms())
	doc := decode(t, NodeInfo(o))
	require.Equal(t, "2.1", doc["version"])
	require.Equal(t, "pay-offer", at(t, doc, "software", "name"))
	require.Len(t, doc["protocols"], 1)
	require.Equal(t, []any{}, at(t, doc, "services", "inbound"))
	require.Equal(t, []any{}, at(t, doc, "services", "outbound"))
	require.Equal(t, map[string]any{}, at(t, doc, "usage", "users"), "users are not invented")
	require.Equal(t, "42.00", at(t, doc, "metadata", "payment", "amount"))
	require.Equal(t, o.Card.URL, at(t, doc, "metadata", "payment", "url"))
	require.Len(t, at(t, doc, "metadata", "payment", "rails"), len(o.Rails))
	require.Contains(t, at(t, doc, "metadata", "protocolsNote"), "no federation protocol")
}

// npm drops the whole list when one entry is not a web address.
func TestPackageFundingURLs(t *testing.T) {
	o := fullOffer(t, terms())
	doc := decode(t, Package(o))
	require.Equal(t, true, doc["private"])
	require.Regexp(t, `^\d+\.\d+\.\d+$`, doc["version"])
	var urls []string
	for _, entry := range doc["funding"].([]any) {
		u, err := url.Parse(at(t, entry, "url").(string))
		require.NoError(t, err)
		require.Contains(t, []string{"http", "https"}, u.Scheme)
		require.NotEmpty(t, u.Host)
		urls = append(urls, u.String())
	}
	require.Equal(t, []string{
		o.Card.URL, "https://shop.example/tip-jar", "https://shop.example/pack",
		"https://pay.example.org/v1/pay/transfer", "https://pay.example.org/v1/pay",
	}, urls)
}

func TestPackageNameIsValidForNPM(t *testing.T) {
	valid := regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)
	for name, want := range map[string]string{
		"Example Offer":          "example-offer",
		"  ../Évil_Name\\@x  ":   "vil-name-x",
		"支付":                     "pay-example-org",
		strings.Repeat("Aé", 80): "",
		"-_-":                    "pay-example-org",
		"node_modules":           "node-modules",
	} {
		with := terms()
		with.Name = name
		got := decode(t, Package(cardOffer(t, with)))["name"].(string)
		require.Regexp(t, valid, got)
		require.LessOrEqual(t, len(got), 214)
		if want != "" {
			require.Equal(t, want, got)
		}
	}
}

func TestAPICatalogLinksOpenAPIAndMCP(t *testing.T) {
	o := cardOffer(t, terms())
	sets := decode(t, APICatalog(o))["linkset"].([]any)
	require.Equal(t, "https://pay.example.org/.well-known/api-catalog", at(t, sets[0], "anchor"))
	anchors := make(map[any]any)
	for _, set := range sets[1:] {
		anchors[at(t, set, "anchor")] = at(t, set, "service-desc", 0, "href")
	}
	for _, item := range at(t, sets[0], "item").([]any) {
		require.Contains(t, anchors, at(t, item, "href"), "an item without a description")
	}
	require.Equal(t, map[any]any{
		"https://pay.example.org":     "https://pay.example.org/openapi.json",
		"https://pay.example.org/mcp": "https://pay.example.org/.well-known/agent-card.json",
	}, anchors)
	require.Equal(t, o.Card.URL, at(t, sets[1], "payment", 0, "href"))
}

func TestX402ListsThePayableURL(t *testing.T) {
	o := fullOffer(t, terms())
	doc := decode(t, X402(o, []map[string]string{{"scheme": "exact", "amount": "42000000"}}))
	require.EqualValues(t, 1, doc["version"])
	require.EqualValues(t, 2, doc["x402Version"])
	require.Equal(t, []any{"https://pay.example.org/v1/sponsor"}, doc["resources"])
	accepts := []any{map[string]any{"scheme": "exact", "amount": "42000000"}}
	require.Equal(t, accepts, doc["accepts"])
	require.Equal(t, []any{map[string]any{
		"type": "http", "accepts": accepts, "input": map[string]any{"method": "POST"},
		"resource": map[string]any{
			"url": "https://pay.example.org/v1/sponsor", "description": "42 USD, one payment: Example Offer", "mimeType": "application/json",
			"serviceName": "Example Offer", "iconUrl": "https://pay.example.org/favicon.svg",
		},
	}}, doc["items"])
	require.EqualValues(t, 1795219200, doc["lastUpdated"], "2026-11-21 00:00 UTC")
	undated := terms()
	undated.Updated = ""
	require.NotContains(t, decode(t, X402(fullOffer(t, undated), accepts)), "lastUpdated")
}

// Where a program is told how to pay it is told of every protocol, and of none that
// is not spoken.
func TestDocumentsMentionMPPIfEnabled(t *testing.T) {
	for field, spoken := range map[string]bool{"Authorization": true, "Payment-Authorization": true, "": false} {
		chosen := terms()
		chosen.MPP = field
		o := fullOffer(t, chosen)
		for name, document := range map[string]Document{
			"llms.txt": LLMs(o), "skill": Skill(o), "x402.json": X402(o, []any{}), "OpenAPI": api(o),
		} {
			require.Equal(t, spoken, strings.Contains(strings.ToLower(string(document.Body)), "mpp"), "%s, credentials in %q", name, field)
		}
		nonce := regexp.MustCompile(`Keccak-256 of (the challenge's id followed by its realm|challenge id and realm)`)
		for _, document := range []Document{LLMs(o), Skill(o)} {
			require.Equal(t, spoken, nonce.Match(bytes.Join(bytes.Fields(document.Body), []byte(" "))))
		}
		require.Equal(t, field == "Payment-Authorization", strings.Contains(string(Skill(o).Body), "header Payment-Authorization"))
	}
}

func TestDocumentsLinkTheSpecificationsOfPayments(t *testing.T) {
	o := fullOffer(t, terms())
	description := at(t, decode(t, api(o)), "paths", offer.PathSponsor, "post", "description").(string)
	for name, text := range map[string]string{"llms.txt": string(LLMs(o).Body), "skill": string(Skill(o).Body), "OpenAPI": description} {
		for _, want := range []string{
			"EIP-3009 `transferWithAuthorization`", "TransferWithAuthorization, and the domain has `name` and `version` of `extra` in the x402 quote of the same 402",
			"(https://github.com/x402-foundation/x402/blob/main/specs/x402-specification-v2.md)", "(https://eips.ethereum.org/EIPS/eip-3009)",
			"(https://datatracker.ietf.org/doc/draft-httpauth-payment/)",
			"/payment_identifier.md): to buy twice, even within two minutes of a 200 that may be lost, add `id` to `extensions[\"payment-identifier\"].info`",
			"/extension-offer-and-receipt.md): the receipt is in PAYMENT-RESPONSE", "<https://pay.example.org/.well-known/did.json>",
		} {
			require.Contains(t, text, want, name)
		}
	}
	for _, document := range []Document{LLMs(cardOffer(t, terms())), Skill(cardOffer(t, terms())), api(cardOffer(t, terms()))} {
		require.NotContains(t, string(document.Body), "EIP-3009", "no program can pay it")
	}
}

func TestAgentCardContent(t *testing.T) {
	o := fullOffer(t, terms())
	doc := decode(t, AgentCard(o))
	modes := []any{"application/json", "text"}
	want := map[string]any{
		"protocolVersion": "0.3.0", "name": "Example Offer", "description": "One fixed payment.",
		"url": "https://pay.example.org/mcp", "version": "0.2",
		"provider":         map[string]any{"organization": "Example Org", "url": "https://www.example.org"},
		"documentationUrl": "https://code.example.net/offer",
		"capabilities": map[string]any{"streaming": false, "pushNotifications": false, "extensions": []any{map[string]any{
			"uri": "https://github.com/google-a2a/a2a-x402/v0.1", "required": false,
			"description": "Takes the payment of 42 USD by x402 in a message, if a person has authorised it.",
		}, map[string]any{
			"uri": "https://github.com/google-agentic-commerce/a2a-x402/blob/main/spec/v0.2", "required": false,
			"description": "Takes the payment of 42 USD by x402 in a message, if a person has authorised it.",
		}}},
		"defaultInputModes": modes, "defaultOutputModes": modes, "preferredTransport": "JSONRPC",
		"card": o.Card.URL,
		"fallback": map[string]any{
			"scheme": "stripe", "network": "fiat", "amountUsd": 42.0, "asset": "USD", "url": o.Card.URL,
			"methods": []any{"card", "us_bank_account", "cashapp", "link", "klarna", "afterpay_clearpay", "affirm"},
		},
		"supportedInterfaces": []any{
			map[string]any{"url": "https://pay.example.org/mcp", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
			map[string]any{"url": "https://pay.example.org/mcp", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
		},
	}
	skills := doc["skills"].([]any)
	delete(doc, "skills")
	require.Equal(t, want, doc)

	require.Len(t, skills, 1)
	require.Equal(t, "pay-42", at(t, skills[0], "id"))
	require.Equal(t, []any{"payment", "stripe", "x402", "usdc"}, at(t, skills[0], "tags"))
	require.NotEmpty(t, at(t, skills[0], "examples"))
}

func TestAgentCardWithoutUSDC(t *testing.T) {
	doc := decode(t, AgentCard(cardOffer(t, terms())))
	require.Equal(t, map[string]any{"streaming": false, "pushNotifications": false}, doc["capabilities"])
}
