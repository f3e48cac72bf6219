package document

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// gated adds a gate on the offer's host, one on another host, and one whose path is taken there.
func gated(o *offer.Offer) *offer.Offer {
	o.Gates = []offer.Gate{
		{Start: "https://pay.example.org/members/", Access: 30 * 24 * time.Hour},
		{Start: "https://shop.example/a_(b)?c=<d>", Access: 36 * time.Hour},
		{Start: "https://shop.example/members/", Access: 90 * time.Minute},
	}
	return o
}

func TestOpenAPIDescribesTheStartOfEachGate(t *testing.T) {
	o := gated(fullOffer(t, terms()))
	doc := decode(t, api(o))
	own, other := at(t, doc, "paths", "/members/"), at(t, doc, "paths", "/a_(b)")
	require.NotContains(t, own, "servers")
	require.Equal(t, "https://shop.example", at(t, other, "servers", 0, "url"))
	sponsor := at(t, doc, "paths", offer.PathSponsor, "post")
	for _, item := range []any{own, other} {
		require.NotContains(t, item, "post")
		for _, member := range []string{"x-payment-info", "x-payment", "parameters", "security"} {
			require.Equal(t, at(t, sponsor, member), at(t, item, "get", member))
		}
		require.Equal(t, map[string]any{"*/*": map[string]any{}}, at(t, item, "get", "responses", "200", "content"))
		at(t, item, "get", "responses", "402", "content", "text/html")
	}
	require.Equal(t, "Opened by the payment: 30-day access", at(t, own, "get", "summary"), "a taken path is left out")
	require.Equal(t, "gate_members_2f", at(t, own, "get", "operationId"))
	require.Contains(t, at(t, doc, "tags"), map[string]any{"name": "gates", "description": "What the payment opens."})

	card := at(t, decode(t, api(gated(cardOffer(t, terms())))), "paths", "/members/", "get")
	require.Contains(t, card, "x-payment")
	require.NotContains(t, card, "x-payment-info", "no program can pay it")
}

// A service's own route is answered before any gate.
func TestOpenAPIKeepsTheRoutesOfTheService(t *testing.T) {
	o := fullOffer(t, terms())
	want := at(t, decode(t, api(o)), "paths")
	o.Gates = []offer.Gate{{Start: "https://shop.example/v1/sponsor", Access: time.Hour}}
	doc := decode(t, api(o))
	require.Equal(t, want, at(t, doc, "paths"))
	require.NotContains(t, string(api(o).Body), `"gates"`)
}

func TestOperationsOfGatesHaveDifferentNames(t *testing.T) {
	o := fullOffer(t, terms())
	starts := []string{"/", "/a/b", "/a-b", "/a_b", "/a.b", "/a%2Fb", "/{a}/é", "/a_2fb"}
	for _, start := range starts {
		o.Gates = append(o.Gates, offer.Gate{Start: o.BaseURL + start, Access: time.Hour})
	}
	names := make(map[any]bool)
	for path, item := range at(t, decode(t, api(o)), "paths").(map[string]any) {
		if get, found := item.(map[string]any)["get"]; found {
			require.Regexp(t, `^\w+$`, at(t, get, "operationId"), path)
			names[at(t, get, "operationId")] = true
		}
	}
	require.Len(t, names, len(starts)+1)
}

func TestX402ListsTheStartsOfAllGates(t *testing.T) {
	o := gated(fullOffer(t, terms()))
	doc := decode(t, X402(o, []string{}))
	want := []any{
		"https://pay.example.org/v1/sponsor", "https://pay.example.org/members/",
		"https://shop.example/a_(b)", "https://shop.example/members/",
	}
	require.Equal(t, want, doc["resources"])
	for i, item := range doc["items"].([]any) {
		require.Equal(t, want[i], at(t, item, "resource", "url"))
		require.Equal(t, at(t, doc, "accepts"), at(t, item, "accepts"))
		method := "GET"
		if i == 0 {
			method = "POST"
		} else {
			require.NotContains(t, at(t, item, "resource"), "mimeType")
		}
		require.Equal(t, method, at(t, item, "input", "method"))
	}
}

func TestTextsListTheStartsOfAllGates(t *testing.T) {
	for _, o := range []*offer.Offer{gated(fullOffer(t, terms())), gated(cardOffer(t, terms()))} {
		for _, document := range []Document{LLMs(o), Skill(o)} {
			body := string(document.Body)
			require.Contains(t, body, "](https://pay.example.org/members/): 30-day access\n")
			require.Contains(t, body, "](https://shop.example/a_%28b%29?c=%3Cd%3E): 36-hour access\n")
			require.Contains(t, body, "](https://shop.example/members/): 90-minute access\n")
		}
		require.Equal(t, len(o.USDC()) > 0, strings.Contains(string(Skill(o).Body), "send the same payment header again"))
	}
	plain := fullOffer(t, terms())
	require.NotRegexp(t, "(?i)opened by|opens", string(LLMs(plain).Body)+string(Skill(plain).Body))
}

func TestAgentCardAsksForEachGate(t *testing.T) {
	got := decode(t, AgentCard(gated(fullOffer(t, terms()))))
	want := decode(t, AgentCard(fullOffer(t, terms())))
	examples := at(t, got, "skills", 0, "examples").([]any)
	require.Len(t, examples, len(at(t, want, "skills", 0, "examples").([]any))+3)
	require.Contains(t, examples, "How can I open https://shop.example/members/?")
	at(t, want, "skills", 0).(map[string]any)["examples"] = examples
	require.Equal(t, want, got, "nothing else changes")
}
