package gate

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

// fortPrice is what the offers cost, 0.42 USDC in atomic units.
const fortPrice = 420_000

// fortCaddyfile has two offers and the sites that they open. In braces and capitals stand what a test fills in.
const fortCaddyfile = `{
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

// fort is the server with its sites, chain and facilitator.
type fort struct {
	*testing.T
	chain       *chain.Chain
	facilitator *payoffertest.Facilitator
	payee       common.Address
	process     *server.Process
	app         *target
	// port has the sites by name, and any the site that answers for all hosts.
	port, any string
	// content is in everything that is behind a gate, and nowhere else.
	content string
	client  *http.Client

	mu sync.Mutex
	// mined, if not nil, is closed when a payment is on the chain; the facilitator then waits for answer.
	mined, answer chan struct{}
}

func openFort(t *testing.T) *fort {
	t.Helper()
	s := &fort{
		T: t, chain: chain.Start(t), facilitator: payoffertest.NewFacilitator(t), payee: chain.NewAddress(t),
		port: payoffertest.FreePort(t), any: payoffertest.FreePort(t), content: "CONTENT" + rand.Text(),
	}
	s.facilitator.OnBroadcast(s.settle)
	s.app = &target{content: s.content}
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
		"{APP}", upstream.URL, "{FILES}", files.URL).Replace(fortCaddyfile))
	server.Eventually(t, "the chain is read", func() bool {
		a, err := server.Do(s.client, "GET", s.url("members", "/v1/received"), "", nil)
		return err == nil && observed.MatchString(a.Body)
	})
	return s
}

// writeFiles makes a folder that is gated in part.
func (f *fort) writeFiles(root string) {
	f.Helper()
	for name, text := range map[string]string{
		"paid/index.html": f.content, "paid/secret.txt": f.content, "paid/secret.txt.gz": f.content, "paid/in/deep.txt": f.content,
		"paid/list/secret.txt": f.content, "open/open.txt": "open", "index.html": "open",
	} {
		path := filepath.Join(root, filepath.FromSlash(name))
		require.NoError(f, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(f, os.WriteFile(path, []byte(text), 0o644))
	}
}

var errReverted = errors.New("the transaction was reverted")

// settle is what the facilitator does. It runs beside the test's goroutine.
func (f *fort) settle(asked payoffertest.Settlement) (string, error) {
	hash, err := f.chain.Broadcast(f, asked)
	if err != nil {
		return "", err
	}
	for deadline := time.Now().Add(server.Patience); !f.chain.Succeeded(f, hash); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			return "", errReverted
		}
	}
	f.mu.Lock()
	mined, answer := f.mined, f.answer
	f.mined = nil
	f.mu.Unlock()
	if mined != nil {
		close(mined)
		<-answer
	}
	return hash.Hex(), nil
}

// url is an address of a site.
func (f *fort) url(site, path string) string {
	if site == "any" {
		return "http://any.localhost:" + f.any + path
	}
	if site == "members" {
		return "http://localhost:" + f.port + path
	}
	return "http://" + site + ".localhost:" + f.port + path
}

// ask sends a request. It may run beside the test's goroutine.
func (f *fort) ask(method, url string, header http.Header) server.Answer {
	a, err := server.Do(f.client, method, url, "", header)
	if err != nil {
		a.Body = err.Error()
	}
	return a
}

// charges are the transfers to the payee of the gated offer.
func (f *fort) charges() int { return len(f.chain.TransfersTo(f, f.payee)) }

// requireClosed requires that an answer has nothing that only a payer may have.
func (f *fort) requireClosed(a server.Answer, what string) {
	f.Helper()
	text := a.Body
	for name, values := range a.Header {
		text += "\n" + name + ": " + strings.Join(values, "\n")
	}
	require.NotZero(f, a.Status, what+": "+a.Body)
	for _, secret := range []string{f.content, "/v1/receipt/", "/enter", "Set-Cookie", `receiptUrl":`, `receiptUrl\":`, `access":`, `access\":`} {
		before, after, found := strings.Cut(text, secret)
		require.False(f, found, "%s: …%s %s %.100s", what, before[max(0, len(before)-100):], secret, after)
	}
}

// target is an application behind a gate, which notes everything that reaches it.
type target struct {
	content string
	mu      sync.Mutex
	seen    []string
}

func (t *target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var text strings.Builder
	text.WriteString(r.Method + " " + r.RequestURI + "\n")
	_ = r.Header.Write(&text)
	t.mu.Lock()
	t.seen = append(t.seen, text.String())
	t.mu.Unlock()
	if r.URL.Path == "/missing" {
		http.NotFound(w, r)
		return
	}
	_, _ = io.WriteString(w, t.content)
}

// requests are all that reached the application.
func (t *target) requests() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.seen...)
}
