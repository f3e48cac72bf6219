package signature

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// caddyfile is an offer on one test network. Nothing else is configured for signing.
const caddyfile = `{
	admin {ADMIN}
	persist_config off
	default_bind 127.0.0.1
	storage file_system {DIR}/storage
	pay_offer {
		ledger sqlite {DIR}/ledger.db
	}
}
http://localhost:{PORT} {
	pay_offer {
		base_url http://localhost:{PORT}
		site_url http://localhost:{PORT}
		card https://checkout.example/pay
		usdc base-sepolia {PAYEE} {
			facilitator {FACILITATOR}
			rpc {RPC}
			confirm latest
		}
	}
	respond 404
}
`

// payee is the address of the offer.
const payee = "0x52908400098527886E0F7030069857D2E4169EE7"

// shop is a running server.
type shop struct {
	*testing.T
	base, admin string
}

// openShop starts a server whose payments a facilitator settles on a chain.
func openShop(t *testing.T, facilitator, rpc string) *shop {
	t.Helper()
	port := payoffertest.FreePort(t)
	s := &shop{t, "http://localhost:" + port, "127.0.0.1:" + payoffertest.FreePort(t)}
	server.Start(t, s.base, strings.NewReplacer(
		"{ADMIN}", s.admin, "{DIR}", t.TempDir(), "{PORT}", port, "{PAYEE}", payee, "{FACILITATOR}", facilitator, "{RPC}", rpc,
	).Replace(caddyfile))
	// It answers before it has loaded its keys.
	server.Eventually(t, "the quote is signed", func() bool { return strings.Contains(s.quote().Body, "offer-receipt") })
	return s
}

// rotateKey asks the running server for a new key.
func (s *shop) rotateKey(args ...string) {
	s.Helper()
	out, err := server.Command(s, "", append([]string{"rotate-key", "--address", s.admin}, args...)...)
	require.NoError(s, err, out)
}

// quote asks for the terms.
func (s *shop) quote() server.Answer {
	s.Helper()
	a := server.Ask(server.Client, http.MethodGet, s.base+"/v1/quote", "", nil)
	require.Equal(s, http.StatusPaymentRequired, a.Status)
	return a
}

// extension is a part of an extension of the quote, which stands in its header or in its body.
func (s *shop) extension(name, part string) any {
	s.Helper()
	quote := s.quote()
	header, err := base64.StdEncoding.DecodeString(quote.Header.Get("PAYMENT-REQUIRED"))
	require.NoError(s, err)
	var found []map[string]any
	for _, text := range []string{string(header), quote.Body} {
		var terms struct{ Extensions map[string]map[string]any }
		require.NoError(s, json.Unmarshal([]byte(text), &terms))
		if extension := terms.Extensions[name]; extension != nil {
			found = append(found, extension)
		}
	}
	require.Len(s, found, 1, "where %s stands", name)
	return found[0][part]
}
