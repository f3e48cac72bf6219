package diagnose

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
