// Package buyer lets the built binary pay: the built server, the reference seller, and sellers that lie.
package buyer

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
)

func TestPayCommandPaysOwnServer(t *testing.T) {
	m := openMarket(t)
	url, payee := m.sell()
	p := newPerson(t, m.Buyers[0])

	dry := p.pay(url, "--dry-run")
	require.Zero(t, dry.code, dry.err)
	require.Contains(t, dry.out, payee.Hex())
	require.NotContains(t, dry.out, chain.Address(p.key).Hex())
	require.Empty(t, p.kept())

	refused := p.pay(url)
	require.Equal(t, 1, refused.code)
	require.Contains(t, refused.err, "there is no terminal to ask on; add --yes to pay without asking")
	require.Empty(t, p.kept())

	got := p.pay(url, "--yes")
	require.Zero(t, got.code, got.err)
	t.Log("\n" + got.out)
	transfer := m.requireOneTransfer(p, payee)
	for _, want := range []string{
		"42 USDC (42 USD)", payee.Hex(), "base-sepolia (eip155:84532), a TEST network", chain.Address(p.key).Hex(),
		"Paid 42 USDC to " + payee.Hex(), transfer.Tx.Hex(), "/v1/receipt/",
	} {
		require.Contains(t, got.out, want)
	}

	again := p.pay(url, "--yes")
	require.Zero(t, again.code, again.err)
	require.Contains(t, again.out, "This was paid before. Nothing is sent now")
	require.Contains(t, again.out, transfer.Tx.Hex())
	m.requireOneTransfer(p, payee)

	anew := p.pay(url, "--yes", "--new", "--json")
	require.Zero(t, anew.code, anew.err)
	require.Len(t, m.TransfersTo(t, payee), 2)
	require.Len(t, p.kept(), 2)
	var printed struct{ Status, Transaction, AmountUSD, Payer, ReceiptURL, SignedReceipt string }
	require.NoError(t, json.Unmarshal([]byte(anew.out), &printed), anew.out)
	require.Equal(t, "paid", printed.Status)
	require.Equal(t, m.TransfersTo(t, payee)[1].Tx.Hex(), printed.Transaction)
	require.Contains(t, printed.ReceiptURL, "/v1/receipt/")
	verified, err := server.Command(t, "", "verify", printed.SignedReceipt)
	require.NoError(t, err, verified)
	require.Contains(t, verified, "VALID receipt: ")
	require.Contains(t, verified, strings.ToLower(chain.Address(p.key).Hex())+" paid for "+url)
	require.Equal(t, []string{"42", chain.Address(p.key).Hex()}, []string{printed.AmountUSD, printed.Payer})
}

func TestPayCommandPaysReferenceSeller(t *testing.T) {
	m := openMarket(t)
	for i, method := range []string{"GET", "POST"} {
		payee := chain.NewAddress(t)
		url := node.StartSeller(t, m.facilitator, payee).URL + "/report"
		p := newPerson(t, m.Buyers[i])
		got := p.pay(url, "--yes", "--method", method)
		require.Zero(t, got.code, got.err)
		t.Log("\n" + got.out)
		require.Contains(t, got.out, m.requireOneTransfer(p, payee).Tx.Hex())
		bought, err := os.ReadFile(p.kept()[0].Answer)
		require.NoError(t, err)
		require.Equal(t, "what was bought", string(bought))
	}
}

func TestConcurrentRunsSignOnce(t *testing.T) {
	m := openMarket(t)
	url, payee := m.sell()
	p := newPerson(t, m.Buyers[0])
	results := make([]result, 6)
	server.Released(t) // built before
	var runs sync.WaitGroup
	for n := range results {
		runs.Go(func() { results[n] = p.pay(url, "--yes") })
	}
	runs.Wait()
	paid := 0
	for _, got := range results {
		switch got.code {
		case 0:
			paid++
		case 75:
			require.Contains(t, got.err, "another run of this command is paying for the same purchase")
		default:
			t.Errorf("%+v", got)
		}
	}
	require.Positive(t, paid)
	m.requireOneTransfer(p, payee)
}

// points are those of a buyer.
func points(t *testing.T) (found []failpoint.Point) {
	t.Helper()
	for _, point := range failpoint.Points() {
		if strings.HasPrefix(string(point), "buy.") {
			found = append(found, point)
		}
	}
	require.NotEmpty(t, found)
	return found
}

func TestKilledAtEachFailpointPaysOnce(t *testing.T) {
	m := openMarket(t)
	for _, point := range points(t) {
		t.Run(string(point), func(t *testing.T) {
			m := &market{t, m.Chain, m.facilitator}
			url, payee := m.sell()
			p := newPerson(t, m.NewBuyer(t))
			p.payKilledAt(point, url, "--yes")
			before := p.kept()
			if point == failpoint.BuySigned {
				require.Empty(t, before, "nothing was kept, and nothing sent")
			} else {
				require.Len(t, before, 1)
			}
			got := p.pay(url, "--yes")
			require.Zero(t, got.code, got.err)
			m.requireOneTransfer(p, payee)
			if len(before) > 0 {
				require.Equal(t, before[0].Nonce, p.kept()[0].Nonce)
			}
			require.Equal(t, "paid", p.kept()[0].State)
			require.Empty(t, p.kept()[0].Header)
			again := p.pay(url, "--yes")
			require.Zero(t, again.code, again.err)
			m.requireOneTransfer(p, payee)
		})
	}
}

// between stands between a buyer and a seller, and is told of each payment before it is passed on and after its answer came.
type between struct {
	*httptest.Server
	sent, answered func()
}

func standBetween(t *testing.T, target *url.URL) *between {
	t.Helper()
	b := &between{sent: func() {}, answered: func() {}}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host})
	}}
	proxy.Transport = lab.WholeBodies
	proxy.ModifyResponse = func(r *http.Response) error {
		if r.Request.Header.Get("PAYMENT-SIGNATURE") != "" {
			b.answered()
		}
		return nil
	}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("PAYMENT-SIGNATURE") != "" {
			b.sent()
			r = r.WithContext(t.Context()) // the payment goes on without its buyer
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(b.Close)
	return b
}

// Killed while the payment is on its way, and while its answer is, against both sellers. The reference seller does not know
// a payment again: the buyer is told no, and no second one is signed.
func TestKilledDuringRequestPaysOnce(t *testing.T) {
	m := openMarket(t)
	for name, seller := range map[string]func(m *market) (string, string, func(p *person)){
		"the binary": func(m *market) (string, string, func(*person)) {
			url, payee := m.sell()
			return url, "POST", func(p *person) { m.requireOneTransfer(p, payee) }
		},
		"the reference seller": func(m *market) (string, string, func(*person)) {
			payee := chain.NewAddress(m)
			return node.StartSeller(m, m.facilitator, payee).URL + "/report", "GET", func(p *person) { m.requireOneTransfer(p, payee) }
		},
	} {
		for _, moment := range []string{"sent", "answered"} {
			t.Run(name+" "+moment, func(t *testing.T) {
				m := &market{t, m.Chain, m.facilitator}
				address, method, requireOne := seller(m)
				target, err := url.Parse(address)
				require.NoError(t, err)
				b := standBetween(t, target)
				p := newPerson(t, m.NewBuyer(t))
				args := []string{b.URL + target.Path, "--yes", "--method", method, "--wait", "20s"}

				var kills atomic.Int64
				command := p.command(server.Released(t), args...)
				kill := func() {
					if kills.Add(1) == 1 {
						_ = command.Process.Kill()
					}
				}
				if moment == "sent" {
					b.sent = kill
				} else {
					b.answered = kill
				}
				got := p.end(command)
				require.Equal(t, -1, got.code, "it was not killed: %+v", got)
				require.Len(t, p.kept(), 1)
				require.Equal(t, "open", p.kept()[0].State)

				again := p.pay(args...)
				if name == "the binary" {
					require.Zero(t, again.code, again.err)
					require.Contains(t, again.out, "/v1/receipt/", "the token of the quote proves that it is the payer")
				} else {
					require.Contains(t, []int{0, 1}, again.code, again.err)
				}
				requireOne(p)
				last := p.pay(args...)
				require.Equal(t, again.code, last.code)
				requireOne(p)
			})
		}
	}
}
