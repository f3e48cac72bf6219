package document

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// eachOperation calls do with every operation of a decoded description.
func eachOperation(t *testing.T, doc map[string]any, do func(method, path string, op map[string]any)) {
	t.Helper()
	for path, item := range doc["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			do(strings.ToUpper(method), path, op.(map[string]any))
		}
	}
}

// describe is the decoded description of an offer.
func describe(t *testing.T, o *offer.Offer, hooks ...string) map[string]any {
	t.Helper()
	return decode(t, OpenAPI(o, served(o, hooks...)))
}

// resolve follows the reference of an object, if it is one.
func resolve(t *testing.T, doc map[string]any, v any) map[string]any {
	t.Helper()
	m := v.(map[string]any)
	if target, ok := m["$ref"].(string); ok {
		local, found := strings.CutPrefix(target, "#/")
		require.True(t, found, target)
		v = doc
		for _, step := range strings.Split(local, "/") {
			v = at(t, v, step)
		}
		return v.(map[string]any)
	}
	return m
}

func TestOpenAPIInfoIsTheSpecifiedOne(t *testing.T) {
	o := fullOffer(t, terms())
	doc := describe(t, o)
	require.Equal(t, "3.1.0", doc["openapi"])
	require.Equal(t, "0.2.0", at(t, doc, "info", "version"))
	require.Equal(t, "Example Offer", at(t, doc, "info", "title"))
	require.Equal(t, "One fixed payment.", at(t, doc, "info", "description"))
	require.Equal(t, "https://www.example.org", at(t, doc, "info", "contact", "url"))
	require.NotContains(t, at(t, doc, "info", "contact"), "email", "the operator gave none")
	withContact := terms()
	withContact.Contact = "help@example.org"
	require.Equal(t, "help@example.org", at(t, describe(t, fullOffer(t, withContact)), "info", "contact", "email"))
	require.Len(t, doc["servers"], 2)
	require.Equal(t, "https://pay.example.org", at(t, doc, "servers", 0, "url"))
	require.Equal(t, "https://www.example.org", at(t, doc, "servers", 1, "url"))
	require.Equal(t, o.Card.URL, at(t, doc, "externalDocs", "url"))
	require.NotEmpty(t, at(t, doc, "externalDocs", "description"))
	require.Equal(t, []any{}, doc["security"])
	require.Equal(t, "https://pay.example.org/openapi.json", at(t, doc, "x-service-info", "docs", "apiReference"))
}

func TestOpenAPIOperationsAreWellFormed(t *testing.T) {
	for name, o := range map[string]*offer.Offer{"full": fullOffer(t, terms()), "card": cardOffer(t, terms())} {
		t.Run(name, func(t *testing.T) {
			doc := describe(t, o, "card", "tip-jar")
			tags := make(map[any]bool)
			for _, tag := range doc["tags"].([]any) {
				tags[at(t, tag, "name")] = true
				require.NotEmpty(t, at(t, tag, "description"))
			}
			ids := make(map[any]string)
			eachOperation(t, doc, func(method, path string, op map[string]any) {
				where := method + " " + path
				require.Regexp(t, `^[A-Za-z0-9_]+$`, op["operationId"], where)
				require.Empty(t, ids[op["operationId"]], "%s has the id of another", where)
				ids[op["operationId"]] = where
				require.NotEmpty(t, op["summary"], where)
				require.True(t, tags[at(t, op, "tags", 0)], where)
				checkResponses(t, doc, where, op)
				checkParameters(t, path, op)
			})
		})
	}
}

func checkResponses(t *testing.T, doc map[string]any, where string, op map[string]any) {
	t.Helper()
	var refused, answered bool
	for status, response := range op["responses"].(map[string]any) {
		require.Regexp(t, `^([1-5]\d\d|[1-5]XX)$`, status, where)
		require.NotEmpty(t, resolve(t, doc, response)["description"], "%s %s", where, status)
		refused = refused || status[0] == '4'
		answered = answered || status[0] == '2' || status[0] == '3' || status == "402"
	}
	require.True(t, refused && answered, where)
}

func checkParameters(t *testing.T, path string, op map[string]any) {
	t.Helper()
	list, _ := op["parameters"].([]any)
	inPath := 0
	for _, p := range list {
		require.NotEmpty(t, at(t, p, "schema"), path)
		if at(t, p, "in") == "path" {
			inPath++
			require.Equal(t, true, at(t, p, "required"), path)
			require.Contains(t, path, "{"+at(t, p, "name").(string)+"}")
		}
	}
	require.Equal(t, strings.Count(path, "{"), inPath, path)
}

func TestOpenAPIReferencesResolve(t *testing.T) {
	for _, doc := range []map[string]any{describe(t, fullOffer(t, terms())), describe(t, fullOffer(t, terms()), "card"), describe(t, cardOffer(t, terms()))} {
		used := make(map[string]bool)
		var walk func(v any)
		walk = func(v any) {
			switch v := v.(type) {
			case map[string]any:
				if target, ok := v["$ref"].(string); ok {
					resolve(t, doc, v)
					used[target] = true
				}
				for _, child := range v {
					walk(child)
				}
			case []any:
				for _, child := range v {
					walk(child)
				}
			}
		}
		walk(doc)
		eachOperation(t, doc, func(_, _ string, op map[string]any) {
			schemes, _ := op["security"].([]any)
			for _, scheme := range schemes {
				for name := range scheme.(map[string]any) {
					at(t, doc, "components", "securitySchemes", name)
					used["#/components/securitySchemes/"+name] = true
				}
			}
		})
		for kind, components := range doc["components"].(map[string]any) {
			for name := range components.(map[string]any) {
				require.True(t, used["#/components/"+kind+"/"+name], "%s is not used", name)
			}
		}
	}
}

func TestOpenAPIDescribesThePayment(t *testing.T) {
	o := fullOffer(t, terms())
	doc := describe(t, o)
	card := map[string]any{"scheme": "stripe", "amountUsd": 42.0, "url": o.Card.URL}
	require.Equal(t, card, doc["x-payment"], "clients of this interface read it at the root")
	require.Equal(t, at(t, doc, "externalDocs", "url"), at(t, doc, "x-payment", "url"))
	paid := make(map[string]bool)
	eachOperation(t, doc, func(method, path string, op map[string]any) {
		where := method + " " + path
		if payment, ok := op["x-payment"]; ok {
			paid[where] = true
			require.Equal(t, card, payment)
		}
		info, has := op["x-payment-info"]
		require.Equal(t, where == "POST /v1/sponsor", has, "directories list what carries it as payable there: %s", where)
		if has {
			at(t, op, "responses", "402")
			at(t, op, "requestBody", "content", "application/json", "schema")
			require.Equal(t, map[string]any{"mode": "fixed", "amount": "42.00", "currency": "USD"}, at(t, info, "price"))
		}
	})
	require.Equal(t, map[string]bool{
		"GET /pay": true, "GET /v1/offer": true, "POST /v1/offer": true, "GET /v1/quote": true, "POST /v1/quote": true,
		"POST /v1/sponsor": true,
	}, paid)
}

// What is offered by method and intent has a challenge at run time: each chain of
// an offer that challenges, and the card never.
func TestOpenAPIOffersWhatIsChallenged(t *testing.T) {
	for field, challenges := range map[string]bool{"Authorization": true, "Payment-Authorization": true, "": false} {
		chosen := terms()
		chosen.MPP = field
		o := fullOffer(t, chosen)
		operation := at(t, describe(t, o), "paths", "/v1/sponsor", "post").(map[string]any)
		info := operation["x-payment-info"].(map[string]any)
		protocols := []any{map[string]any{"x402": map[string]any{}}}
		if !challenges {
			require.NotContains(t, info, "offers")
			require.Equal(t, protocols, info["protocols"])
			require.NotContains(t, string(JSON("", operation).Body), "Payment-Receipt")
			continue
		}
		var offers []any
		for _, u := range o.USDC() {
			offers = append(offers, map[string]any{
				"intent": "charge", "method": "evm", "amount": "42000000", "currency": u.Network.USDC, "description": fixed(o, u).Title,
			})
		}
		require.Equal(t, offers, info["offers"])
		require.Equal(t, append(protocols, map[string]any{"mpp": map[string]any{
			"method": "evm", "intent": "charge", "currency": o.USDC()[0].Network.USDC,
		}}), info["protocols"])
		for _, flat := range []string{"amount", "currency", "description", "intent", "method"} {
			require.NotContains(t, info, flat, "it is the form of one offer alone")
		}

		require.Contains(t, operation["description"], "in the request header "+field+".")
		var parameters []any
		for _, p := range operation["parameters"].([]any) {
			parameters = append(parameters, at(t, p, "name"))
		}
		want := []any{"PAYMENT-SIGNATURE", "X-PAYMENT"}
		if field != "Authorization" { // OpenAPI has no parameter of that name
			want = append(want, field)
		}
		require.Equal(t, want, parameters)
		require.NotEqual(t, true, at(t, operation, "responses", "402", "headers", "WWW-Authenticate").(map[string]any)["required"], "nobody is challenged before the key is loaded")
		at(t, operation, "responses", "402", "headers", "PAYMENT-REQUIRED")
		at(t, operation, "responses", "402", "content", "application/problem+json")
		at(t, operation, "responses", "200", "headers", "Payment-Receipt")
		require.Equal(t, []any{}, operation["security"], "a quote asks for no credential")
	}
}

// A card alone takes no payment by a program: nothing is to be paid at an
// address of ours.
func TestNothingIsPayableWithoutARailForPrograms(t *testing.T) {
	eachOperation(t, describe(t, cardOffer(t, terms())), func(method, path string, op map[string]any) {
		require.NotContains(t, op, "x-payment-info", "%s %s", method, path)
	})
}

// A client can be generated only from answers that have a schema.
func TestEveryAnswerHasASchema(t *testing.T) {
	doc := describe(t, fullOffer(t, terms()), "card", "tip-jar")
	eachOperation(t, doc, func(method, path string, op map[string]any) {
		for status, response := range op["responses"].(map[string]any) {
			where := method + " " + path + " " + status
			contents, _ := resolve(t, doc, response)["content"].(map[string]any)
			require.Equal(t, status == "202", len(contents) == 0, where)
			for mediaType, content := range contents {
				schema := resolve(t, doc, at(t, content, "schema"))
				require.NotEmpty(t, schema, "%s %s", where, mediaType)
				if strings.Contains(mediaType, "json") && path != offer.PathOpenAPI {
					require.True(t, schema["properties"] != nil || schema["oneOf"] != nil, "%s %s is any object", where, mediaType)
				}
			}
		}
	})
}

// A path that is added to the offer package must not be forgotten here.
func TestOperationsCoverEveryPathConstant(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../offer/paths.go", nil, 0)
	require.NoError(t, err)
	described := make(map[string]bool)
	eachOperation(t, describe(t, fullOffer(t, terms()), "card", "tip-jar"), func(_, path string, _ map[string]any) { described[path] = true })
	described[offer.PathSite] = true // of the site host
	for prefix, path := range map[string]string{offer.PathQR: "/{rail}/{image}", offer.PathHook: "/{storefront}/{secret}", offer.PathReceipt: "/{id}"} {
		described[prefix] = described[prefix+path]
	}
	constants := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && strings.HasPrefix(literal.Value, `"/`) && literal.Value != `"/"` {
			constants++
			require.True(t, described[strings.Trim(literal.Value, `"`)], literal.Value)
		}
		return true
	})
	require.Greater(t, constants, 25)
}

// describedOperations are the methods and paths of an offer's description, as in
// "GET /pay".
func describedOperations(t *testing.T, o *offer.Offer) (all []string) {
	t.Helper()
	eachOperation(t, describe(t, o), func(method, path string, _ map[string]any) { all = append(all, method+" "+path) })
	return all
}

// Specification section 4 and DESIGN section 2.
func TestOperationsCoverTheInterface(t *testing.T) {
	full, card := describedOperations(t, fullOffer(t, terms())), describedOperations(t, cardOffer(t, terms()))
	for _, want := range []string{
		"GET /v1/quote", "POST /v1/quote", "POST /v1/sponsor", "GET /v1/sponsor", "POST /mcp",
		"GET /v1/received", "GET /.well-known/did.json", "GET /v1/pay/card.png", "GET /v1/qr/{rail}/{image}",
	} {
		require.Contains(t, full, want)
		require.Contains(t, card, want)
	}
	for _, want := range []string{
		"GET /v1/pay/usdc.uri", "GET /v1/pay/usdc-10.png", "GET /v1/pay/btc.uri", "GET /v1/pay/transfer",
		"GET /v1/pay/tip-jar.uri", "GET /v1/pay/pack.uri", "GET /.well-known/x402", "GET /.well-known/x402.json",
	} {
		require.Contains(t, full, want)
		require.NotContains(t, card, want)
	}
}

func TestWebhooksAreDescribedWhereTheyAreTaken(t *testing.T) {
	o := fullOffer(t, terms())
	const card, shop = "/v1/hook/card", "/v1/hook/{storefront}/{secret}"
	for name, want := range map[string]struct {
		hooks      []string
		card, shop bool
	}{
		"none":        {},
		"the card":    {hooks: []string{"card"}, card: true},
		"storefronts": {hooks: []string{"pack", "tip-jar"}, shop: true},
		"all":         {hooks: []string{"card", "pack", "tip-jar"}, card: true, shop: true},
	} {
		t.Run(name, func(t *testing.T) {
			doc := describe(t, o, want.hooks...)
			paths := doc["paths"].(map[string]any)
			require.Equal(t, want.card, paths[card] != nil)
			require.Equal(t, want.shop, paths[shop] != nil)
			schemes, signed := doc["components"].(map[string]any)["securitySchemes"].(map[string]any)
			require.Equal(t, want.card, signed)
			if want.card {
				require.Equal(t, []any{map[string]any{"StripeSignature": []any{}}}, at(t, paths, card, "post", "security"))
				require.Equal(t, "Stripe-Signature", at(t, schemes, "StripeSignature", "name"))
				require.Equal(t, "header", at(t, schemes, "StripeSignature", "in"))
			}
			if want.shop {
				require.Equal(t, []any{"pack", "tip-jar"}, at(t, paths, shop, "post", "parameters", 0, "schema", "enum"))
				require.Equal(t, "password", at(t, paths, shop, "post", "parameters", 1, "schema", "format"))
				require.Equal(t, []any{}, at(t, paths, shop, "post", "security"))
			}
		})
	}
}

func TestTheFeedIsDescribedBesideTheReport(t *testing.T) {
	doc := describe(t, fullOffer(t, terms()))
	operation := at(t, doc, "paths", "/v1/received", "get")
	var names []any
	for _, p := range at(t, operation, "parameters").([]any) {
		names = append(names, at(t, p, "name"))
		require.NotContains(t, p, "required")
	}
	require.Equal(t, []any{"before", "after", "limit"}, names)
	require.Equal(t, []any{
		map[string]any{"$ref": "#/components/schemas/Received"}, map[string]any{"$ref": "#/components/schemas/Feed"},
	}, at(t, operation, "responses", "200", "content", "application/json", "schema", "oneOf"))
}
