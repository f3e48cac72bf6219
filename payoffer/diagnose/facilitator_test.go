package diagnose

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// facilitator answers as one that supports these kinds, and to verify with a status and a body.
func (s *surroundings) facilitator(host, kinds string, status int, verify string) {
	s.hosts[host] = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/supported" {
			io.WriteString(w, `{"kinds":[`+kinds+`]}`)
			return
		}
		w.WriteHeader(status)
		io.WriteString(w, verify)
	}
}

const onBaseSepolia = `{"x402Version":2,"scheme":"exact","network":"eip155:84532"}`

func (s *surroundings) whats(code Code) (all []string) {
	for _, issue := range Run(s.t.Context(), s.World, []Offer{s.offer}).Issues {
		if issue.Code == code.Name {
			all = append(all, issue.Subject+": "+issue.What)
		}
	}
	return all
}

func TestIssueQuotesFacilitatorError(t *testing.T) {
	for body, want := range map[string]string{
		`{"errorType":"invalid_request","errorMessage":"description is too long"}`: "unexpected_verify_error (verify HTTP 400 invalid_request: description is too long)",
		"a\x1b[31m\u202eb": "unexpected_verify_error (verify HTTP 400 unspecified: a[31mb)",
		`{"error":"` + strings.Repeat("x", 5000) + `"}`: "unexpected_verify_error (verify HTTP 400 unspecified: " + strings.Repeat("x", 119) + "…)",
		`{"error":"bad s3cr3t-key"}`:                    "unexpected_verify_error (verify HTTP 400 unspecified)",
	} {
		s := around(t)
		s.usdc("https://one.example/s3cr3t-key", "https://rpc.example")
		s.facilitator("one.example", onBaseSepolia, http.StatusBadRequest, body)
		serve := s.hosts["one.example"]
		s.hosts["one.example"] = func(w http.ResponseWriter, r *http.Request) {
			r.URL.Path = strings.TrimPrefix(r.URL.Path, "/s3cr3t-key")
			serve(w, r)
		}
		require.Equal(t, []string{"usdc: one.example: " + want + " on base-sepolia"}, s.whats(FacilitatorFailing))
	}
}

// The last network that is left is offered, and has the issues of its facilitators.
func TestIssueNamesUnsupportedNetworks(t *testing.T) {
	const onArbitrum = `{"x402Version":2,"scheme":"exact","network":"eip155:421614"}`
	unsupported := []string{"usdc: one.example: network_unsupported on base-sepolia", "usdc: two.example: network_unsupported on base-sepolia"}
	for name, c := range map[string]struct {
		one, two, offered string
		want              []string
	}{
		"all support both":       {onBaseSepolia + "," + onArbitrum, onBaseSepolia + "," + onArbitrum, "eip155:84532 eip155:421614 ", nil},
		"one of two":             {onBaseSepolia + "," + onArbitrum, onArbitrum, "eip155:84532 eip155:421614 ", unsupported[1:]},
		"none":                   {onArbitrum, onArbitrum, "eip155:421614 ", append([]string{"usdc: no facilitator supports base-sepolia, so it is not offered now"}, unsupported...)},
		"the last one":           {onArbitrum, onArbitrum, "eip155:84532 ", append([]string{"usdc-2: no facilitator supports arbitrum-sepolia, so it is not offered now"}, unsupported...)},
		"all unreachable":        {"down", "down", "eip155:84532 eip155:421614 ", nil},
		"some unreachable":       {"down", onArbitrum, "eip155:84532 eip155:421614 ", unsupported[1:]},
		"a server without rails": {onBaseSepolia + "," + onArbitrum, onBaseSepolia + "," + onArbitrum, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := around(t)
			s.server.Networks = c.offered
			for host, kinds := range map[string]string{"one.example": c.one, "two.example": c.two} {
				if kinds != "down" {
					s.facilitator(host, kinds, http.StatusOK, `{"isValid":false}`)
				}
			}
			var rails []service.Rail
			for n, name := range []string{"base-sepolia", "arbitrum-sepolia"} {
				network, err := offer.LookupNetwork(name)
				require.NoError(t, err)
				rail, err := offer.NewUSDC([]string{"usdc", "usdc-2"}[n], network, "0x52908400098527886E0F7030069857D2E4169EE7", 42_00)
				require.NoError(t, err)
				rails = append(rails, service.USDC{USDC: rail, Facilitators: []x402.FacilitatorConfig{{URL: "https://one.example"}, {URL: "https://two.example"}}})
			}
			s.offer.Rails = rails
			require.ElementsMatch(t, c.want, s.whats(FacilitatorNetwork))
		})
	}
}
