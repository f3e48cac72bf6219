package web

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// longHost is as long as two challenges, each of which names it, have room for.
var longHost = strings.Repeat("h", 62) + "." + strings.Repeat("h", 37)

// fiveTags are as many and as long as directories take.
var fiveTags = slices.Repeat([]string{strings.Repeat("t", 32)}, 5)

// longCard is a checkout's address of 200 characters.
var longCard = "https://checkout.example.com/" + strings.Repeat("c", 171)

// signer signs as the service does.
type signer struct{ did string }

func (s signer) Sign(payload any) string {
	text, err := json.Marshal(payload)
	if err != nil {
		panic(err)
	}
	b64 := base64.RawURLEncoding.EncodeToString
	return b64([]byte(`{"alg":"EdDSA","kid":"`+s.did+"#"+strings.Repeat("k", 43)+`"}`)) + "." + b64(text) + "." + b64(make([]byte, ed25519.SignatureSize))
}

// shop is a server with the service's own quotes, for an offer on chains.
func shop(t *testing.T, terms offer.Terms, card string, chains ...string) *Server {
	t.Helper()
	var rails []offer.Rail
	config := x402.Config{Signer: signer{offer.DIDWeb(terms.BaseURL)}, Now: time.Now, Logger: slog.New(slog.DiscardHandler)}
	for _, chain := range chains {
		network := must(offer.LookupNetwork(chain))(t)
		usdc := must(offer.NewUSDC("usdc-"+strconv.Itoa(len(rails)), network, payTo, terms.Amount))(t)
		facilitator := must(x402.NewFacilitator(x402.FacilitatorConfig{URL: x402.DefaultTestFacilitator}))(t)
		rails = append(rails, usdc)
		config.Rails = append(config.Rails, x402.Rail{USDC: usdc, Facilitators: []*x402.Facilitator{facilitator}})
	}
	checkout := must(offer.NewCard(card, nil, terms.Amount))(t)
	config.Offer = must(offer.New(terms, checkout, rails...))(t)
	w := newWorld(t)
	w.offer = config.Offer
	c := w.config()
	c.Payments = must(x402.New(config))(t)
	return must(New(c))(t)
}

// headOf is the size of the header block of a 402 as net/http and Caddy write it.
func headOf(t *testing.T, res http.Handler) int {
	t.Helper()
	rec := httptest.NewRecorder()
	res.ServeHTTP(rec, httptest.NewRequest("POST", "/", nil))
	require.Equal(t, 402, rec.Code)
	rec.Header().Set("Server", "Caddy")
	rec.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
	rec.Header().Set("Alt-Svc", `h3=":65535"; ma=2592000`)
	var head bytes.Buffer
	fmt.Fprintf(&head, "HTTP/1.1 402 %s\r\n", http.StatusText(http.StatusPaymentRequired))
	require.NoError(t, rec.Header().Write(&head))
	return head.Len() + len("\r\n")
}

// maxHead is the largest header block in bytes that every proxy passes on. nginx reads it
// into a buffer of 4 KB by default (proxy_buffer_size) and answers 502 if it is larger.
const maxHead = 3900

// Whatever the operator wrote and a facilitator says, a 402 passes through a proxy with the
// smallest buffer in use.
func TestEvery402FitsIntoTheBufferOfAProxy(t *testing.T) {
	long := "https://" + longHost + ":65535"
	for name, c := range map[string]struct{ base, card, name string }{
		"usual":              {"https://pay.example.org", "https://buy.example.com/14k5nD0aB1cd2ef3gh", "Example Offer"},
		"long":               {long, longCard, strings.Repeat("n", 80)},
		"in 4 bytes each":    {long, longCard, strings.Repeat("\U0001F600", 80)},
		"escaped in 6 bytes": {long, longCard, strings.Repeat("<", 80)},
	} {
		for _, chains := range [][]string{nil, {"arbitrum-sepolia"}, {"avalanche", "arbitrum-sepolia"}} {
			t.Run(fmt.Sprintf("%s, %d chains", name, len(chains)), func(t *testing.T) {
				terms := terms()
				terms.BaseURL, terms.Name, terms.Amount, terms.Tags = c.base, c.name, 99_999_999, fiveTags
				s := shop(t, terms, c.card, chains...)
				for answer, res := range every402(s) {
					require.LessOrEqual(t, headOf(t, res), maxHead, answer)
				}
			})
		}
	}
}

// every402 are the responses with status 402, at their longest.
func every402(s *Server) map[string]http.Handler {
	paidToQuote := httptest.NewRequest("POST", "/v1/quote", nil)
	paidToQuote.Header.Set("X-PAYMENT", "e30=")
	longest := strings.Repeat("r", 100)
	refused := x402.Outcome{
		Status: x402.Refused, Version: 2, Reason: longest,
		Detail: "The facilitator does not accept this payment; nothing was charged. It says: " + strings.Repeat("\u2028", 120),
	}
	all := map[string]http.Handler{
		"quote": s.currentQuote().challenging, "payment sent to /v1/quote": s.postQuote(paidToQuote), "refused by verify": s.till().challenge(s.till().outcome(refused)),
	}
	for _, rail := range s.Offer.USDC() {
		for version, network := range map[int]string{1: rail.Network.Name, 2: rail.Network.CAIP2()} {
			settled := refused
			settled.Version = version
			settled.Response = &x402.SettleResponse{ErrorReason: longest, Network: network, Payer: payTo}
			all[fmt.Sprintf("refused by settle on %s, version %d", rail.Network.Name, version)] = s.till().challenge(s.till().outcome(settled))
		}
	}
	return all
}
