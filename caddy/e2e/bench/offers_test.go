package bench

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// counts are the numbers of offers that a server has.
var counts = []int{1, 100}

// rest is how long a server is looked at that nobody asks for anything.
const rest = 10 * time.Second

// repeats is how often a server with many offers is started: a third of the rounds, since each takes long.
func repeats() int { return (*rounds + 2) / 3 }

const (
	manyGlobal = `{
	admin 127.0.0.1:{ADMIN}
	persist_config off
	default_bind 127.0.0.1
	storage file_system {DIR}
	{GLOBAL}
}
`
	manyOffer = `http://{HOST} {
	pay_offer {
		base_url http://{HOST}
		card https://checkout.example/pay
		usdc base-sepolia {PAYEE} {
			facilitator {FACILITATOR}
			rpc {RPC}
			confirm latest
		}
		rate_limit 10000 1s
	}
	respond 404
}
`
	manyPlain = "http://{HOST} {\n\trespond \"an answer\"\n}\n"
)

// many is a server with many sites.
type many struct {
	count                     int
	port, admin, folder, site string
	binary, global            string
	values                    []string
}

// host is that of a site, counted from 0.
func (m *many) host(n int) string { return fmt.Sprintf("o%d.localhost:%s", n, m.port) }

// caddyfile has all of its sites.
func (m *many) caddyfile() string {
	var out strings.Builder
	replace := func(text string, values ...string) {
		_, _ = strings.NewReplacer(append(values, m.values...)...).WriteString(&out, text) // into memory
	}
	replace(manyGlobal, "{ADMIN}", m.admin, "{DIR}", m.folder, "{GLOBAL}", m.global)
	for n := range m.count {
		replace(m.site, "{HOST}", m.host(n), "{PAYEE}", fmt.Sprintf("0x%040x", 0xa11ce<<20+n))
	}
	return strings.ReplaceAll(out.String(), "{DIR}", m.folder)
}

// newMany prepares a server of the plugin with many offers.
func newMany(t testing.TB, count int, ledger, facilitator, rpc string) *many {
	return &many{
		count: count, port: payoffertest.FreePort(t), admin: payoffertest.FreePort(t), folder: t.TempDir(), site: manyOffer, binary: server.Released(t),
		global: "pay_offer {\n\t\tledger " + ledger + "\n\t}", values: []string{"{FACILITATOR}", facilitator, "{RPC}", rpc},
	}
}

// newManyPlain prepares a Caddy with as many sites that have a respond each.
func newManyPlain(t testing.TB, count int) *many {
	binary, output, err := bareCaddy.Path(t)
	require.NoError(t, err, "%s", output)
	return &many{count: count, port: payoffertest.FreePort(t), admin: payoffertest.FreePort(t), folder: t.TempDir(), site: manyPlain, binary: binary}
}

// life is what a server with many sites costs.
type life struct {
	start, reload []float64 // seconds until all sites answer, and of the reloads
	memory        []float64 // MB after three reloads
	rest          []float64 // percent of a processor
}

// live starts the server, reloads it three times, and lets it rest.
func (m *many) live(b *testing.B, l *life) {
	caddyfile := m.caddyfile()
	s := launch(b, m.binary, m.folder, caddyfile)
	defer s.stop()
	connection := s.opens(m.port)
	require.NotNil(b, connection, "the server does not start")
	for n := range m.count {
		at := connection.at(m.host(n))
		require.True(b, s.until(at.reads), "%s never answers", at.host)
	}
	l.start = append(l.start, time.Since(s.began).Seconds())
	for range 3 {
		began := time.Now()
		a := lab.Must(server.Load("127.0.0.1:"+m.admin, caddyfile))(b)
		require.Equal(b, http.StatusOK, a.Status)
		l.reload = append(l.reload, time.Since(began).Seconds())
	}
	l.memory = append(l.memory, float64(lab.Resident(b, s.pid))/(1<<20))
	time.Sleep(rest / 5) // what a reload leaves to do
	before := processorTime(b, s.pid)
	time.Sleep(rest)
	l.rest = append(l.rest, 100*(processorTime(b, s.pid)-before).Seconds()/rest.Seconds())
}

// reads reports whether the offer of the lane's host reads its ledger; any site that is none does.
func (l *lane) reads() bool {
	status, err := l.send(get(offer.PathReceived).bytes(l.host))
	return err == nil && status != http.StatusServiceUnavailable
}

// measureOffers shows what the number of offers costs, beside as many sites of a plain Caddy. All offers are on one chain,
// which is read, with one facilitator.
func measureOffers(b *testing.B, t *table) {
	f, simulated := startFacilitator(b, latency), chain.Start(b)
	rpc, asked := counted(b, simulated.URL)
	for _, count := range counts {
		var ours, plain life
		questions := asked.Load()
		for range repeats() {
			newMany(b, count, "sqlite {DIR}/ledger.db", f.url, rpc).live(b, &ours)
			newManyPlain(b, count).live(b, &plain)
		}
		questions = asked.Load() - questions
		figure, start, idle := fmt.Sprintf("%d offers: ", count), "≤ 1", ""
		if count == 1 {
			figure, start, idle = "1 offer: ", "", "< 0.1"
		}
		t.add(figure+"start, seconds", spreadOf(ours.start), start, number(spreadOf(plain.start).median)+" of plain Caddy")
		t.add(figure+"reload with nothing changed, seconds", spreadOf(ours.reload), "", number(spreadOf(plain.reload).median)+" of plain Caddy")
		t.add(figure+"memory after three reloads, MB", spreadOf(ours.memory), "", number(spreadOf(plain.memory).median)+" of plain Caddy")
		t.add(figure+"at rest, percent of a processor", spreadOf(ours.rest), idle,
			fmt.Sprintf("%s of plain Caddy; the chain was asked %d times in all", number(spreadOf(plain.rest).median), questions/int64(repeats())))
	}
}

// counted is a way to a server that counts the requests.
func counted(t testing.TB, target string) (address string, asked *atomic.Int64) {
	t.Helper()
	to := lab.Must(url.Parse(target))(t)
	asked, proxy := new(atomic.Int64), httputil.NewSingleHostReverseProxy(to)
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) } // who asked has left
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return front.URL, asked
}
