package reload

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// railState is how well a rail is observed.
type railState struct {
	Rail, State                string
	ObservedThrough, LastError string
}

// rails reads the states of a report of /v1/received.
func rails(report string) (states []railState) {
	var read struct{ Rails []railState }
	if json.Unmarshal([]byte(report), &read) != nil {
		return nil
	}
	return read.Rails
}

// awaitHealth returns when both offers know how their rails and their facilitators are: all is well with the one; of the
// other the chain is unreachable, and the circuit of its facilitator is open, which from then on answers nobody.
func (s *shop) awaitHealth() {
	s.Helper()
	server.Eventually(s, "the chains are read", func() bool {
		shop := rails(server.Ask(server.Client, http.MethodGet, s.url+"/v1/received", "", nil).Body)
		troubled := rails(server.Ask(server.Client, http.MethodGet, s.troubled+"/v1/received", "", nil).Body)
		return len(shop) == 5 && shop[1].State == "observed" && shop[2].State == "observed" &&
			shop[1].ObservedThrough == fmt.Sprintf("block %d", s.chain.Head()) &&
			len(troubled) == 2 && troubled[1].LastError == "unreachable"
	})
	server.Eventually(s, "the facilitators are known", func() bool {
		up := s.facilitatorsUp()
		return up[s.facilitator.URL()] == "1" && up[s.broken.URL()] == "0"
	})
	s.broken.Script(payoffertest.CallSupported, payoffertest.FacilitatorReply{Fault: payoffertest.FaultHang})
}

var facilitatorUp = regexp.MustCompile(`(?m)^caddy_pay_offer_facilitator_up\{host="([^"]+)",network="eip155:84532"\} (\S+)$`)

// facilitatorsUp is the metric by the facilitator's address.
func (s *shop) facilitatorsUp() map[string]string {
	s.Helper()
	up := make(map[string]string)
	for _, found := range facilitatorUp.FindAllStringSubmatch(server.Get(s, "http://"+s.admin+"/metrics", ""), -1) {
		up["http://"+found[1]] = found[2]
	}
	return up
}

// exhausted is a client that has used its attempts to pay up.
type exhausted struct {
	shop   *shop
	client *http.Client
}

// exhaust makes one. Its buyers have no money, and the facilitator says so.
func (s *shop) exhaust() exhausted {
	s.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	e := exhausted{s, &http.Client{Timeout: server.Patience, Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}}
	s.facilitator.Script(payoffertest.CallVerify, payoffertest.FacilitatorReply{Reason: "insufficient_funds"})
	defer s.facilitator.Script(payoffertest.CallVerify)
	for range 10 {
		require.Equal(s, http.StatusPaymentRequired, e.pays())
	}
	require.Equal(s, http.StatusTooManyRequests, e.pays())
	return e
}

// pays is the status that one more attempt gets.
func (e exhausted) pays() int { return e.shop.pay(e.client, e.shop.sign(chain.NewKey(e.shop))).Status }

// state is what a reload must not change.
type state struct {
	limited        int               // the status of a client that has used its attempts up
	facilitators   map[string]string // whether they are asked, by address
	shop, troubled []railState
	bitcoin        string // the address of the extended key
}

var bitcoinAddress = regexp.MustCompile(`bitcoin:(\w+)`)

// state reads it.
func (s *shop) state(e exhausted) state {
	s.Helper()
	body := func(url string) string { return server.Ask(server.Client, http.MethodGet, url, "", nil).Body }
	return state{
		// What is asked first has the least time to recover.
		shop: rails(body(s.url + "/v1/received")), troubled: rails(body(s.troubled + "/v1/received")),
		facilitators: s.facilitatorsUp(), bitcoin: bitcoinAddress.FindString(body(s.url + "/v1/pay/btc.uri")), limited: e.pays(),
	}
}

// removedCaddyfile has one offer whose settlements no chain proves. {OFFER} is offerBlock, or nothing.
const removedCaddyfile = `{
	admin 127.0.0.1:{ADMIN}
	persist_config off
	default_bind 127.0.0.1
	{LEDGER}
}
http://localhost:{PORT} {
	{OFFER}
	respond 404
}
`

const offerBlock = `pay_offer {
		base_url http://localhost:{PORT}
		description "{DESCRIPTION}"
		card https://checkout.example/pay
		usdc base-sepolia {PAYEE} {
			facilitator {FACILITATOR} {
				timeout 1m
			}
			rpc off
		}
	}`

// The first reload changes the offer and the second removes it while the facilitator has not answered yet. The payment is
// recorded all the same, and the offer that a third reload puts back goes on with it.
func TestAPaymentIsRecordedAlthoughItsOfferIsRemovedMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		hangs string
		// back says that the offer is put back before the facilitator answers.
		back bool
	}{
		"during verify":                         {payoffertest.CallVerify, false},
		"during settle":                         {payoffertest.CallSettle, false},
		"during verify, and put back meanwhile": {payoffertest.CallVerify, true},
		"during settle, and put back meanwhile": {payoffertest.CallSettle, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port, admin := payoffertest.FreePort(t), payoffertest.FreePort(t)
			s := &shop{
				T: t, url: "http://localhost:" + port, admin: "127.0.0.1:" + admin, payee: chain.NewAddress(t),
				chain: &chain.Chain{Network: chain.BaseSepolia}, facilitator: payoffertest.NewFacilitator(t),
			}
			config := func(offer, description string) string {
				ledger := ""
				if offer != "" {
					ledger = "pay_offer {\n\t\tledger sqlite " + s.path("ledger.db") + "\n\t}"
				}
				return strings.NewReplacer("{ADMIN}", admin, "{PORT}", port, "{PAYEE}", s.payee.Hex(), "{FACILITATOR}", s.facilitator.URL(), "{DESCRIPTION}", description).
					Replace(strings.NewReplacer("{LEDGER}", ledger, "{OFFER}", offer).Replace(removedCaddyfile))
			}
			s.dir = t.TempDir()
			s.facilitator.Script(c.hangs, payoffertest.FacilitatorReply{Fault: payoffertest.FaultHang})
			server.Start(t, s.url, config(offerBlock, "First words."))
			payment, paid := s.sign(chain.NewKey(t)), make(chan server.Answer, 1)
			go func() { paid <- s.pay(server.Client, payment) }()
			s.facilitator.Await(c.hangs, 1)

			s.reload(config(offerBlock, "Other words."))
			s.reload(config("", ""))
			server.Eventually(s, "the offer is removed", func() bool {
				return server.Ask(server.Client, http.MethodGet, s.url+"/v1/quote", "", nil).Status == http.StatusNotFound
			})
			if c.back {
				s.reload(config(offerBlock, "First words."))
			}
			s.facilitator.Release()
			first := <-paid
			require.NotEmpty(t, transaction(first), "%d: %s", first.Status, first.Body)
			if !c.back {
				s.reload(config(offerBlock, "First words."))
			}

			server.Eventually(s, "the ledger is read", func() bool {
				return server.Ask(server.Client, http.MethodGet, s.url+"/v1/received", "", nil).Status == http.StatusOK
			})
			again := s.pay(server.Client, payment)
			require.Equal(t, transaction(first), transaction(again), "%d: %s", again.Status, again.Body)
			require.Len(t, s.facilitator.Calls(payoffertest.CallSettle), 1)
		})
	}
}
