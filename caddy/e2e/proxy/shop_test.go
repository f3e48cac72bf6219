// Package proxy tests the built server behind nginx as Debian installs it: whoever can pay the server can pay it through
// a proxy with default settings.
package proxy

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// price is the amount of the offer in atomic units of USDC.
const price = 42_000_000

const caddyfile = `{
	admin off
	persist_config off
	default_bind 127.0.0.1
	storage file_system {DIR}/storage
	pay_offer {
		ledger sqlite {DIR}/ledger.db
	}
}
http://localhost:{PORT} {
	pay_offer {
		id proxied
		base_url {BASE}
		name {NAME}
		card {CARD}
		usdc base-sepolia {PAYEE} {
			facilitator {FACILITATOR}
			rpc {RPC}
		}
		{MORE}
	}
	respond 404
}
`

// secondChain is a further way to pay, which nobody takes.
const secondChain = `usdc arbitrum-sepolia {PAYEE} {
			facilitator {FACILITATOR}
			rpc off
		}`

// Texts as long as they may be, a host name as long as two challenges that name it have room for, and a checkout with
// 200 characters.
var (
	longestName = strings.Repeat("n", 80)
	longestBase = "http://" + strings.Repeat(strings.Repeat("h", 29)+".", 3) + "localhost:65535"
	longCard    = "https://checkout.example.com/" + strings.Repeat("c", 171)
)

// shop is a server behind a proxy.
type shop struct {
	*testing.T
	payee common.Address
	// base is the proxy's address, direct that of the server, and folder has its ledger.
	base, direct, folder, caddyfile string
	process                         *server.Process
}

// openShop starts an offer with the longest texts on one or two chains, and nginx in front of it.
func openShop(t *testing.T, chains int, facilitator, rpc string) *shop {
	t.Helper()
	proxy, port := payoffertest.FreePort(t), payoffertest.FreePort(t)
	s := &shop{T: t, payee: chain.NewAddress(t), base: "http://localhost:" + proxy, direct: "localhost:" + port, folder: t.TempDir()}
	more := ""
	if chains == 2 {
		more = secondChain
	}
	s.caddyfile = strings.NewReplacer(
		"{DIR}", s.folder, "{PORT}", port, "{BASE}", longestBase, "{NAME}", longestName, "{CARD}", longCard,
		"{PAYEE}", s.payee.Hex(), "{FACILITATOR}", facilitator, "{RPC}", rpc,
	).Replace(strings.Replace(caddyfile, "{MORE}", more, 1))
	lab.StartNginx(t, proxy, port)
	s.start()
	return s
}

// start starts the server, and returns when its quote is signed, for it answers before.
func (s *shop) start() {
	s.Helper()
	s.process = server.Start(s, "http://"+s.direct, s.caddyfile)
	server.Eventually(s, "the quote is signed", func() bool {
		a, err := server.Do(server.Client, http.MethodPost, "http://"+s.direct+"/v1/quote", "", nil)
		return err == nil && strings.Contains(a.Body, "offer-receipt")
	})
}

// header is one header of a request.
type header struct{ name, value string }

// requireProxied sends a request through the proxy and to the server itself, of which both must answer with a status, and
// returns the proxy's answer and the size of the header block that the server wrote.
func (s *shop) requireProxied(status int, method, path string, headers ...header) (answer server.Answer, size int) {
	s.Helper()
	request, err := http.NewRequest(method, "http://"+s.direct+path, nil)
	require.NoError(s, err)
	for _, h := range headers {
		request.Header.Set(h.name, h.value)
	}
	answer, err = server.Do(server.Client, method, s.base+path, "", request.Header)
	require.NoError(s, err)
	require.Equal(s, status, answer.Status, "%s %s through nginx: %s", method, path, answer.Body)

	connection, err := net.Dial("tcp4", s.direct)
	require.NoError(s, err)
	defer connection.Close()
	require.NoError(s, request.Write(connection))
	lines := bufio.NewReader(connection)
	for {
		line, err := lines.ReadString('\n')
		require.NoError(s, err)
		if size == 0 {
			require.Contains(s, line, fmt.Sprintf(" %d ", status))
		}
		if size += len(line); line == "\r\n" {
			return answer, size
		}
	}
}

// payment is a signed payment in both dialects, and its authorization.
type payment struct {
	chain.Authorization
	v1, v2 header
}

// payment signs one by somebody who is not known anywhere.
func (s *shop) payment() payment {
	s.Helper()
	key := chain.NewKey(s)
	p := payment{Authorization: chain.NewAuthorization(s, chain.Address(key), s.payee, price)}
	payload := p.Payload(p.Sign(s, key))
	p.v2 = header{"PAYMENT-SIGNATURE", chain.Payment(s, payload).Get("Payment-Signature")}
	p.v1 = header{"X-PAYMENT", chain.Payment(s, map[string]any{
		"x402Version": 1, "scheme": "exact", "network": "base-sepolia", "payload": payload["payload"],
	}).Get("Payment-Signature")}
	return p
}

// ledger is the file of the server's ledger.
func (s *shop) ledger() string { return filepath.Join(s.folder, "ledger.db") }
