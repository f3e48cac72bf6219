package service

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// listed are facilitators that answer /supported with networks (CAIP-2), or are unreachable without an entry. The first
// reply stops the probe, whatever it is.
type listed struct {
	networks map[string][]string // by host
	stop     context.CancelFunc
}

func (l *listed) RoundTrip(r *http.Request) (*http.Response, error) {
	networks, reachable := l.networks[r.URL.Host]
	if r.URL.Path != "/supported" || !reachable {
		l.stop()
		return nil, errors.New("unreachable")
	}
	l.stop()
	kinds := []map[string]any{}
	for _, network := range networks {
		kinds = append(kinds, map[string]any{"x402Version": 2, "scheme": "exact", "network": network})
	}
	body := string(must(json.Marshal(map[string]any{"kinds": kinds}))(&testing.T{}))
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// probe has each facilitator of an offer asked once.
func (l *listed) probe(t *testing.T, svc *Service) {
	for _, f := range svc.settlements[0].Facilitators {
		ctx, stop := context.WithCancel(t.Context())
		l.stop = stop
		f.Run(ctx)
	}
}

var (
	chainOfText   = regexp.MustCompile(`eip155:[0-9]+`)
	requestOfText = regexp.MustCompile(`request="([^"]+)"`)
	chainOfCharge = regexp.MustCompile(`"chainId":([0-9]+)`)
)

// shown are the networks that each answer of an offer shows for x402 and MPP.
func (h *house) shown(svc *Service) map[string][]string {
	networks := func(text string) (all []string) {
		all = chainOfText.FindAllString(text, -1)
		slices.Sort(all)
		return slices.Compact(all)
	}
	ask := func(method, path, accept, body string) string {
		return h.ask(svc, method, path, http.Header{"Accept": {accept}, "Content-Type": {"application/json"}}, body).Body.String()
	}
	all := make(map[string][]string)
	quote := h.ask(svc, http.MethodPost, offer.PathSponsor, nil, "")
	all["v2 quote"] = networks(string(must(x402.DecodeHeader(quote.Header().Get(x402.HeaderRequired)))(h.t)))
	var body x402.PaymentRequiredV1
	require.NoError(h.t, json.Unmarshal(quote.Body.Bytes(), &body))
	for _, accepted := range body.Accepts {
		all["v1 quote"] = append(all["v1 quote"], must(offer.LookupNetwork(accepted.Network))(h.t).CAIP2())
	}
	for _, challenge := range quote.Header().Values("Www-Authenticate") {
		charge := must(base64.RawURLEncoding.DecodeString(requestOfText.FindStringSubmatch(challenge)[1]))(h.t)
		all["MPP"] = append(all["MPP"], "eip155:"+chainOfCharge.FindStringSubmatch(string(charge))[1])
	}
	signed := x402.FindSigned(quote.Body.Bytes())
	for _, jws := range signed {
		all["signed offers"] = append(all["signed offers"], must(x402.ParseSigned(jws))(h.t).Offer.Network)
	}
	var invoice struct{ Methods []offer.Method }
	require.NoError(h.t, json.Unmarshal([]byte(ask(http.MethodGet, offer.PathInvoice, "application/json", "")), &invoice))
	for _, m := range invoice.Methods {
		if m.Scheme == "x402" {
			all["invoice"] = append(all["invoice"], m.Network)
		}
	}
	var tool struct {
		Result struct {
			Structured struct{ Accepts []x402.Requirements } `json:"structuredContent"`
		}
	}
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + document.ToolName + `"}}`
	require.NoError(h.t, json.Unmarshal([]byte(ask(http.MethodPost, offer.PathMCP, "application/json", call)), &tool))
	for _, accepted := range tool.Result.Structured.Accepts {
		all["MCP"] = append(all["MCP"], accepted.Network)
	}
	all["directory"] = networks(ask(http.MethodGet, offer.PathX402, "application/json", ""))
	all["second directory"] = networks(ask(http.MethodGet, offer.PathX402JSON, "application/json", ""))
	for _, network := range []string{"base", "base-sepolia"} {
		n := must(offer.LookupNetwork(network))(h.t)
		if strings.Contains(ask(http.MethodGet, offer.PathMethods, "text/html", ""), `data-network="`+n.CAIP2()+`"`) {
			all["wallets of the page"] = append(all["wallets of the page"], n.CAIP2())
		}
		if regexp.MustCompile(`<li>USDC on ` + map[string]string{"base-sepolia": "Base Sepolia", "base": `Base`}[network] + `( \(|<)`).MatchString(ask(http.MethodGet, offer.PathSponsor, "text/html", "")) {
			all["page for programs"] = append(all["page for programs"], n.CAIP2())
		}
	}
	for _, networks := range all {
		slices.Sort(networks)
	}
	return all
}

func TestUnsupportedNetworkIsNotOffered(t *testing.T) {
	const sepolia, mainnet = "eip155:84532", "eip155:8453"
	both := []string{mainnet, sepolia}
	for name, c := range map[string]struct {
		one, two []string // nil: unreachable
		rails    int
		want     []string
	}{
		"all list it":                     {both, both, 2, both},
		"one of two lists it":             {both, []string{mainnet}, 2, both},
		"none lists it":                   {[]string{mainnet}, []string{mainnet}, 2, []string{mainnet}},
		"none lists the second":           {[]string{sepolia}, []string{sepolia}, 2, []string{sepolia}},
		"none lists any":                  {[]string{}, []string{}, 2, []string{sepolia}},
		"all are unreachable":             {nil, nil, 2, both},
		"one is unreachable":              {nil, []string{mainnet}, 2, both},
		"the other one is unreachable":    {[]string{mainnet}, nil, 2, both},
		"only one network":                {[]string{sepolia}, []string{sepolia}, 1, []string{sepolia}},
		"only one, which none lists":      {[]string{mainnet}, []string{mainnet}, 1, []string{sepolia}},
		"only one, and one has no answer": {[]string{mainnet}, nil, 1, []string{sepolia}},
	} {
		t.Run(name, func(t *testing.T) {
			h, upstream := newHouse(t), &listed{networks: make(map[string][]string)}
			h.upstream = upstream
			runtime := h.runtime(h.log)
			defer h.release(runtime)
			s := h.settings("one")
			var rails []Rail
			var priced []offer.Rail
			facilitators := []x402.FacilitatorConfig{{URL: "https://one.example", Timeout: time.Second}, {URL: "https://two.example", Timeout: time.Second}}
			for n, network := range []string{"base-sepolia", "base"}[:c.rails] {
				u := must(offer.NewUSDC([]string{"usdc", "usdc-2"}[n], must(offer.LookupNetwork(network))(t), "0x52908400098527886E0F7030069857D2E4169EE7", 42_00))(t)
				rails, priced = append(rails, USDC{USDC: u, Facilitators: facilitators}), append(priced, u)
			}
			terms := s.Offer.Terms
			terms.MPP = "Authorization"
			s.Offer, s.Rails = must(offer.New(terms, s.Offer.Card, priced...))(t), rails
			svc := h.acquireWith(runtime, s)
			h.open(runtime, svc)
			configured := both[2-c.rails:]
			require.Equal(t, showing(configured), h.shown(svc))

			for host, networks := range map[string][]string{"one.example": c.one, "two.example": c.two} {
				if networks != nil {
					upstream.networks[host] = networks
				}
			}
			upstream.probe(t, svc)
			require.Equal(t, showing(c.want), h.shown(svc))
			require.ElementsMatch(t, c.want, strings.Fields(svc.Operator.Diagnose(t.Context()).Networks))
		})
	}
}

// showing is what an offer shows if it takes x402 on these networks.
func showing(networks []string) map[string][]string {
	all := make(map[string][]string)
	for _, name := range []string{
		"v2 quote", "v1 quote", "MPP", "signed offers", "invoice", "MCP", "directory", "second directory", "wallets of the page", "page for programs",
	} {
		all[name] = networks
	}
	return all
}
