package gate

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// tables are sites with the application behind a proxy; each also with "charge first", on a host with "first" before its name.
const tables = `
(app) {
	reverse_proxy {APP} {
		transport http {
			keepalive off
		}
	}
}
(waits) {
	reverse_proxy {APP} {
		transport http {
			response_header_timeout 300ms
		}
	}
}
(dead) {
	reverse_proxy 127.0.0.1:{DEADPORT}
}
(site) {
	pay_offer_gate {
		start http://{args[0]}.localhost:{PORT}/
		{args[2:]}
	}
	import {args[1]}
}
http://app.localhost:{PORT} {
	import site app app access 1h
}
http://firstapp.localhost:{PORT} {
	import site firstapp app charge first
}
http://waits.localhost:{PORT} {
	import site waits waits access 1h
}
http://firstwaits.localhost:{PORT} {
	import site firstwaits waits charge first
}
http://dead.localhost:{PORT} {
	import site dead dead access 1h
}
http://firstdead.localhost:{PORT} {
	import site firstdead dead charge first
}
`

// table is a shop with the sites of tables.
type table struct {
	*shop
	// work are the cells that run, at most as many as slots has room for. Most wait, so that it is more than -parallel allows.
	work  sync.WaitGroup
	slots chan struct{}
}

func openTable(t *testing.T) *table {
	t.Helper()
	return &table{shop: openShop(t, tables, "{DEADPORT}", payoffertest.FreePort(t)), slots: make(chan struct{}, 24)}
}

// cell is a request that pays: its method, whether its gate charges first, and how it is paid.
type cell struct {
	*shop
	method, path, url, way string
	first                  bool
	payment                *payment
}

// cell signs the payment of a new cell.
func (ta *table) cell(t *testing.T, site, name, way, method string, first bool) *cell {
	t.Helper()
	if first {
		site = "first" + site
	}
	path := "/" + strings.ReplaceAll(fmt.Sprint(way, "/", name, "/", method, "/", first), " ", "-")
	c := &cell{shop: ta.in(t), method: method, path: path, url: ta.url(site, path), way: way, first: first}
	c.payment = c.sign(c.url)
	return c
}

// each starts a test for each method and way to charge.
func (ta *table) each(t *testing.T, site, name, way string, test func(c *cell)) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		for _, first := range []bool{false, true} {
			ta.slots <- struct{}{}
			ta.work.Go(func() {
				defer func() { <-ta.slots }()
				t.Run(fmt.Sprintf("%s, %s, %s, charge first %v", name, way, method, first), func(t *testing.T) {
					test(ta.cell(t, site, name, way, method, first))
				})
			})
		}
	}
}

// pays sends the payment of the cell.
func (c *cell) pays() answer {
	c.Helper()
	return c.send(c.Context(), clients["HTTP/1.1"], c.method, c.url, ways[c.way](c.shop, c.payment))
}

// require requires how often the application ran and how often the facilitator was asked to settle.
func (c *cell) require(runs, settles int, message string) {
	c.Helper()
	require.Equal(c, runs, c.app.runs(c.path), "runs of the application, %s", message)
	require.Equal(c, settles, c.facilitator.settles(c.payment), "charges, %s", message)
}

// requirePaid requires a whole answer of a paid request.
func (c *cell) requirePaid(a answer) {
	c.Helper()
	require.NoError(c, a.err)
	require.Equal(c, http.StatusOK, a.Status, a.Body)
	require.Equal(c, secret, a.Body)
	require.Equal(c, secret, a.Header.Get("X-Content"))
}

// bit is 1 for true.
func bit(is bool) int {
	if is {
		return 1
	}
	return 0
}

// hangsUp is an application that closes the connection without an answer.
func hangsUp(w http.ResponseWriter, _ *http.Request) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = connection.Close()
	}
}

// row is how an application answers the request that pays.
type row struct {
	site        string // empty for "app"
	application http.HandlerFunc
	status      int
	// charged: a gate that does not charge first charges. Others always do.
	charged bool
	// never: the application is not reached.
	never bool
}

var rows = map[string]row{
	"nothing listens":  {site: "dead", status: 502, never: true},
	"an empty answer":  {application: hangsUp, status: 502},
	"200":              {application: answers(200), status: 200, charged: true},
	"a presigned link": {application: answers(302, "Location", "https://bucket.example/a?signature="+secret), status: 302, charged: true},
	"404":              {application: answers(404), status: 404},
	"headers and a panic": {application: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Content", secret)
		panic("bug")
	}, status: 502},
	"103 and 200": {application: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</"+secret+">; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		answers(200)(w, r)
	}, status: 200, charged: true},
	"longer than the proxy waits": {site: "waits", application: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, status: 504},
}

// What the application answers decides whether its payer is charged, unless the gate charges first. The application runs
// once. A payment that was not charged can be sent again.
func TestApplicationResponseDecidesCharge(t *testing.T) {
	t.Parallel()
	s := openTable(t)
	defer s.work.Wait()
	for name, r := range rows {
		some := []string{"x402 version 2"}
		if name == "200" || name == "404" || name == "nothing listens" {
			some = append(some, "x402 version 1", "MPP")
		}
		for _, way := range some {
			site := r.site
			if site == "" {
				site = "app"
			}
			s.each(t, site, name, way, func(c *cell) { c.follow(r) })
		}
	}
	s.cutOff(t)
}

// follow pays, and requires what a row says.
func (c *cell) follow(r row) {
	charged, runs := r.charged || c.first, bit(!r.never)
	c.app.on(c.path, r.application)
	a := c.pays()
	require.NoError(c, a.err)
	require.Equal(c, r.status, a.Status, a.Body)
	c.require(runs, bit(charged), "of the payment")
	require.Equal(c, charged, confirmation(a) != "", "%v", a.Header)
	if early := strings.HasPrefix(a.Header.Get("Link"), "<"); c.first && early {
		require.Contains(c, a.Header.Get("Link"), secret)
	}
	require.Equal(c, c.first && strings.Contains(c.path, "103"), a.informed > 0, "a 103 has links to the content")
	content := strings.Contains(a.everything(), secret)
	require.Equal(c, r.charged, content, a.everything())
	if !charged {
		c.requireNoContent(a)
	} else {
		require.NotNil(c, pass(a), "%v", a.Header)
	}
	if r.status == 200 {
		c.requirePaid(a)
	}
	if r.never {
		return
	}

	// The application works now. The same payment and the pass get the content for one charge.
	c.app.on(c.path, nil)
	again := c.pays()
	if charged && c.way == "x402 version 1" {
		require.Equal(c, http.StatusConflict, again.Status, "a charged payment of version 1 is public")
		c.requireNoContent(again)
	} else {
		c.requirePaid(again)
		runs++
	}
	c.require(runs, 1, "after the same payment")
	if !charged {
		a = again
	}
	c.requirePaid(c.ask(http.MethodGet, c.url, pass(a)))
	c.require(runs+1, 1, "with the pass")
}
