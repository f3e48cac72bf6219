// Package pay buys what a gate guards, on two host names with TLS: people in Chromium by card and by wallet, payers whose
// transfer the seller records, and agents with the official clients.
package pay

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

const cardSecret = "whsec_of_the_card_rail_0123"

// hosts are the global options of a server with two host names.
const hosts = `{
	admin 127.0.0.1:{ADMIN}
	persist_config off
	storage file_system {DIR}/storage
	skip_install_trust
	grace_period 1s
	default_bind 127.0.0.1
	http_port {HTTP}
	https_port {HTTPS}
	servers {
		protocols h1 h2
	}
	pay_offer {
		ledger sqlite {DIR}/ledger.db
	}
}
`

// caddyfile is an offer and the site that it opens. In braces and capitals stand what a test fills in.
const caddyfile = hosts + `
pay.localhost {
	tls internal
	pay_offer {
		base_url https://pay.localhost:{HTTPS}
		site_url https://shop.localhost:{HTTPS}
		id shop
		name "The course"
		operator "Example Studio"
		description "Twelve lessons on bread."
		rate_limit 100 1m
		card {CHECKOUT} {
			payment_link plink_1
			webhook_secret {env.CARD_SECRET}
		}
		usdc base-sepolia {PAYEE} {
			facilitator {FACILITATOR}
			rpc {RPC}
			confirm latest
		}
		bank_transfer transfer pay@example.org
	}
	respond 404
}
shop.localhost {
	tls internal
	pay_offer_gate /members/* {
		start /members/
	}
	pay_offer_gate /report/* {
		start /report/daily
	}
	pay_offer_gate /upfront/* {
		start /upfront/daily
		charge first
	}
	header /members/* Content-Type text/html
	respond /members/* "<!doctype html><title>The course</title><main>` + inside + `</main>"
	respond /report/* "` + inside + `"
	respond /upfront/* "` + inside + `"
	respond 404
}
`

// inside is what a gate guards: it says who asks for what.
const inside = "You are inside: {http.request.method} {http.request.uri}, paid by {http.pay_offer.rail}, {http.pay_offer.payment}."

// shop is a running server, and what it needs of the world.
type shop struct {
	*testing.T
	process     *server.Victim
	chain       *chain.Chain
	payee       common.Address
	pay, site   string // origins
	https       string // the port
	admin       string
	authority   string // the file of the certificate that clients must trust
	environment []string
}

// openShop starts everything.
func openShop(t *testing.T) *shop {
	t.Helper()
	s := newShop(t)
	s.chain, s.payee = chain.Start(t), chain.NewAddress(t)
	checkout := httptest.NewServer(http.HandlerFunc(s.checkout))
	t.Cleanup(checkout.Close)
	s.environment = []string{"CARD_SECRET=" + cardSecret}
	s.start(server.Released(t), strings.NewReplacer("{CHECKOUT}", checkout.URL, "{PAYEE}", s.payee.Hex(),
		"{FACILITATOR}", node.StartFacilitator(t, s.chain.URL, s.chain.Facilitator), "{RPC}", s.chain.URL).Replace(caddyfile))
	return s
}

func newShop(t *testing.T) *shop {
	https := payoffertest.FreePort(t)
	return &shop{T: t, https: https, pay: "https://pay.localhost:" + https, site: "https://shop.localhost:" + https, admin: "127.0.0.1:" + payoffertest.FreePort(t)}
}

// start runs a binary with a Caddyfile.
func (s *shop) start(binary, caddyfile string) {
	s.Helper()
	folder := s.TempDir()
	_, admin, _ := net.SplitHostPort(s.admin)
	s.authority = filepath.Join(folder, "storage/pki/authorities/local/root.crt")
	s.process = server.NewVictimOf(s, binary, s.pay, strings.NewReplacer(
		"{ADMIN}", admin, "{DIR}", folder, "{HTTP}", payoffertest.FreePort(s), "{HTTPS}", s.https).Replace(caddyfile))
	s.restart()
}

// restart starts the server again on its files, after a crash if it runs.
func (s *shop) restart() {
	s.Helper()
	s.process.Kill()
	s.process.Launch(s, s.environment...)
	server.Eventually(s, "both hosts answer", func() bool {
		select {
		case <-s.process.Ended():
			s.Fatal("the server ended")
		default:
		}
		service, err := s.do(http.MethodGet, s.pay+"/v1/received", "", nil)
		_, failed := s.do(http.MethodGet, s.site+"/", "", nil)
		return err == nil && failed == nil && service.Status == http.StatusOK
	})
}

// do sends a request by TLS, to this machine whatever the host is.
func (s *shop) do(method, url, body string, header http.Header) (server.Answer, error) {
	pool := x509.NewCertPool()
	if authority, err := os.ReadFile(s.authority); err == nil {
		pool.AppendCertsFromPEM(authority)
	}
	return server.Do(&http.Client{CheckRedirect: server.Stay, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+s.https)
		},
	}}, method, url, body, header)
}

// checkout is the page of the card processor. It delivers a payment, and leads back.
func (s *shop) checkout(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<!doctype html><title>Checkout</title><main><form method="post"><button>Pay</button></form></main>`)
		return
	}
	session := "live_" + rand.Text()
	event, header := server.CardPaid(session, 4200, cardSecret)
	if a, err := s.do(http.MethodPost, s.pay+"/v1/hook/card", event, header); err != nil || a.Status != http.StatusOK {
		http.Error(w, "the webhook was not taken", http.StatusBadGateway)
		return
	}
	http.Redirect(w, r, s.pay+"/v1/thanks?session_id=cs_"+session, http.StatusSeeOther)
}

// record enters a bank transfer as the seller does, and returns the address of its receipt, which the command prints.
func (s *shop) record() string {
	s.Helper()
	output, err := server.Command(s, "", "record", "--address", s.admin, "--rail", "transfer", "--reference", "INV-7", "--amount", "42")
	require.NoError(s, err, output)
	receipt := regexp.MustCompile(regexp.QuoteMeta(s.pay) + `/v1/receipt/\S+`).FindString(output)
	require.NotEmpty(s, receipt, output)
	return receipt
}

// said is what a request gets behind the gate.
func said(method, uri, rail string) string {
	return fmt.Sprintf("You are inside: %s %s, paid by %s, ", method, uri, rail)
}
