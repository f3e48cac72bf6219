package web

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// demanded is what a 402 of the payable address demands at run time: by x402 the
// requirements of version 2, by the Payment scheme the requests with their method and
// intent, as "evm charge 42000000 <token>", and whom they pay.
type demanded struct {
	accepts    []any
	challenges []string
	payees     map[string]bool
	fallback   any
}

func demand(t *testing.T, s *Server) (d demanded) {
	t.Helper()
	res := send(t, s, "POST", offer.PathSponsor, "")
	require.Equal(t, 402, res.StatusCode)
	d.payees = make(map[string]bool)
	d.fallback = readJSON(t, res)["fallback"]
	if required := res.Header.Get("PAYMENT-REQUIRED"); required != "" {
		text := must(base64.StdEncoding.DecodeString(required))(t)
		var quote struct{ Accepts []any }
		require.NoError(t, json.Unmarshal(text, &quote))
		d.accepts = quote.Accepts
	}
	field := func(challenge, name string) string {
		return regexp.MustCompile(name + `="([^"]*)"`).FindStringSubmatch(challenge)[1]
	}
	for _, challenge := range res.Header.Values("WWW-Authenticate") {
		require.True(t, strings.HasPrefix(challenge, "Payment "))
		text := must(base64.RawURLEncoding.DecodeString(field(challenge, "request")))(t)
		var request struct{ Amount, Currency, Recipient string }
		require.NoError(t, json.Unmarshal(text, &request))
		d.challenges = append(d.challenges, strings.Join([]string{field(challenge, "method"), field(challenge, "intent"), request.Amount, request.Currency}, " "))
		d.payees[request.Recipient] = true
	}
	return d
}

// published are the offers of payment of every document, as demanded writes them.
func published(t *testing.T, s *Server) (d demanded, listed []any, extensions []any) {
	t.Helper()
	get := func(path string) (doc map[string]any) {
		rec := httptest.NewRecorder()
		if s.Serve(rec, httptest.NewRequest("GET", path, nil)) && rec.Code == 200 {
			require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &doc))
		}
		return doc
	}
	operation := get(offer.PathOpenAPI)["paths"].(map[string]any)[offer.PathSponsor].(map[string]any)["post"].(map[string]any)
	info, _ := operation["x-payment-info"].(map[string]any)
	offers, _ := info["offers"].([]any)
	for _, o := range offers {
		o := o.(map[string]any)
		d.challenges = append(d.challenges, fmt.Sprint(o["method"], " ", o["intent"], " ", o["amount"], " ", o["currency"]))
	}
	protocols, _ := info["protocols"].([]any)
	for _, p := range protocols {
		for name, of := range p.(map[string]any) {
			listed = append(listed, name)
			if name == "mpp" {
				of := of.(map[string]any)
				require.Contains(t, d.challenges[0], fmt.Sprint(of["method"], " ", of["intent"], " "))
				require.Contains(t, d.challenges[0], of["currency"])
			}
		}
	}
	if x402 := get(offer.PathX402JSON); x402 != nil {
		d.accepts = x402["accepts"].([]any)
		for _, item := range x402["items"].([]any) {
			require.Equal(t, d.accepts, item.(map[string]any)["accepts"])
			require.Equal(t, s.Offer.URL(offer.PathSponsor), item.(map[string]any)["resource"].(map[string]any)["url"])
		}
	}
	card := get(offer.PathAgentCard)
	d.fallback = card["fallback"]
	extensions, _ = card["capabilities"].(map[string]any)["extensions"].([]any)
	return d, listed, extensions
}

// Whatever a document says can be paid is demanded at run time, in the same words, and
// nothing is that no document tells of.
func TestEveryPublishedOfferOfPaymentHasItsChallenge(t *testing.T) {
	for _, field := range []string{"Authorization", "Payment-Authorization", ""} {
		for _, chains := range [][]string{nil, {"base"}, {"base", "arbitrum-sepolia"}, {"arbitrum-sepolia", "avalanche", "base"}} {
			t.Run(fmt.Sprintf("%q on %d chains", field, len(chains)), func(t *testing.T) {
				terms := terms()
				terms.MPP = field
				s := shop(t, terms, checkout, chains...)
				want := demand(t, s)
				got, listed, extensions := published(t, s)
				require.Equal(t, want.accepts, got.accepts)
				require.Equal(t, want.challenges, got.challenges)
				require.Equal(t, want.fallback, got.fallback)
				require.Len(t, want.accepts, len(chains))
				protocols := []any{"x402", "mpp"}
				if field == "" {
					protocols = protocols[:1]
				} else {
					require.Len(t, want.challenges, len(chains))
				}
				if len(chains) == 0 {
					require.Empty(t, listed)
					require.Empty(t, extensions)
					return
				}
				require.Equal(t, protocols, listed)
				require.Equal(t, document.A2APayments, extensions[0].(map[string]any)["uri"])
				for payee := range want.payees {
					require.Equal(t, payTo, payee)
				}
			})
		}
	}
}
