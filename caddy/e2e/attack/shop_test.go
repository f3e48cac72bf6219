package attack

import (
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// rail is where a shop takes payments.
type rail struct {
	network string
	// rpc is where the chain is read, or "off".
	rpc string
	// facilitators settle.
	facilitators []string
}

// shop is the built server with an offer, behind a proxy that tells from where its buyers come.
type shop struct {
	*market
	payee             common.Address
	url, path, config string
	chains            int // that are read
	process           *server.Process
	// client keeps its connections: a buyer who hangs up is in doubt.
	client *http.Client
}

const caddyfile = `{
	admin off
	persist_config off
	default_bind 127.0.0.1
	servers {
		trusted_proxies static 127.0.0.1
	}
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
		rate_limit {LIMIT}
		card https://checkout.example/pay
{RAILS}	}
	pay_offer_gate /members/* {
		start /members/
	}
	respond /members/* "the content"
	respond 404
}
`

// Limits of the attempts of one address: that of an offer which sets none, and one that nobody reaches.
const (
	usual     = "10 1m"
	unlimited = "1000 1m"
)

// openShop starts the server.
func openShop(m *market, payee common.Address, limit string, rails ...rail) *shop {
	m.Helper()
	port := payoffertest.FreePort(m)
	s := &shop{market: m, payee: payee, url: "http://localhost:" + port, path: filepath.Join(m.TempDir(), "ledger.db")}
	var text strings.Builder
	for _, r := range rails {
		text.WriteString("\t\tusdc " + r.network + " " + payee.Hex() + " {\n")
		for _, facilitator := range r.facilitators {
			text.WriteString("\t\t\tfacilitator " + facilitator + " {\n\t\t\t\ttimeout 10s\n\t\t\t}\n")
		}
		text.WriteString("\t\t\trpc " + r.rpc + "\n")
		if r.rpc != "off" {
			text.WriteString("\t\t\tconfirm latest\n")
			s.chains++
		}
		text.WriteString("\t\t}\n")
	}
	s.config = strings.NewReplacer("{LEDGER}", s.path, "{PORT}", port, "{PRICE}", dollars, "{LIMIT}", limit, "{RAILS}", text.String()).
		Replace(caddyfile)
	s.open()
	return s
}

// open starts the server, also again on the same ledger, and waits until the chains are read.
func (s *shop) open() {
	s.Helper()
	s.process = server.Start(s, s.url, s.config)
	s.client = &http.Client{Transport: new(http.Transport), Timeout: 2 * time.Minute}
	s.Cleanup(s.client.CloseIdleConnections)
	// Caddy may open the port before the ledger.
	s.eventually("the chains are read", func() bool {
		report, err := s.received()
		unread := s.chains
		for _, r := range report.Rails {
			if r.ObservedThrough != "" {
				unread--
			}
		}
		return err == nil && unread == 0
	})
}

// byEach runs a test for each transport at the same time, all in this shop.
func (s *shop) byEach(test func(s *shop, name string, send transport)) {
	for name, send := range transports {
		buyer := s.buyer()
		s.Run(name, func(t *testing.T) {
			t.Parallel()
			own := *s
			own.market = &market{T: t, ground: s.ground, buyers: []*ecdsa.PrivateKey{buyer}}
			test(&own, name, send)
		})
	}
}

// railReport is what the shop reports of a rail.
type railReport struct {
	ObservedThrough string
}

// received asks for the report of what was received.
func (s *shop) received() (report struct{ Rails []railReport }, err error) {
	answer, err := s.client.Get(s.url + "/v1/received")
	if err != nil {
		return report, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return report, errors.New(answer.Status)
	}
	return report, json.NewDecoder(answer.Body).Decode(&report)
}

// close stops the server and waits until it is gone.
func (s *shop) close() {
	s.Helper()
	s.process.Terminate()
	s.process.Await(s)
}

// payee is an account that nobody has used.
func (m *market) payee() common.Address {
	m.Helper()
	return chain.Address(m.stranger())
}

// eventually polls until done, which must not take long.
func (m *market) eventually(what string, done func() bool) {
	m.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(100 * time.Millisecond) {
		require.False(m, time.Now().After(deadline), "not in time: %s", what)
	}
}
