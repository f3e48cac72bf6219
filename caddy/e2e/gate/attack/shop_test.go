// Package attack proves that nobody gets behind a gate without a payment, and that no payer pays twice at one: the built
// server before strangers who read the chain, forge and replay, and before payers who send too much at once.
package attack

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// price is what the offers cost, 0.42 USDC in atomic units.
const price = 420_000

// caddyfile has two offers and the sites that they open. In braces and capitals stand what a test fills in.
const caddyfile = `{
	admin off
	persist_config off
	default_bind 127.0.0.1
	pay_offer {
		ledger sqlite {DIR}/ledger.db
	}
}
(offer) {
	pay_offer {
		id {args[0]}
		base_url http://{args[2]}:{PORT}
		site_url http://shop.localhost:{PORT}
		amount 0.42
		rate_limit 10000 1m
		card https://checkout.example/pay
		usdc base-sepolia {args[1]} {
			facilitator {FACILITATOR}
			rpc {RPC}
			confirm latest
		}
	}
	respond 404
}
http://localhost:{PORT} {
	log
	import offer members {PAYEE} localhost
}
http://other.localhost:{PORT} {
	import offer other {OTHERPAYEE} other.localhost
}
http://shop.localhost:{PORT}, http://alias.localhost:{PORT} {
	log
	root {DIR}/files
	pay_offer_gate /paid/* {
		offer members
		start /paid/
	}
	file_server browse {
		precompressed gzip
	}
}
http://proxied.localhost:{PORT} {
	pay_offer_gate /paid/* {
		offer members
		start http://proxied.localhost:{PORT}/paid/
	}
	reverse_proxy {FILES}
}
http://app.localhost:{PORT} {
	pay_offer_gate {
		offer members
		start http://app.localhost:{PORT}/
	}
	reverse_proxy {APP} {
		header_up X-Payment-Id {http.pay_offer.payment}
	}
}
http://second.localhost:{PORT} {
	pay_offer_gate {
		offer other
		start http://second.localhost:{PORT}/
	}
	reverse_proxy {APP}
}
http://:{ANYPORT} {
	pay_offer_gate {
		offer members
		start http://any.localhost:{ANYPORT}/
	}
	reverse_proxy {APP}
}
`

var observed = regexp.MustCompile(`"observedThrough":\s*"`)

// shop is the server with its sites, chain and facilitator.
type shop struct {
	*testing.T
	chain       *chain.Chain
	facilitator *payoffertest.Facilitator
	payee       common.Address
	process     *server.Process
	app         *app
	// port has the sites by name, and any the site that answers for all hosts.
	port, any string
	// content is in everything that is behind a gate, and nowhere else.
	content string
	client  *http.Client

	mu sync.Mutex
	// mined, if not nil, is closed when a payment is on the chain; the facilitator then waits for answer.
	mined, answer chan struct{}
}

func openShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{
		T: t, chain: chain.Start(t), facilitator: payoffertest.NewFacilitator(t), payee: chain.NewAddress(t),
		port: payoffertest.FreePort(t), any: payoffertest.FreePort(t), content: "CONTENT" + rand.Text(),
	}
	s.facilitator.OnBroadcast(s.settle)
	s.app = &app{content: s.content}
	upstream := httptest.NewServer(s.app)
	t.Cleanup(upstream.Close)
	folder := t.TempDir()
	s.writeFiles(filepath.Join(folder, "files"))
	files := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(folder, "files"))))
	t.Cleanup(files.Close)

	s.client = &http.Client{Timeout: 2 * server.Patience, CheckRedirect: server.Stay, Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			_, port, _ := net.SplitHostPort(address)
			return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+port)
		},
	}}
	t.Cleanup(s.client.CloseIdleConnections)
	s.process = server.Start(t, "http://localhost:"+s.port, strings.NewReplacer("{DIR}", folder, "{PORT}", s.port, "{ANYPORT}", s.any,
		"{PAYEE}", s.payee.Hex(), "{OTHERPAYEE}", chain.NewAddress(t).Hex(), "{FACILITATOR}", s.facilitator.URL(), "{RPC}", s.chain.URL,
		"{APP}", upstream.URL, "{FILES}", files.URL).Replace(caddyfile))
	server.Eventually(t, "the chain is read", func() bool {
		a, err := server.Do(s.client, "GET", s.url("members", "/v1/received"), "", nil)
		return err == nil && observed.MatchString(a.Body)
	})
	return s
}

// writeFiles makes a folder that is gated in part.
func (s *shop) writeFiles(root string) {
	s.Helper()
	for name, text := range map[string]string{
		"paid/index.html": s.content, "paid/secret.txt": s.content, "paid/secret.txt.gz": s.content, "paid/in/deep.txt": s.content,
		"paid/list/secret.txt": s.content, "open/open.txt": "open", "index.html": "open",
	} {
		path := filepath.Join(root, filepath.FromSlash(name))
		require.NoError(s, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(s, os.WriteFile(path, []byte(text), 0o644))
	}
}

var errReverted = errors.New("the transaction was reverted")

// settle is what the facilitator does. It runs beside the test's goroutine.
func (s *shop) settle(asked payoffertest.Settlement) (string, error) {
	hash, err := s.chain.Broadcast(s, asked)
	if err != nil {
		return "", err
	}
	for deadline := time.Now().Add(server.Patience); !s.chain.Succeeded(s, hash); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			return "", errReverted
		}
	}
	s.mu.Lock()
	mined, answer := s.mined, s.answer
	s.mined = nil
	s.mu.Unlock()
	if mined != nil {
		close(mined)
		<-answer
	}
	return hash.Hex(), nil
}

// url is an address of a site.
func (s *shop) url(site, path string) string {
	if site == "any" {
		return "http://any.localhost:" + s.any + path
	}
	if site == "members" {
		return "http://localhost:" + s.port + path
	}
	return "http://" + site + ".localhost:" + s.port + path
}

// ask sends a request. It may run beside the test's goroutine.
func (s *shop) ask(method, url string, header http.Header) server.Answer {
	a, err := server.Do(s.client, method, url, "", header)
	if err != nil {
		a.Body = err.Error()
	}
	return a
}

// charges are the transfers to the payee of the gated offer.
func (s *shop) charges() int { return len(s.chain.TransfersTo(s, s.payee)) }

// requireClosed requires that an answer has nothing that only a payer may have.
func (s *shop) requireClosed(a server.Answer, what string) {
	s.Helper()
	text := a.Body
	for name, values := range a.Header {
		text += "\n" + name + ": " + strings.Join(values, "\n")
	}
	require.NotZero(s, a.Status, what+": "+a.Body)
	for _, secret := range []string{s.content, "/v1/receipt/", "/enter", "Set-Cookie", `receiptUrl":`, `receiptUrl\":`, `access":`, `access\":`} {
		before, after, found := strings.Cut(text, secret)
		require.False(s, found, "%s: …%s %s %.100s", what, before[max(0, len(before)-100):], secret, after)
	}
}

// app is an application behind a gate, which notes everything that reaches it.
type app struct {
	content string
	mu      sync.Mutex
	seen    []string
}

func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var text strings.Builder
	text.WriteString(r.Method + " " + r.RequestURI + "\n")
	_ = r.Header.Write(&text)
	a.mu.Lock()
	a.seen = append(a.seen, text.String())
	a.mu.Unlock()
	if r.URL.Path == "/missing" {
		http.NotFound(w, r)
		return
	}
	_, _ = io.WriteString(w, a.content)
}

// requests are all that reached the application.
func (a *app) requests() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.seen...)
}
