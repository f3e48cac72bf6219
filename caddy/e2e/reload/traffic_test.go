package reload

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// plainCaddyfile is a site of Caddy alone.
const plainCaddyfile = `{
	admin 127.0.0.1:{ADMIN}
	persist_config off
	default_bind 127.0.0.1
}
http://localhost:{PORT} {
	respond "{DESCRIPTION}"
}
`

// traffic counts what clients get that ask without a pause.
type traffic struct{ answered, unanswered, wrong atomic.Int64 }

// ask asks for the paths until it is stopped. right reports whether an answer is one of the offer.
func (tr *traffic) ask(t *testing.T, url string, paths []string, right func(path string, a server.Answer) bool) (stop func()) {
	var stopped atomic.Bool
	var clients sync.WaitGroup
	for n := range 4 {
		clients.Go(func() {
			for i := n; !stopped.Load(); i++ {
				path := paths[i%len(paths)]
				a, err := server.Do(server.Client, http.MethodGet, url+path, "", nil)
				switch {
				case err != nil:
					tr.unanswered.Add(1)
				case !right(path, a):
					if tr.wrong.Add(1) == 1 {
						t.Errorf("%s: %d: %s", path, a.Status, a.Body)
					}
				default:
					tr.answered.Add(1)
				}
			}
		})
	}
	return func() {
		stopped.Store(true)
		clients.Wait()
	}
}

// awaitMore returns when more was answered, so that each configuration answers.
func (tr *traffic) awaitMore(t *testing.T) {
	before := tr.answered.Load()
	server.Eventually(t, "more answers", func() bool { return tr.answered.Load() > before+20 })
}

// Under traffic each answer during reloads is right, and connections are reset no more often than those of a plain Caddy.
func TestReloadUnderTraffic(t *testing.T) {
	const reloads = 60
	s := openShop(t, "")
	address := s.state(exhausted{shop: s, client: server.Client}).bitcoin
	status := map[string]int{"/v1/quote": http.StatusPaymentRequired, "/v1/invoice": http.StatusOK, "/v1/pay": http.StatusOK,
		"/v1/received": http.StatusOK, "/v1/pay/btc.uri": http.StatusOK, "/v1/pay/usdc.uri": http.StatusOK, "/.well-known/did.json": http.StatusOK}
	contains := map[string]string{"/v1/quote": strings.ToLower(s.payee.Hex()), "/v1/invoice": address, "/v1/received": `"rail":"btc","state":"observed"`,
		"/v1/pay/btc.uri": address, "/.well-known/did.json": "publicKeyJwk"}
	var paths []string
	for path := range status {
		paths = append(paths, path)
	}
	right := func(path string, a server.Answer) bool {
		return a.Status == status[path] && strings.Contains(strings.ToLower(strings.ReplaceAll(a.Body, " ", "")), strings.ToLower(contains[path]))
	}
	for _, path := range paths {
		a := server.Ask(server.Client, http.MethodGet, s.url+path, "", nil)
		require.True(t, right(path, a), "%s: %d: %s", path, a.Status, a.Body)
	}
	var ours, plain traffic
	stop := ours.ask(t, s.url, paths, right)
	for n := range reloads {
		s.reload(s.config(descriptions[n%2], ""))
		ours.awaitMore(t)
	}
	stop()

	port, admin := payoffertest.FreePort(t), payoffertest.FreePort(t)
	config := func(description string) string {
		return strings.NewReplacer("{ADMIN}", admin, "{PORT}", port, "{DESCRIPTION}", description).Replace(plainCaddyfile)
	}
	server.Start(t, "http://localhost:"+port, config("First words."))
	stop = plain.ask(t, "http://localhost:"+port, []string{"/"}, func(_ string, a server.Answer) bool { return a.Status == http.StatusOK })
	for n := range reloads {
		a := lab.Must(server.Load("127.0.0.1:"+admin, config(descriptions[n%2])))(t)
		require.Equal(t, http.StatusOK, a.Status, a.Body)
		plain.awaitMore(t)
	}
	stop()
	require.Zero(t, ours.wrong.Load())
	t.Logf("%d reloads: %d answers and %d unanswered requests, of a plain Caddy %d and %d",
		reloads, ours.answered.Load(), ours.unanswered.Load(), plain.answered.Load(), plain.unanswered.Load())
	// A connection may be reset while Caddy hands its listener over; each client has one at a time.
	require.LessOrEqual(t, ours.unanswered.Load(), plain.unanswered.Load()+reloads)
}

// A receiver that is slow gets each notification once, and a webhook that arrives during a reload is stored once.
func TestReloadDeliversOnce(t *testing.T) {
	const payments = 20
	t.Parallel()
	s := openShop(t, "")
	release := make(chan struct{})
	var slow []payoffertest.AnnouncedReply
	for range payments {
		slow = append(slow, payoffertest.AnnouncedReply{Hang: true, Release: release})
	}
	s.receiver.Script(slow...)
	for n := range payments {
		stored := make(chan int, 1)
		body, header := server.CardPaid(strconv.Itoa(n), 4200, cardSecret)
		go func() {
			stored <- server.Ask(server.Client, http.MethodPost, s.url+"/v1/hook/card", body, header).Status
		}()
		s.reload(s.config(descriptions[n%2], ""))
		require.Equal(t, http.StatusOK, <-stored)
		again := server.Ask(server.Client, http.MethodPost, s.url+"/v1/hook/card", body, header)
		require.Equal(t, http.StatusOK, again.Status, again.Body)
		if n == payments/2 {
			close(release) // the first one waited for ten reloads
		}
	}
	require.Equal(t, map[string]int{"confirmed": payments}, s.receipts("card"))
	server.Eventually(t, "all are announced", func() bool { return len(s.receiver.Requests()) >= payments })
	ids := make(map[string]int)
	for _, request := range s.receiver.Requests() {
		ids[request.Header.Get("Webhook-Id")]++
	}
	require.Len(t, ids, payments)
	for id, times := range ids {
		require.Equal(t, 1, times, id)
	}
}
