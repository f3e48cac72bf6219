package agent

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/mpp"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// newestMeta is how a client of the newest revision describes itself in every call.
const newestMeta = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},` +
	`"io.modelcontextprotocol/clientCapabilities":{%s}}`

// unpaidCalls are calls without payment as clients send them, each with its headers.
var unpaidCalls = func() map[string]struct {
	params  string
	headers []string
} {
	type sent = struct {
		params  string
		headers []string
	}
	const tool = `"name":"first_42_sponsor"`
	newest := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "first_42_sponsor"}
	calls := map[string]sent{
		"bare":             {`{` + tool + `}`, nil},
		"arguments":        {`{"arguments":{"name":"x"},` + tool + `}`, nil},
		"null arguments":   {`{` + tool + `,"arguments":null}`, nil},
		"progress":         {`{` + tool + `,"_meta":{"progressToken":7}}`, nil},
		"newest":           {`{` + tool + `,"_meta":` + fmt.Sprintf(newestMeta, "") + `}`, newest},
		"extension":        {`{` + tool + `,"_meta":` + fmt.Sprintf(newestMeta, `"extensions":{"org.x402/payment":{}}`) + `}`, newest},
		"session":          {`{` + tool + `}`, []string{"Mcp-Session-Id", "s"}},
		"other member":     {`{` + tool + `,"task":{}}`, nil},
		"much of itself":   {`{` + tool + `,"_meta":{"x":"` + strings.Repeat("y", maxDescription) + `"}}`, nil},
		"escaped name":     {`{"name":"first_42\u005fsponsor"}`, nil},
		"unknown tool":     {`{"name":"other"}`, nil},
		"no tool":          {`{}`, nil},
		"other name":       {`{` + tool + `,"_meta":` + fmt.Sprintf(newestMeta, "") + `}`, append(newest[:4:4], "Mcp-Name", "other")},
		"newest, untold":   {`{` + tool + `}`, newest},
		"unknown version":  {`{` + tool + `}`, []string{"Mcp-Protocol-Version", "1999-01-01"}},
		"resumed":          {`{` + tool + `}`, []string{"Last-Event-Id", "1"}},
		"null description": {`{` + tool + `,"_meta":null}`, nil},
	}
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		calls[version] = sent{`{` + tool + `,"arguments":{}}`, []string{"Mcp-Protocol-Version", version}}
	}
	return calls
}()

// plain is an answer without what differs from one to the next.
func plain(t testing.TB, answer string) map[string]any {
	t.Helper()
	var read map[string]any
	require.NoError(t, json.Unmarshal([]byte(answer), &read), answer)
	if result, ok := read["result"].(map[string]any); ok {
		if meta, ok := result["_meta"].(map[string]any); ok {
			if meta[metaChallenges] != nil {
				meta[metaChallenges] = true
			}
		}
	}
	return read
}

func TestACallWithoutPaymentIsAnsweredAsTheSDKAnswersIt(t *testing.T) {
	challenges, _ := challenging(t, settled)
	takes, _ := shop(t, settled)
	c := config(t, public)
	c.Offer, c.Payments = newOffer(t, public, false), new(payments)
	for name, e := range map[string]*Endpoint{"challenging": challenges, "x402": takes, "card alone": newEndpoint(t, c)} {
		for call, sent := range unpaidCalls {
			for _, id := range []string{`1`, `-9007199254740991`, `"a\"b\\<\u2028"`, `"` + strings.Repeat("i", 5000) + `"`, `null`} {
				body := `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":` + sent.params + `}`
				read, problem := parse([]byte(body))
				require.Nil(t, problem)
				r := httptest.NewRequest(http.MethodPost, "https://pay.example.org/mcp", nil)
				for i := 0; i < len(sent.headers); i += 2 {
					r.Header.Set(sent.headers[i], sent.headers[i+1])
				}
				theirs := e.capture(r.Context(), r, read)
				for range 2 { // recorded, and from the record
					ours := httptest.NewRecorder()
					e.ServeHTTP(ours, withBody(r, body))
					require.Equal(t, theirs.status, ours.Code, "%s: %s", name, call)
					if theirs.header.Get("Content-Type") != typeJSON { // which is no answer of the endpoint
						continue
					}
					require.Equal(t, plain(t, theirs.body.String()), plain(t, ours.Body.String()), "%s: %s", name, call)
					require.Equal(t, fmt.Sprint(ours.Body.Len()), ours.Header().Get("Content-Length"))
				}
			}
		}
		require.Len(t, e.quote().unpaid.answers, 9, "%s: the usual calls are not answered by the SDK again", name)
	}
}

func withBody(r *http.Request, body string) *http.Request {
	with := httptest.NewRequest(r.Method, r.URL.String(), strings.NewReader(body))
	with.Header = r.Header.Clone()
	return with
}

// A payment is never taken for a call that was answered by a quote.
func TestAPaymentIsReadAfterAnyNumberOfQuotes(t *testing.T) {
	const meta = `"progressToken":7`
	credential := credential(challengesOf(t, callTool(t, first(challenging(t, settled)), `{"name":"first_42_sponsor"}`)).Challenges[0])
	for name, body := range map[string]string{
		"x402":                `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"first_42_sponsor","_meta":{"x402/payment":` + paying + `}}}`,
		"x402 after others":   `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"first_42_sponsor","_meta":{` + meta + `,"x402/payment":` + paying + `}}}`,
		"x402 by another key": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"first_42_sponsor","_meta":{"x402\/payment":` + paying + `}}}`,
		"credential":          `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"first_42_sponsor","_meta":{"org.paymentauth/credential":` + credential + `}}}`,
		"in the message":      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"first_42_sponsor"},"_meta":{"org.paymentauth/credential":` + credential + `}}`,
		"in both":             `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"first_42_sponsor","_meta":{` + meta + `}},"_meta":{"org.paymentauth/credential":` + credential + `}}`,
	} {
		e, taken := challenging(t, settled)
		for _, params := range []string{`{"name":"first_42_sponsor"}`, `{"name":"first_42_sponsor","_meta":{` + meta + `}}`} {
			for range 3 {
				require.True(t, callTool(t, e, params).IsError)
			}
		}
		require.Empty(t, taken.attempts)
		for n := range 2 {
			require.NotContains(t, string(decode(t, post(t, e, body)).Result), `"isError":true`, name)
			require.Len(t, taken.attempts, n+1, name)
		}
		require.True(t, callTool(t, e, `{"name":"first_42_sponsor"}`).IsError, "%s: a payment answers no other call", name)
		require.Len(t, taken.attempts, 2, name)
	}
}

func first(e *Endpoint, _ *payments) *Endpoint { return e }

func TestClientsAreChallengedOnceThereIsAKey(t *testing.T) {
	c := config(t, func(t *offer.Terms) { t.MPP = "Authorization" })
	var secret []byte
	c.Challenges = mpp.New(c.Offer, func() []byte { return secret }, func() time.Time { return time.Unix(1_763_724_000, 0) })
	e := newEndpoint(t, c)
	for range 2 {
		require.NotContains(t, callTool(t, e, `{"name":"first_42_sponsor"}`).Meta, metaChallenges)
	}
	secret = []byte("secret")
	seen := map[string]bool{}
	for range 3 {
		seen[string(challengesOf(t, callTool(t, e, `{"name":"first_42_sponsor"}`)).Challenges[0])] = true
	}
	require.Len(t, seen, 3, "each answer has challenges of its own")
}

// Whoever describes itself anew in each call is answered, and nothing grows.
func TestKeptQuotesAreBounded(t *testing.T) {
	e, _ := shop(t, x402.Outcome{})
	for i := range 3 * maxKinds {
		params := fmt.Sprintf(`{"name":"first_42_sponsor","arguments":{"n":%d},"_meta":{"progressToken":%d}}`, i, i)
		require.True(t, callTool(t, e, params).IsError)
	}
	require.Len(t, e.quote().unpaid.answers, maxKinds)
	require.Len(t, e.quote().unpaid.order, maxKinds)
}
