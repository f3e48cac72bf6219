package agents

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// largest is how many bytes the header block of a 402 may have: what a proxy takes.
const largest = 3900

// eachChains runs a test with an offer on one chain and with one on two.
func eachChains(t *testing.T, test func(t *testing.T, chains int)) {
	for _, chains := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d chains", chains), func(t *testing.T) {
			t.Parallel()
			lab.RequireNginx(t)
			test(t, chains)
		})
	}
}

func TestOfficialClientsPayThroughDefaultNginx(t *testing.T) {
	eachChains(t, func(t *testing.T, chains int) {
		lab.RequireNode(t)
		c := chain.Start(t)
		s := openProxied(t, chains, node.StartFacilitator(t, c.URL, c.Facilitator), c.URL)
		for _, path := range []string{"/v1/quote", "/v1/offer", "/v1/sponsor"} {
			_, size := s.requireProxied(http.StatusPaymentRequired, http.MethodPost, path)
			t.Logf("%4d bytes: POST %s", size, path)
			require.LessOrEqual(t, size, largest)
			if path != "/v1/sponsor" {
				s.requireProxied(http.StatusPaymentRequired, http.MethodGet, path)
			}
		}
		for i, buyer := range []node.Buyer{node.BuyerV2, node.BuyerV1} {
			answer := node.Pay(t, buyer, s.base+"/v1/sponsor", c.Buyers[i])
			require.Equal(t, http.StatusOK, answer.Status, "%s: %s", buyer, answer.Body)
			require.NotNil(t, answer.Payment)
			require.Len(t, c.TransfersTo(t, s.payee), i+1)
		}
	})
}

func TestRefusalsPassThroughDefaultNginx(t *testing.T) {
	eachChains(t, func(t *testing.T, chains int) {
		facilitator := payoffertest.NewFacilitator(t)
		s := openProxied(t, chains, facilitator.URL(), "off")
		longest := strings.Repeat("r", 100)
		refused := func(what, path, response string, payment header) {
			t.Helper()
			answer, size := s.requireProxied(http.StatusPaymentRequired, http.MethodPost, path, payment)
			t.Logf("%4d bytes: %s", size, what)
			require.LessOrEqual(t, size, largest)
			require.NotEmpty(t, answer.Header.Get("PAYMENT-REQUIRED"))
			if response != "" {
				require.NotEmpty(t, answer.Header.Get(response))
			}
		}
		p := s.payment()
		refused("payment sent to /v1/quote", "/v1/quote", "", p.v2)
		facilitator.Script(payoffertest.CallVerify, payoffertest.FacilitatorReply{Reason: longest})
		refused("refused by verify", "/v1/sponsor", "", p.v2)
		facilitator.Script(payoffertest.CallVerify)

		// What time alone decides without a chain is written into the ledger.
		facilitator.Script(payoffertest.CallSettle, payoffertest.FacilitatorReply{Fault: payoffertest.FaultCloseRead})
		s.requireProxied(http.StatusServiceUnavailable, http.MethodPost, "/v1/sponsor", p.v2)
		s.process.Terminate()
		s.process.Await(t)
		book := ledger.NewSQLite(s.ledger(), time.Now)
		require.NoError(t, book.Open(t.Context()))
		_, err := book.Apply(t.Context(), ledger.IntentKey{
			Network: "eip155:84532", Asset: strings.ToLower(chain.USDC.Hex()), From: strings.ToLower(p.From.Hex()), Nonce: p.Nonce.Hex(),
		}, ledger.IntentChange{Event: accounting.EventDead, Reason: longest})
		require.NoError(t, err)
		require.NoError(t, book.Close())
		s.start()
		refused("refused by settle, version 2", "/v1/sponsor", "PAYMENT-RESPONSE", p.v2)
		refused("refused by settle, version 1", "/v1/sponsor", "X-PAYMENT-RESPONSE", p.v1)
	})
}

const proxiedCaddyfile = `{
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

// proxied is a server behind nginx as Debian installs it.
type proxied struct {
	*testing.T
	payee common.Address
	// base is the proxy's address, direct that of the server, and folder has its ledger.
	base, direct, folder, caddyfile string
	process                         *server.Process
}

// openProxied starts an offer with the longest texts on one or two chains, and nginx in front of it.
func openProxied(t *testing.T, chains int, facilitator, rpc string) *proxied {
	t.Helper()
	proxy, port := payoffertest.FreePort(t), payoffertest.FreePort(t)
	s := &proxied{T: t, payee: chain.NewAddress(t), base: "http://localhost:" + proxy, direct: "localhost:" + port, folder: t.TempDir()}
	more := ""
	if chains == 2 {
		more = secondChain
	}
	s.caddyfile = strings.NewReplacer(
		"{DIR}", s.folder, "{PORT}", port, "{BASE}", longestBase, "{NAME}", longestName, "{CARD}", longCard,
		"{PAYEE}", s.payee.Hex(), "{FACILITATOR}", facilitator, "{RPC}", rpc,
	).Replace(strings.Replace(proxiedCaddyfile, "{MORE}", more, 1))
	lab.StartNginx(t, proxy, port)
	s.start()
	return s
}

// start starts the server, and returns when its quote is signed, for it answers before.
func (pr *proxied) start() {
	pr.Helper()
	pr.process = server.Start(pr, "http://"+pr.direct, pr.caddyfile)
	server.Eventually(pr, "the quote is signed", func() bool {
		a, err := server.Do(server.Client, http.MethodPost, "http://"+pr.direct+"/v1/quote", "", nil)
		return err == nil && strings.Contains(a.Body, "offer-receipt")
	})
}

// header is one header of a request.
type header struct{ name, value string }

// requireProxied sends a request through the proxy and to the server itself, of which both must answer with a status, and
// returns the proxy's answer and the size of the header block that the server wrote.
func (pr *proxied) requireProxied(status int, method, path string, headers ...header) (answer server.Answer, size int) {
	pr.Helper()
	request, err := http.NewRequest(method, "http://"+pr.direct+path, nil)
	require.NoError(pr, err)
	for _, h := range headers {
		request.Header.Set(h.name, h.value)
	}
	answer = lab.Must(server.Do(server.Client, method, pr.base+path, "", request.Header))(pr)
	require.Equal(pr, status, answer.Status, "%s %s through nginx: %s", method, path, answer.Body)

	connection := lab.Must(net.Dial("tcp4", pr.direct))(pr)
	defer connection.Close()
	require.NoError(pr, request.Write(connection))
	lines := bufio.NewReader(connection)
	for {
		line := lab.Must(lines.ReadString('\n'))(pr)
		if size == 0 {
			require.Contains(pr, line, fmt.Sprintf(" %d ", status))
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
func (pr *proxied) payment() payment {
	pr.Helper()
	key := chain.NewKey(pr)
	p := payment{Authorization: chain.NewAuthorization(pr, chain.Address(key), pr.payee, price)}
	payload := p.Payload(p.Sign(pr, key))
	p.v2 = header{"PAYMENT-SIGNATURE", chain.Payment(pr, payload).Get("Payment-Signature")}
	p.v1 = header{"X-PAYMENT", chain.Payment(pr, map[string]any{
		"x402Version": 1, "scheme": "exact", "network": "base-sepolia", "payload": payload["payload"],
	}).Get("Payment-Signature")}
	return p
}

// ledger is the file of the server's ledger.
func (pr *proxied) ledger() string { return filepath.Join(pr.folder, "ledger.db") }
