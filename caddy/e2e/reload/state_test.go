package reload

import (
	"context"
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

// The process is asked to leave while the facilitator is at work. It waits for the outcome and writes it, whether or not
// the buyer is still there, and the next process knows it.
func TestStopWaitsForSettlement(t *testing.T) {
	for name, leaves := range map[string]bool{"the buyer waits": false, "the buyer has left": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t, "")
			release, payment := s.hold(), s.sign(s.chain.Buyers[0])
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/sponsor", nil)
			require.NoError(t, err)
			request.Header = payment
			status := make(chan int, 1)
			go func() {
				a, err := server.Client.Do(request)
				if err != nil {
					status <- 0
					return
				}
				_ = a.Body.Close()
				status <- a.StatusCode
			}()
			s.facilitator.Await(payoffertest.CallSettle, 1)
			want := http.StatusOK
			if leaves {
				leave()
				want = 0
			}
			s.process.Terminate()
			server.Eventually(t, "the port is closed", func() bool {
				conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
				if err == nil {
					_ = conn.Close()
				}
				return err != nil
			})
			require.Empty(t, s.chain.TransfersTo(t, s.payee))
			release()
			s.process.Await(t)
			require.Equal(t, want, <-status)

			server.Start(t, s.url, s.config(descriptions[1], ""), s.env...)
			again := s.pay(server.Client, payment)
			require.Equal(t, http.StatusOK, again.Status, again.Body)
			s.requireCharged([]string{transaction(again)})
			require.Len(t, s.facilitator.Calls(payoffertest.CallSettle), 1)
		})
	}
}
