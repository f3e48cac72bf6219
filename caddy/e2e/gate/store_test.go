package gate

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// atomicPrice is the price in atomic units of USDC.
const atomicPrice = 42_000_000

// storeCaddyfile is an offer on one host. SITES has the gated sites.
const storeCaddyfile = `{
	admin off
	persist_config off
	default_bind 127.0.0.1
	storage file_system {DIR}/storage
	pay_offer {
		ledger {LEDGER}
	}
}
http://localhost:{PORT} {
	pay_offer {
		id shop
		base_url {BASE}
		site_url {SITE}
		rate_limit 1000 1m
		card https://checkout.example/pay {
			payment_link plink_1
			webhook_secret {env.CARD_SECRET}
			since {SINCE}
		}
		usdc base-sepolia {PAYEE} {
			facilitator {FACILITATOR}
			rpc off
		}
	}
	respond 404
}
{SITES}
`

// store is a running server with an offer and gated sites.
type store struct {
	*testing.T
	process     *server.Process
	base, site  string // the origins of the offer and of the gated site
	port        string // where the server listens
	payee       common.Address
	facilitator *payoffertest.Facilitator
	sites, root string
	values      []string // what replaces the braces of the Caddyfile
}

// openStore starts the server. ROOT in the sites is a folder with the files. Replace are pairs of a text in braces and its value.
func openStore(t *testing.T, sites string, files map[string]string, replace ...string) *store {
	t.Helper()
	port := payoffertest.FreePort(t)
	dir := t.TempDir()
	s := &store{
		T: t, base: "http://localhost:" + port, site: "http://site.localhost:" + port, port: port,
		payee: chain.NewAddress(t), facilitator: payoffertest.NewFacilitator(t), sites: sites, root: t.TempDir(),
	}
	for name, content := range files {
		path := filepath.Join(s.root, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	}
	s.values = append(replace, "{LEDGER}", "sqlite "+dir+"/ledger.db", "{DIR}", dir, "{BASE}", s.base, "{SITE}", s.site,
		"{PAYEE}", s.payee.Hex(), "{FACILITATOR}", s.facilitator.URL(), "{ROOT}", s.root,
		"{SINCE}", time.Now().AddDate(0, 0, -7).UTC().Format(time.DateOnly))
	s.process = s.start(port)
	return s
}

// start starts a server of the shop on a port.
func (s *store) start(port string) *server.Process {
	s.Helper()
	text := strings.Replace(storeCaddyfile, "{SITES}", s.sites, 1)
	text = strings.NewReplacer(append([]string{"{PORT}", port}, s.values...)...).Replace(text)
	return server.Start(s, "http://localhost:"+port, text, "CARD_SECRET="+cardSecret)
}

// sell delivers the notice of a card payment and returns the address of its receipt, which the payer's thanks page shows.
func (s *store) sell(id string) string {
	s.Helper()
	event, header := server.CardPaid(id, price, cardSecret)
	return s.sellTo(s.base, id, event, header)
}

func (s *store) sellTo(base, id, event string, header http.Header) string {
	s.Helper()
	anyone := s.visitor()
	a := anyone.do(http.MethodPost, base+"/v1/hook/card", event, header)
	require.Equal(s, http.StatusOK, a.Status, a.Body)
	var arrival struct {
		Payment *struct{ ReceiptURL string }
	}
	// An instance may read the ledger before the payment is there.
	server.Eventually(s, "the thanks page names the receipt", func() bool {
		a := anyone.do(http.MethodGet, base+"/v1/thanks?session_id=cs_"+id, "", nil)
		return a.Status == http.StatusOK && json.Unmarshal([]byte(a.Body), &arrival) == nil && arrival.Payment != nil
	})
	require.NotEmpty(s, arrival.Payment.ReceiptURL)
	return arrival.Payment.ReceiptURL
}

// refund delivers the notice that a card payment was refunded.
func (s *store) refund(id string) {
	s.Helper()
	event := server.CardEvent("charge.refunded", id, `{"id":"ch_`+id+`","object":"charge","payment_intent":"pi_`+id+
		`","currency":"usd","livemode":true,"amount":4200,"amount_captured":4200,"captured":true,"amount_refunded":4200}`)
	a := s.visitor().do(http.MethodPost, s.base+"/v1/hook/card", event, server.CardHeader(event, cardSecret))
	require.Equal(s, http.StatusOK, a.Status, a.Body)
}

// payment is the header of a new x402 payment.
func (s *store) payment() http.Header {
	s.Helper()
	return s.paymentTo(s.payee)
}

func (s *store) paymentTo(payee common.Address) http.Header {
	s.Helper()
	key := lab.Must(crypto.GenerateKey())(s)
	a := chain.NewAuthorization(s, chain.Address(key), payee, atomicPrice)
	return chain.Payment(s, a.Payload(a.Sign(s, key)))
}

// charged is how many payments the facilitator was asked to settle.
func (s *store) charged() int { return len(s.facilitator.Calls(payoffertest.CallSettle)) }

// visitor is a browser or a program, with cookies of its own. It follows no redirect.
type visitor struct {
	*store
	client *http.Client
}

func (s *store) visitor() *visitor { return s.visitorAt(s.port) }

// visitorAt is a visitor who reaches every host at a port of this machine.
func (s *store) visitorAt(port string) *visitor {
	s.Helper()
	jar := lab.Must(cookiejar.New(nil))(s)
	v := &visitor{store: s, client: &http.Client{Jar: jar, Timeout: 2 * server.Patience, CheckRedirect: server.Stay}}
	v.move(port)
	return v
}

// move leads the next requests to another port.
func (v *visitor) move(port string) {
	v.client.Transport = &http.Transport{
		DisableKeepAlives: true, DisableCompression: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+port)
		},
	}
}

func (v *visitor) do(method, url, body string, header http.Header) server.Answer {
	v.Helper()
	a := lab.Must(server.Do(v.client, method, url, body, header))(v)
	return a
}

// send sends a request to the gated site. Headers are pairs of a name and a value.
func (v *visitor) send(method, target string, headers ...string) server.Answer {
	v.Helper()
	header := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		header.Set(headers[i], headers[i+1])
	}
	return v.do(method, v.site+target, "", header)
}

func (v *visitor) get(target string, headers ...string) server.Answer {
	v.Helper()
	return v.send(http.MethodGet, target, headers...)
}

// enter opens the entry of a receipt as a browser does, and returns where it ends.
func (v *visitor) enter(receipt string) (address string, a server.Answer) {
	v.Helper()
	address = receipt + "/enter"
	for range 4 {
		a = v.do(http.MethodGet, address, "", nil)
		if a.Status < 300 || a.Status > 399 {
			break
		}
		from := lab.Must(url.Parse(address))(v)
		to := lab.Must(from.Parse(a.Header.Get("Location")))(v)
		address = to.String()
	}
	return address, a
}

// entered is a visitor who has paid and entered.
func (s *store) entered(id string) *visitor {
	s.Helper()
	v := s.visitor()
	address, a := v.enter(s.sell(id))
	require.NotContains(s, address, "pay_offer=")
	require.NotEqual(s, http.StatusPaymentRequired, a.Status, "%s: %s", address, a.Body)
	return v
}

// requireTerms requires the 402 of a gate, without content.
func requireTerms(t testing.TB, a server.Answer, what string) {
	t.Helper()
	require.Equal(t, http.StatusPaymentRequired, a.Status, "%s: %s", what, a.Body)
	require.NotContains(t, a.Body, secret, what)
	require.NotEmpty(t, a.Header.Get("Payment-Required"), what)
	require.Equal(t, []string{"no-store"}, a.Header.Values("Cache-Control"), what)
	for _, name := range []string{"ETag", "Last-Modified", "Content-Range", "Accept-Ranges", "Set-Cookie"} {
		require.Empty(t, a.Header.Values(name), "%s: %s", what, name)
	}
}

// resource is the address in the terms of a 402.
func resource(t testing.TB, a server.Answer) string {
	t.Helper()
	text := lab.Must(base64.StdEncoding.DecodeString(a.Header.Get("Payment-Required")))(t)
	var terms struct{ Resource struct{ URL string } }
	require.NoError(t, json.Unmarshal(text, &terms))
	return terms.Resource.URL
}

var paymentLink = regexp.MustCompile(`<([^>]+)>; rel="payment"`)

// wayBack follows the button of a 402, pays by card, and returns where the payer enters.
func (v *visitor) wayBack(a server.Answer, id string) string {
	v.Helper()
	link := paymentLink.FindStringSubmatch(strings.Join(a.Header.Values("Link"), ", "))
	require.NotNil(v, link, "%v", a.Header)
	require.Equal(v, http.StatusFound, v.do(http.MethodGet, link[1], "", http.Header{"Accept": {"text/html"}}).Status, link[1])
	address, opened := v.enter(v.sell(id))
	require.NotEqual(v, http.StatusPaymentRequired, opened.Status, address)
	return address
}
