package e2e

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// The access log is what a body stands behind first in production.
const slowCaddyfile = `{
	admin off
	persist_config off
	servers {
		protocols h1 h2c
	}
	default_bind 127.0.0.1
	pay_offer {
		ledger sqlite {DIR}/ledger.db
	}
}
http://localhost:{PORT} {
	log
	encode
	pay_offer {
		base_url http://localhost:{PORT}
		card https://checkout.example/pay {
			payment_link plink_1
			webhook_secret whsec_0123456789abcdef
		}
		storefront tip-jar https://tip-jar.example/42 {
			product p
			hook_secret {SECRET}
		}
		usdc base-sepolia 0x52908400098527886E0F7030069857D2E4169EE7 {
			facilitator http://127.0.0.1:9
			rpc off
		}
	}
}
`

// A body of which one byte arrives holds no connection for longer than the server waits: at every address that takes one,
// over both protocols, through all that Caddy puts around requests and answers.
func TestNobodyHoldsAConnectionByASlowBody(t *testing.T) {
	port := payoffertest.FreePort(t)
	base := "http://localhost:" + port
	server.Start(t, base, strings.NewReplacer("{DIR}", t.TempDir(), "{PORT}", port, "{SECRET}", shopSecret).Replace(slowCaddyfile))
	var all sync.WaitGroup
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		transport := &http.Transport{Protocols: new(http.Protocols)}
		transport.Protocols.SetHTTP1(protocol == "HTTP/1.1")
		transport.Protocols.SetUnencryptedHTTP2(protocol == "HTTP/2.0")
		t.Cleanup(transport.CloseIdleConnections)
		client := &http.Client{Transport: transport}
		targets := posts(t, client, base)
		require.Subset(t, targets, []string{"/v1/offer", "/v1/quote", "/v1/sponsor", "/mcp", "/v1/hook/card", "/v1/hook/tip-jar/" + shopSecret})
		for _, target := range targets {
			all.Go(func() {
				body, arriving := io.Pipe()
				go func() { _, _ = arriving.Write([]byte("{")) }()
				defer arriving.CloseWithError(errors.New("given up"))
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+target, body)
				assert.NoError(t, err)
				request.ContentLength = 1000
				request.Header.Set("Stripe-Signature", "t=1,v1="+strings.Repeat("0", 64)) // or no delivery is read
				answer, err := client.Do(request)
				if !assert.NoError(t, err, target) {
					return
				}
				defer answer.Body.Close()
				said, err := io.ReadAll(answer.Body)
				assert.NoError(t, err)
				assert.Equal(t, protocol, answer.Proto)
				want := http.StatusRequestTimeout
				if target == "/mcp" {
					want = http.StatusBadRequest // with an error of JSON-RPC
				}
				assert.Equal(t, want, answer.StatusCode, "%s %s: %s", protocol, target, said)
				assert.Regexp(t, "no payment was sent|nothing was recorded", string(said))
			})
		}
	}
	all.Wait()
}

// posts are the addresses that take a body, as the server describes itself.
func posts(t *testing.T, client *http.Client, base string) (targets []string) {
	t.Helper()
	answer, err := client.Get(base + "/openapi.json")
	require.NoError(t, err)
	defer answer.Body.Close()
	var description struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&description))
	for path, methods := range description.Paths {
		if methods["post"] != nil {
			targets = append(targets, strings.NewReplacer("{storefront}", "tip-jar", "{secret}", shopSecret).Replace(path))
		}
	}
	return targets
}
