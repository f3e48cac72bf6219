package settlement

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// site is the offer in a process of its own.
type site struct {
	*shop
	process              *server.Process
	path, port, adminURL string
}

// openSite starts the built server with an offer on a new chain.
func openSite(t *testing.T) *site {
	t.Helper()
	s := &site{
		shop: &shop{T: t, payee: newAddress(t), clock: new(clock)},
		path: payoffertest.LedgerFile(t), port: payoffertest.FreePort(t),
	}
	s.start(chain.BaseSepolia)
	s.run("42", s.payee)
	return s
}

const caddyfile = `{
	admin 127.0.0.1:{ADMIN}
	persist_config off
	default_bind 127.0.0.1
	storage file_system {LEDGER}-storage
	pay_offer {
		ledger sqlite {LEDGER}
	}
}
http://localhost:{PORT} {
	pay_offer {
		id sponsor
		base_url http://localhost:{PORT}
		site_url http://localhost:{PORT}
		amount {PRICE}
		rate_limit 1000 1m
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

// config is a Caddyfile with a price in dollars and an address.
func (s *site) config(price string, payee common.Address) string {
	return strings.NewReplacer(
		"{ADMIN}", strings.TrimPrefix(s.adminURL, "http://127.0.0.1:"), "{LEDGER}", s.path, "{PORT}", s.port, "{PRICE}", price,
		"{PAYEE}", payee.Hex(), "{FACILITATOR}", s.facilitator.URL(), "{RPC}", s.chain.URL,
	).Replace(caddyfile)
}

// run starts the process.
func (s *site) run(price string, payee common.Address) {
	s.Helper()
	s.adminURL = "http://127.0.0.1:" + payoffertest.FreePort(s)
	s.process = server.Start(s, s.url(""), s.config(price, payee))
	// Caddy may open the port before the ledger, and what a chain that nobody has read yet would decide is not decided.
	s.eventually("the chain was read", func() bool { return strings.Contains(s.get("/v1/received").body, `"observedThrough":"block `) })
}

func (s *site) url(path string) string { return "http://localhost:" + s.port + path }

// answer is one HTTP answer.
type answer struct {
	status int
	header http.Header
	body   string
	err    error
}

// post sends a payment to the process. It may be called beside the test's goroutine.
func (s *site) post(ctx context.Context, name, value string) answer {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url("/v1/sponsor"), nil)
	if err != nil {
		return answer{err: err}
	}
	request.Header.Set(name, value)
	return do(request)
}

// pay posts a payment as a version 2 client does.
func (s *site) pay(ctx context.Context, p payment) answer {
	return s.post(ctx, "PAYMENT-SIGNATURE", base64.StdEncoding.EncodeToString(p.payload))
}

// do sends a request on a connection of its own.
func do(request *http.Request) answer {
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport, Timeout: 2 * patience}).Do(request)
	if err != nil {
		return answer{err: err}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(body), err}
}

// get asks for a page of the process.
func (s *site) get(path string) answer {
	s.Helper()
	request := lab.Must(http.NewRequestWithContext(s.Context(), http.MethodGet, s.url(path), nil))(s)
	return do(request)
}

// load replaces the configuration, as "caddy reload" does.
func (s *site) load(config string) answer {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, s.adminURL+"/load",
		bytes.NewReader([]byte(config)))
	if err != nil {
		return answer{err: err}
	}
	request.Header.Set("Content-Type", "text/caddyfile")
	return do(request)
}

// requirePaid requires the 200 of a payment that a transaction made.
func (s *site) requirePaid(a answer, transaction common.Hash) {
	s.Helper()
	require.NoError(s, a.err)
	require.Equal(s, http.StatusOK, a.status, a.body)
	data := lab.Must(base64.StdEncoding.DecodeString(a.header.Get("PAYMENT-RESPONSE")))(s)
	var response struct {
		Success     bool
		Transaction string
	}
	require.NoError(s, json.Unmarshal(data, &response))
	require.True(s, response.Success)
	require.Equal(s, transaction.Hex(), response.Transaction)
	require.Contains(s, a.header.Get("Cache-Control"), "no-store")
}

// awaitSettle returns when the facilitator was asked to settle for the payment that is under way.
func (s *site) awaitSettle(answers chan answer) {
	s.Helper()
	s.eventually("the facilitator is asked to settle", func() bool {
		select {
		case a := <-answers:
			require.Fail(s, "the payment was answered before", "%+v", a)
		default:
		}
		return len(s.facilitator.Calls(payoffertest.CallSettle)) > 0
	})
}

// eventually polls until done, which must not take long.
func (s *site) eventually(what string, done func() bool) {
	s.Helper()
	for deadline := time.Now().Add(patience); !done(); {
		require.False(s, time.Now().After(deadline), "not in time: %s", what)
		time.Sleep(20 * time.Millisecond)
	}
}

// audit reads the ledger of the process after it has ended.
func (s *site) audit(check func(*book)) {
	s.Helper()
	b := &book{Ledger: ledger.NewSQLite(s.path, time.Now)}
	require.NoError(s, b.Open(s.Context()))
	check(b)
	require.NoError(s, b.Close())
}
