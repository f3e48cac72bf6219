package signature

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
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

// patience is how long a start may take: far more than it does on a busy machine.
const patience = 30 * time.Second

// shop is a running server.
type shop struct {
	*testing.T
	base, admin string
}

// openShop starts a server whose payments a facilitator settles on a chain.
func openShop(t *testing.T, facilitator, rpc string) *shop {
	t.Helper()
	port := server.FreePort(t)
	s := &shop{t, "http://localhost:" + port, "127.0.0.1:" + server.FreePort(t)}
	server.Start(t, s.base, strings.NewReplacer(
		"{ADMIN}", s.admin, "{DIR}", t.TempDir(), "{PORT}", port, "{PAYEE}", payee, "{FACILITATOR}", facilitator, "{RPC}", rpc,
	).Replace(caddyfile))
	// It answers before it has loaded its keys.
	require.Eventually(t, func() bool {
		_, quote := s.quote()
		return quote["extensions"].(map[string]any)["offer-receipt"] != nil
	}, patience, 10*time.Millisecond, "the quote is signed")
	return s
}

// run runs a command of the released binary with some standard input.
func run(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	command := exec.Command(server.Released(t), append([]string{"pay-offer"}, args...)...)
	command.Stdin, command.Env, command.Dir = strings.NewReader(stdin), []string{"HOME=" + t.TempDir()}, t.TempDir()
	out, err := command.CombinedOutput()
	return string(out), err
}

// rotateKey asks the running server for a new key.
func (s *shop) rotateKey(args ...string) {
	s.Helper()
	out, err := run(s.T, "", append([]string{"rotate-key", "--address", s.admin}, args...)...)
	require.NoError(s, err, out)
}

// get asks for a path.
func (s *shop) get(path string) *http.Response {
	s.Helper()
	answer, err := http.Get(s.base + path)
	require.NoError(s, err)
	require.NoError(s, answer.Body.Close())
	return answer
}

// quote is the decoded PAYMENT-REQUIRED.
func (s *shop) quote() (header string, decoded map[string]any) {
	s.Helper()
	header = s.get("/v1/quote").Header.Get("PAYMENT-REQUIRED")
	text, err := base64.StdEncoding.DecodeString(header)
	require.NoError(s, err)
	require.NoError(s, json.Unmarshal(text, &decoded))
	return header, decoded
}

// extension is a part of an extension of the quote.
func (s *shop) extension(name, part string) any {
	s.Helper()
	_, quote := s.quote()
	extension, ok := quote["extensions"].(map[string]any)[name].(map[string]any)
	require.True(s, ok, "the quote has no %s", name)
	return extension[part]
}
