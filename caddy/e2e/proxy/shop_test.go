// Package proxy tests the built server behind nginx as Debian installs it: whoever can pay the server can pay it through
// a proxy with default settings.
package proxy

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// price is the amount of the offer in atomic units of USDC.
const price = 42_000_000

// patience is how long something may take that happens in the background.
const patience = 30 * time.Second

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
	longestBase = "http://" + strings.Repeat(strings.Repeat("h", 42)+".", 3) + "localhost:65535"
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
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	proxy, port := payoffertest.FreePort(t), payoffertest.FreePort(t)
	s := &shop{T: t, payee: chain.Address(key), base: "http://localhost:" + proxy, direct: "localhost:" + port, folder: t.TempDir()}
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
	require.Eventually(s, func() bool {
		answer, err := http.Post("http://"+s.direct+"/v1/quote", "", nil)
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		return err == nil && bytes.Contains(body, []byte("offer-receipt"))
	}, patience, 20*time.Millisecond, "the quote is signed")
}

// header is one header of a request.
type header struct{ name, value string }

// requireProxied sends a request through the proxy and to the server itself, of which both must answer with a status, and
// returns the proxy's answer and the size of the header block that the server wrote.
func (s *shop) requireProxied(status int, method, path string, headers ...header) (answer *http.Response, size int) {
	s.Helper()
	request, err := http.NewRequestWithContext(s.Context(), method, s.base+path, nil)
	require.NoError(s, err)
	for _, h := range headers {
		request.Header.Set(h.name, h.value)
	}
	answer, err = http.DefaultClient.Do(request)
	require.NoError(s, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(s, err)
	require.Equal(s, status, answer.StatusCode, "%s %s through nginx: %s", method, path, body)

	connection, err := net.Dial("tcp4", s.direct)
	require.NoError(s, err)
	defer connection.Close()
	request.Host = s.direct
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
	key, err := crypto.GenerateKey()
	require.NoError(s, err)
	p := payment{Authorization: chain.NewAuthorization(s, chain.Address(key), s.payee, price)}
	type object = map[string]any
	signed := object{"signature": hexutil.Encode(p.Sign(s, key)), "authorization": p.Authorization}
	encoded := func(payload object) string {
		text, err := json.Marshal(payload)
		require.NoError(s, err)
		return base64.StdEncoding.EncodeToString(text)
	}
	p.v1 = header{"X-PAYMENT", encoded(object{"x402Version": 1, "scheme": "exact", "network": "base-sepolia", "payload": signed})}
	p.v2 = header{"PAYMENT-SIGNATURE", encoded(p.Payload(p.Sign(s, key)))}
	return p
}

// ledger is the file of the server's ledger.
func (s *shop) ledger() string { return filepath.Join(s.folder, "ledger.db") }
