package reload

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"strconv"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
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

// withoutPlace leaves out how far each source is read.
func withoutPlace(states []railState) []railState {
	out := make([]railState, len(states))
	for i, state := range states {
		state.ObservedThrough = ""
		out[i] = state
	}
	return out
}

// awaitHealth returns when both offers know how their rails and their facilitators are: all is well with the one; of the
// other the chain is unreachable, and the circuit of its facilitator is open, which from then on answers nobody.
func (s *shop) awaitHealth() {
	s.Helper()
	s.eventually("the chains are read", func() bool {
		shop := rails(ask(loopback, http.MethodGet, s.url+"/v1/received", "", nil).body)
		troubled := rails(ask(loopback, http.MethodGet, s.troubled+"/v1/received", "", nil).body)
		return len(shop) == 5 && shop[1].State == "observed" && shop[2].State == "observed" &&
			shop[1].ObservedThrough == fmt.Sprintf("block %d", s.chain.Head()) &&
			len(troubled) == 2 && troubled[1].LastError == "unreachable"
	})
	s.eventually("the facilitators are known", func() bool {
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
	for _, found := range facilitatorUp.FindAllStringSubmatch(s.get(s.admin+"/metrics"), -1) {
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
	e := exhausted{s, newClient("127.0.0.2", false)}
	s.facilitator.Script(payoffertest.CallVerify, payoffertest.FacilitatorReply{Reason: "insufficient_funds"})
	defer s.facilitator.Script(payoffertest.CallVerify)
	for range 10 {
		require.Equal(s, http.StatusPaymentRequired, e.pays())
	}
	require.Equal(s, http.StatusTooManyRequests, e.pays())
	return e
}

// pays is the status that one more attempt gets.
func (e exhausted) pays() int { return e.shop.pay(e.client, e.shop.sign(chain.NewKey(e.shop))).status }

// state is what a reload must not change.
type state struct {
	limited        int               // the status of a client that has used its attempts up
	facilitators   map[string]string // whether they are asked, by address
	shop, troubled []railState
	bitcoin        string // the address of the extended key
}

// withoutPlace leaves out what every block changes.
func (s state) withoutPlace() state {
	s.shop, s.troubled = withoutPlace(s.shop), withoutPlace(s.troubled)
	return s
}

var bitcoinAddress = regexp.MustCompile(`bitcoin:(\w+)`)

// state reads it.
func (s *shop) state(e exhausted) state {
	s.Helper()
	body := func(url string) string { return ask(loopback, http.MethodGet, url, "", nil).body }
	return state{
		// What is asked first has the least time to recover.
		shop: rails(body(s.url + "/v1/received")), troubled: rails(body(s.troubled + "/v1/received")),
		facilitators: s.facilitatorsUp(), bitcoin: bitcoinAddress.FindString(body(s.url + "/v1/pay/btc.uri")), limited: e.pays(),
	}
}

// resources are what a process may leak.
type resources struct{ goroutines, files int }

var goroutines = regexp.MustCompile(`^goroutine profile: total (\d+)`)

// resources counts those of the server, when they have come to rest: two counts are equal.
func (s *shop) resources() (r resources) {
	s.Helper()
	before := resources{}
	s.eventually("the server has come to rest", func() bool {
		found := goroutines.FindStringSubmatch(s.get(s.admin + "/debug/pprof/goroutine?debug=1"))
		require.NotNil(s, found)
		count, err := strconv.Atoi(found[1])
		require.NoError(s, err)
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.process.Pid()))
		require.NoError(s, err)
		before, r = r, resources{count, len(files)}
		return r == before
	})
	return r
}

// compare notes what a reload has changed.
func (f *findings) compare(reload int, before, now state) {
	for what, pair := range map[string][2]any{
		"the rate limit":                  {before.limited, now.limited},
		"the circuits":                    {before.facilitators, now.facilitators},
		"the rails of the shop":           {before.shop, now.shop},
		"the rails of the troubled offer": {before.troubled, now.troubled},
		"the address of the extended key": {before.bitcoin, now.bitcoin},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			f.add(what+" right after a reload", fmt.Sprintf("after reload %d: %+v instead of %+v", reload, pair[1], pair[0]))
		}
	}
}
