package reload

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/bitcoin"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/bitcoin/esplora"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/prices"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

const (
	cardSecret  = "whsec_of_the_card_rail"
	storeSecret = "0123456789abcdef0123456789abcdef"
	// vpub is the account of BIP-84's test mnemonic on a test network.
	vpub = "vpub5Y6cjg78GGuNLsaPhmYsiw4gYX3HoQiRBiSwDaBXKUafCt9bNwWQiitDk5VZ5BVxYnQdwoTyXSs2JHRPAgjAvtbBrf8ZhDYe2jWAqvZVnsc"
	// patience is how long something may take that happens in the background.
	patience = 30 * time.Second
)

// caddyfile has two offers: one with every kind of rail, and one whose chain and whose facilitator do not answer. In braces
// and capitals stand what a test fills in.
const caddyfile = `{
	admin 127.0.0.1:{ADMIN}
	persist_config off
	default_bind 127.0.0.1
	{LOG}
	pay_offer {
		ledger sqlite {DIR}/ledger.db
	}
}
http://localhost:{PORT} {
	pay_offer {
		base_url http://localhost:{PORT}
		id shop
		description "{DESCRIPTION}"
		contact pay@example.org
		rate_limit 10 1h
		card https://checkout.example/pay {
			payment_link plink_1
			webhook_secret {env.CARD_SECRET}
		}
		usdc base-sepolia {PAYEE} {
			facilitator {FACILITATOR} {
				timeout 1m
			}
			rpc {RPC}
			confirm latest
		}
		bitcoin {ACCOUNT} {
			rates mempool
			esplora {ESPLORA}
		}
		bank_transfer transfer pay@example.org
		storefront tip-jar https://shop.example/tip {
			product product-1
			hook_secret {env.STORE_SECRET}
		}
		announce {RECEIVER} {
			secret {env.ANNOUNCE_SECRET}
		}
	}
	respond 404
}
http://localhost:{TROUBLED} {
	pay_offer {
		base_url http://localhost:{TROUBLED}
		id troubled
		description "{DESCRIPTION}"
		card https://checkout.example/pay
		usdc base-sepolia {OTHER_PAYEE} {
			facilitator {BROKEN}
			rpc http://127.0.0.1:{CLOSED}
			confirm latest
		}
	}
	respond 404
}
`

// shop is a running server with both offers, and what they need of the world.
type shop struct {
	*testing.T
	process              *server.Process
	url, troubled, admin string
	dir                  string
	chain                *chain.Chain
	coins                *bitcoin.Node
	payee                common.Address
	facilitator, broken  *payoffertest.Facilitator
	receiver             *payoffertest.Receiver
	values               []string // what stands in the Caddyfile for its braces

	// held is closed when the facilitator may broadcast; nil holds nothing.
	held atomic.Pointer[chan struct{}]
	// deliveries numbers the webhooks that a test sends.
	deliveries atomic.Int64
}

// openShop starts everything and returns when all that is observed in the background is known. log is the option of the
// global block, if any.
func openShop(t *testing.T, log string) *shop {
	t.Helper()
	port, troubled, admin := payoffertest.FreePort(t), payoffertest.FreePort(t), payoffertest.FreePort(t)
	s := &shop{
		T: t, url: "http://localhost:" + port, troubled: "http://localhost:" + troubled, admin: "http://127.0.0.1:" + admin,
		dir: t.TempDir(), chain: chain.Start(t), payee: chain.NewAddress(t),
		facilitator: payoffertest.NewFacilitator(t), broken: payoffertest.NewFacilitator(t), receiver: payoffertest.NewReceiver(t),
	}
	s.chain.Pause()
	s.facilitator.OnBroadcast(s.broadcast)
	s.broken.Script(payoffertest.CallSupported, payoffertest.FacilitatorReply{Status: http.StatusInternalServerError})
	s.coins = bitcoin.Start(t)
	s.values = []string{
		"{ADMIN}", admin, "{DIR}", s.dir, "{PORT}", port, "{TROUBLED}", troubled, "{CLOSED}", payoffertest.FreePort(t),
		"{PAYEE}", s.payee.Hex(), "{OTHER_PAYEE}", chain.NewAddress(t).Hex(), "{FACILITATOR}", s.facilitator.URL(), "{BROKEN}", s.broken.URL(),
		"{RPC}", s.chain.URL, "{ACCOUNT}", vpub, "{ESPLORA}", strings.Join(esplora.StartTwo(t, s.coins, bitcoin.Params, &chaincfg.TestNet3Params), " "),
		"{RECEIVER}", s.receiver.URL(),
	}
	s.process = server.Start(t, s.url, s.config("First words.", log), append(prices.Start(t),
		"CARD_SECRET="+cardSecret, "STORE_SECRET="+storeSecret, "ANNOUNCE_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")...)
	s.awaitHealth()
	return s
}

// config is the Caddyfile with a description and the global block's option for logs.
func (s *shop) config(description, log string) string {
	return strings.NewReplacer(append(s.values, "{DESCRIPTION}", description)...).Replace(strings.Replace(caddyfile, "{LOG}", log, 1))
}

// logTo is the option of the global block that writes every log to a file of the shop's folder.
func logTo(file string) string { return "log {\n\t\toutput file {DIR}/" + file + "\n\t}" }

// answer is one HTTP answer.
type answer struct {
	status int
	header http.Header
	body   string
}

// newClient makes one with an address of its own among those of the loopback interface. It follows no redirect.
func newClient(address string, keepAlive bool) *http.Client {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	return &http.Client{
		Timeout:       2 * patience,
		Transport:     &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: !keepAlive},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// do sends a request and reads the answer.
func do(client *http.Client, method, url, body string, header http.Header) (answer, error) {
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for name, values := range header {
		request.Header[name] = values
	}
	response, err := client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(read)}, err
}

// ask is do until there is an answer: the kernel may reset a new connection while Caddy hands its listener over, and a
// connection that was kept alive ends with its configuration. The status is 0 where there is none for too long.
func ask(client *http.Client, method, url, body string, header http.Header) answer {
	for deadline := time.Now().Add(patience); ; {
		a, err := do(client, method, url, body, header)
		if err == nil {
			return a
		}
		if time.Now().After(deadline) {
			return answer{body: err.Error()}
		}
	}
}

// loopback is the client of whatever is no subject of the tests.
var loopback = newClient("127.0.0.1", false)

// get returns the body of what must answer 200.
func (s *shop) get(url string) string {
	s.Helper()
	a := ask(loopback, http.MethodGet, url, "", nil)
	require.Equal(s, http.StatusOK, a.status, "%s: %s", url, a.body)
	return a.body
}

// load replaces the configuration, also by an equal one, as "caddy reload --force" does.
func (s *shop) load(config string) (answer, error) {
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	request, err := http.NewRequest(http.MethodPost, s.admin+"/load", bytes.NewReader([]byte(config)))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Content-Type", "text/caddyfile")
	request.Header.Set("Cache-Control", "must-revalidate")
	response, err := client.Do(request)
	if err != nil {
		return answer{}, fmt.Errorf("the reload is not over: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(body)}, err
}

// reload replaces the configuration, which must succeed.
func (s *shop) reload(config string) {
	s.Helper()
	a, err := s.load(config)
	require.NoError(s, err)
	require.Equal(s, http.StatusOK, a.status, a.body)
}

// eventually polls until done, which must not take long.
func (s *shop) eventually(what string, done func() bool) {
	s.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(20 * time.Millisecond) {
		require.False(s, time.Now().After(deadline), "not in time: %s", what)
	}
}

// path of a file of the shop's folder.
func (s *shop) path(file string) string { return filepath.Join(s.dir, file) }
