package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// described is a running server with the API description that it serves.
type described struct {
	service string
	api     *openapi3.T
	// missing are the answers that are described and have not been seen: "GET /pay 302 text/html".
	missing map[string]bool
}

// describe reads the description. Its schemas are closed, so that an answer that says more than its description fails.
func describe(t *testing.T, service string) *described {
	t.Helper()
	_, text := get(t, service+"/openapi.json")
	loader := openapi3.NewLoader()
	api := lab.Must(loader.LoadFromData([]byte(text)))(t)
	require.NoError(t, api.Validate(loader.Context))
	for _, schema := range api.Components.Schemas {
		require.NotEmpty(t, schema.Value.Properties)
		schema.Value.AdditionalProperties = openapi3.BoolSchema{Has: new(bool)}
	}
	d := &described{service: service, api: api, missing: map[string]bool{}}
	for path, item := range api.Paths.Map() {
		for method, operation := range item.Operations() {
			for status, response := range operation.Responses.Map() {
				types := make([]string, 0, 2)
				for mediaType := range response.Value.Content {
					types = append(types, mediaType)
				}
				if len(types) == 0 {
					types = append(types, "")
				}
				for _, mediaType := range types {
					d.missing[answerName(method, path, status, mediaType)] = true
				}
			}
		}
	}
	return d
}

func answerName(method, path, status, mediaType string) string {
	return strings.TrimSpace(strings.Join([]string{method, path, status, mediaType}, " "))
}

// ask sends a request to an operation, named by its path in the description, and holds the answer against it. Headers
// are name and value in turn.
func (d *described) ask(t *testing.T, method, path, target, body string, headers ...string) (*http.Response, []byte) {
	t.Helper()
	item := d.api.Paths.Value(path)
	require.NotNil(t, item, path)
	host := d.service
	if len(item.Servers) > 0 { // a gated page is on the site
		host = item.Servers[0].URL
	}
	request := lab.Must(http.NewRequest(method, host+target, strings.NewReader(body)))(t)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultTransport.RoundTrip(request) // follows no redirect
	require.NoError(t, err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	require.NoError(t, err)

	operation := item.GetOperation(method)
	require.NotNil(t, operation, "%s %s", method, path)
	err = openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{
			Request: request,
			Route:   &routers.Route{Spec: d.api, Path: path, PathItem: item, Method: method, Operation: operation},
		},
		Status: answer.StatusCode, Header: answer.Header, Body: io.NopCloser(bytes.NewReader(data)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	})
	require.NoError(t, err, "%s %s %v: %s\n%s", method, target, headers, answer.Status, data)

	mediaType, _, _ := strings.Cut(answer.Header.Get("Content-Type"), ";")
	for _, status := range []string{fmt.Sprint(answer.StatusCode), fmt.Sprintf("%dXX", answer.StatusCode/100)} {
		delete(d.missing, answerName(method, path, status, mediaType))
		delete(d.missing, answerName(method, path, status, typeAny))
	}
	return answer, data
}

// readTexts lets the validator take the media types that are text or an image as what they are, strings.
func readTexts(t *testing.T) {
	for _, mediaType := range []string{
		typeHTML, "text/uri-list", "text/markdown", "image/png", "image/svg+xml", "image/vnd.microsoft.icon", "application/xrd+xml", "application/jose",
	} {
		openapi3filter.RegisterBodyDecoder(mediaType, openapi3filter.PlainBodyDecoder)
		t.Cleanup(func() { openapi3filter.UnregisterBodyDecoder(mediaType) })
	}
}

// Media types that a client prefers.
const (
	typeHTML = "text/html"
	typeAny  = "*/*"
)

// TestResponsesMatchOpenAPI sends real requests to every operation of the served description, until each
// answer that is described has been seen.
func TestResponsesMatchOpenAPI(t *testing.T) {
	readTexts(t)
	sale := startSale(t)
	d := describe(t, sale.service)

	for path, item := range d.api.Paths.Map() {
		for method := range item.Operations() {
			for _, target := range d.targets(t, path) {
				for _, accept := range []string{typeAny, typeHTML, "application/json", "text/uri-list"} {
					d.ask(t, method, path, target, "", "Accept", accept)
				}
			}
		}
	}
	d.askAgents(t)
	d.askRefused(t)
	sale.deliver(t, d)
	sale.buy(t, d)

	for answer := range d.missing {
		// Most documents have nothing to refuse, the ledger and the QR key are there, without a network there is no rate, and
		// the agent endpoint does not fail.
		get, hook := strings.HasPrefix(answer, "GET "), strings.HasPrefix(answer, "POST /v1/hook/")
		// No browser posts a payment; the pages of all problems are held in package web.
		paid := (strings.HasPrefix(answer, "POST /v1/sponsor ") || strings.HasPrefix(answer, "GET /members/ 429 ")) && strings.HasSuffix(answer, " "+typeHTML)
		if paid || strings.Contains(answer, " 5XX ") || strings.Contains(answer, "/sign-out 503 ") || hook && strings.Contains(answer, " 503 ") || get && (strings.Contains(answer, " 4XX ") || strings.Contains(answer, " 503 ") || strings.Contains(answer, "/btc.")) {
			delete(d.missing, answer)
		}
	}
	require.Empty(t, d.missing, "described and never seen")
}

// targets are the addresses to ask for at a path: two where an answer depends on the query.
func (d *described) targets(t *testing.T, path string) []string {
	t.Helper()
	switch path {
	case "/.well-known/webfinger":
		account := "acct:pay@" + strings.TrimPrefix(d.service, "http://")
		return []string{path, path + "?resource=" + url.QueryEscape(account), path + "?resource=acct%3Anobody%40example.org"}
	case "/v1/received":
		return []string{path, path + "?limit=100", path + "?limit=101", path + "?before=0", path + "?after=0", path + "?after=0&before=1", path + "?after=7.0000000000000000"}
	case "/v1/hook/{storefront}/{secret}":
		return []string{"/v1/hook/tip-jar/" + shopSecret}
	case "/v1/receipt/{id}", "/v1/receipt/{id}/receipt.jws", "/v1/receipt/{id}/enter", "/v1/receipt/{id}/sign-out":
		return []string{strings.Replace(path, "{id}", "unknown", 1)} // others are asked for when they were paid
	case "/v1/qr/{rail}/{image}":
		answer, _ := get(t, d.service+"/v1/pay/card.png")
		return []string{answer.Header.Get("Location"), "/v1/qr/card/forged.png"}
	default:
		return []string{path}
	}
}

// askAgents sends what agents send.
func (d *described) askAgents(t *testing.T) {
	t.Helper()
	const path = "/mcp"
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"` + document.ToolName + `"}}`,
		`{"jsonrpc":"2.0","id":3,"method":"no/such"}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{`, `[]`,
	} {
		d.ask(t, http.MethodPost, path, path, body, "Content-Type", "application/json")
	}
}

// askRefused sends what no operation accepts: bodies that are too large, and payments that cannot be read.
func (d *described) askRefused(t *testing.T) {
	t.Helper()
	large := strings.Repeat("x", 65<<10)
	for _, path := range []string{"/v1/offer", "/v1/quote", "/v1/sponsor", "/mcp"} {
		for _, accept := range []string{typeAny, typeHTML} {
			answer, _ := d.ask(t, http.MethodPost, path, path, large, "Accept", accept)
			require.Equal(t, http.StatusRequestEntityTooLarge, answer.StatusCode)
		}
	}
	for _, name := range []string{"PAYMENT-SIGNATURE", "X-PAYMENT"} {
		answer, _ := d.ask(t, http.MethodPost, "/v1/sponsor", "/v1/sponsor", "", name, "no payment")
		require.Equal(t, http.StatusBadRequest, answer.StatusCode)
	}
	answer, _ := d.ask(t, http.MethodPost, "/v1/sponsor", "/v1/sponsor", "", "Authorization", "Payment no-credential")
	require.Equal(t, http.StatusPaymentRequired, answer.StatusCode)
	answer, _ = d.ask(t, http.MethodPost, "/v1/sponsor", "/v1/sponsor", "", "Authorization", "Payment no-credential", "X-PAYMENT", "e30=")
	require.Equal(t, http.StatusBadRequest, answer.StatusCode)
}

// Secrets of the webhooks of a sale.
const (
	cardSecret = "whsec_of_the_description"
	shopSecret = "0123456789abcdef0123456789abcdef"
)

// deliver makes every answer to a webhook but that the ledger cannot be written.
func (s *sale) deliver(t *testing.T, d *described) {
	t.Helper()
	const shop = "/v1/hook/{storefront}/{secret}"
	shopTarget := "/v1/hook/tip-jar/" + shopSecret
	large := strings.Repeat("x", 257<<10)
	event, _ := server.CardPaid("1", 4200, cardSecret)
	notice, form := server.StorefrontSale("sale-1", 4200)
	for _, delivery := range []struct {
		path, target, body, secret string
		want                       int
	}{
		{"/v1/hook/card", "/v1/hook/card", event, cardSecret, http.StatusOK},
		{"/v1/hook/card", "/v1/hook/card", event, "whsec_of_another", http.StatusForbidden},
		{"/v1/hook/card", "/v1/hook/card", "{", cardSecret, http.StatusBadRequest},
		{"/v1/hook/card", "/v1/hook/card", large, cardSecret, http.StatusRequestEntityTooLarge},
		{shop, shopTarget, notice, "", http.StatusOK},
		{shop, shopTarget + "0", notice, "", http.StatusForbidden},
		{shop, shopTarget, large, "", http.StatusRequestEntityTooLarge},
	} {
		header := form
		if delivery.secret != "" {
			header = server.CardHeader(delivery.body, delivery.secret)
		}
		answer, body := d.ask(t, http.MethodPost, delivery.path, delivery.target, delivery.body,
			"Content-Type", header.Get("Content-Type"), "Stripe-Signature", header.Get("Stripe-Signature"))
		require.Equal(t, delivery.want, answer.StatusCode, "%s: %s", delivery.target, body)
		require.Empty(t, answer.Header.Get("Access-Control-Allow-Origin"))
		require.NotContains(t, string(body), shopSecret)
	}
}

// offers are the smallest offer and one with every rail and texts that need escaping.
func offers(t *testing.T) map[string]*offer.Offer {
	t.Helper()
	const amount offer.USD = 42_00
	terms := offer.Terms{
		ID: "pay.example.org", BaseURL: "https://pay.example.org:8443", SiteURL: "https://www.example.org",
		Name: `Offer "42" <b>&`, Operator: "Org: #1 */", Description: "One `fixed` *payment*.",
		SourceURL: "https://code.example.net/offer", Account: "pay", Amount: amount, Updated: "2026-11-21",
	}
	full := payoffertest.Offer(t, terms, "base")
	small := lab.Must(offer.New(terms, full.Card))(t)
	return map[string]*offer.Offer{"card alone": small, "every rail": full}
}

// publishedSchema compiles a schema of caddy/e2e/testdata/schemas.
func publishedSchema(t *testing.T, file, definition string) *jsonschema.Schema {
	t.Helper()
	text := lab.Must(os.ReadFile("testdata/schemas/" + file))(t)
	parsed := lab.Must(jsonschema.UnmarshalJSON(bytes.NewReader(text)))(t)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("https://schemas.example/"+file, parsed))
	schema, err := compiler.Compile("https://schemas.example/" + file + definition)
	require.NoError(t, err)
	return schema
}

func TestDocumentsMatchPublishedSchemas(t *testing.T) {
	for name, c := range map[string]struct {
		file, definition string
		render           func(*offer.Offer) document.Document
		// broken is a member without which the document must be refused.
		broken string
	}{
		"NodeInfo 2.1":         {"nodeinfo-2.1.schema.json", "", document.NodeInfo, "protocols"},
		"A2A 0.3.0 agent card": {"a2a-0.3.0.schema.json", "#/definitions/AgentCard", document.AgentCard, "skills"},
	} {
		t.Run(name, func(t *testing.T) {
			schema := publishedSchema(t, c.file, c.definition)
			for kind, o := range offers(t) {
				var doc map[string]any
				require.NoError(t, json.Unmarshal(c.render(o).Body, &doc))
				require.NoError(t, schema.Validate(doc), kind)
				delete(doc, c.broken)
				require.Error(t, schema.Validate(doc), "the schema checks nothing")
			}
		})
	}
}
