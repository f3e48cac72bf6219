package diagnose

import (
	"io"
	"net/http"
	"slices"
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

func TestAFindingHasWhatAFacilitatorSaysOfAReplyOf4xx(t *testing.T) {
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

func TestAFindingNamesTheNetworksThatAreNotOffered(t *testing.T) {
	const onArbitrum, nowhere = `{"x402Version":2,"scheme":"exact","network":"eip155:421614"}`, ``
	base := []string{"usdc: no facilitator supports base-sepolia, so it is not offered"}
	stays := []string{"usdc: no facilitator supports base-sepolia; it is still offered, because no other network is left"}
	arbitrum := []string{"usdc-2: no facilitator supports arbitrum-sepolia, so it is not offered"}
	for name, c := range map[string]struct {
		one, two string // "down": unreachable
		rails    int
		want     []string
	}{
		"all support both":     {onBaseSepolia + "," + onArbitrum, onBaseSepolia + "," + onArbitrum, 2, nil},
		"one of two":           {onBaseSepolia + "," + onArbitrum, onArbitrum, 2, nil},
		"none":                 {onArbitrum, onArbitrum, 2, base},
		"none any":             {nowhere, nowhere, 2, append(slices.Clone(arbitrum), stays...)},
		"all unreachable":      {"down", "down", 2, nil},
		"some unreachable":     {"down", onArbitrum, 2, nil},
		"only one, which none": {onArbitrum, onArbitrum, 1, stays},
		"only one":             {onBaseSepolia, onArbitrum, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := around(t)
			for host, kinds := range map[string]string{"one.example": c.one, "two.example": c.two} {
				if kinds != "down" {
					s.facilitator(host, kinds, http.StatusOK, `{"isValid":false}`)
				}
			}
			var rails []service.Rail
			for n, name := range []string{"base-sepolia", "arbitrum-sepolia"}[:c.rails] {
				network, err := offer.LookupNetwork(name)
				require.NoError(t, err)
				rail, err := offer.NewUSDC([]string{"usdc", "usdc-2"}[n], network, "0x52908400098527886E0F7030069857D2E4169EE7", 42_00)
				require.NoError(t, err)
				rails = append(rails, service.USDC{USDC: rail, Facilitators: []x402.FacilitatorConfig{{URL: "https://one.example"}, {URL: "https://two.example"}}})
			}
			s.offer.Rails = rails
			require.ElementsMatch(t, c.want, slices.DeleteFunc(s.whats(FacilitatorNetwork), func(what string) bool { return strings.Contains(what, "example: network_unsupported") }))
		})
	}
}
