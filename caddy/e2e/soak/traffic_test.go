package soak

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

// request is one use of the offer: how it must be answered, and on what of the world that rests.
type request struct {
	method, path, accept string
	want                 int
	body                 func(*shop) (string, http.Header)
	rests                []part
}

func (r request) String() string { return strings.TrimSpace(r.method + " " + r.path + " " + r.accept) }

// requests are those of people, programs, agents, the card processor and a storefront.
var requests = []request{
	{method: "GET", path: "/openapi.json", want: 200},
	{method: "GET", path: "/.well-known/agent-card.json", want: 200},
	{method: "GET", path: "/llms.txt", want: 200},
	{method: "GET", path: "/v1/pay", accept: "text/html", want: 200},
	{method: "GET", path: "/v1/pay/card.uri", want: 200},
	{method: "GET", path: "/v1/pay/card.png", want: 302},
	{method: "GET", path: "/v1/pay/btc.uri", want: 200, rests: []part{rates}},
	{method: "GET", path: "/v1/quote", want: 402},
	{method: "POST", path: "/v1/sponsor", want: 402},
	{method: "POST", path: "/mcp", want: 200, body: toolCall},
	{method: "GET", path: "/v1/received", want: 200, rests: []part{database}},
	{method: "GET", path: "/v1/received", accept: "text/html", want: 200, rests: []part{database}},
	{method: "GET", path: "/v1/received?after=0", want: 200, rests: []part{database}},
	{method: "POST", path: "/v1/hook/card", want: 200, body: (*shop).cardEvent, rests: []part{database}},
	{method: "POST", path: "/v1/hook/tip-jar/" + storeSecret, want: 200, body: (*shop).sale, rests: []part{database}},
}

func toolCall(*shop) (string, http.Header) {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"first_42_sponsor"}}`, http.Header{"Content-Type": {"application/json"}}
}

// cardEvent is a new delivery of the card processor.
func (s *shop) cardEvent() (string, http.Header) {
	return server.CardPaid(fmt.Sprint(s.deliveries.Add(1)), 30, cardSecret)
}

// sale is a notice of the storefront, which records nothing.
func (s *shop) sale() (string, http.Header) { return server.StorefrontSale("sale-1", 30) }

const (
	// clients are those that ask at the same time.
	clients = 3
	// steady is how often a client asks when it has asked for everything.
	steady = 200 * time.Millisecond
)

// crowd are clients that ask for everything again and again.
type crowd struct {
	shop    *shop
	stop    atomic.Bool
	clients sync.WaitGroup
	answers atomic.Int64
}

// visitors let three clients loose, one of which keeps no connection. They ask for everything at once, and then steadily.
func (s *shop) visitors() *crowd {
	c := &crowd{shop: s}
	for i := range clients {
		c.clients.Go(func() {
			client := &http.Client{Timeout: patience, CheckRedirect: s.client.CheckRedirect, Transport: &http.Transport{DisableKeepAlives: i == 0}}
			defer client.CloseIdleConnections()
			for n := 0; n < len(requests) || !c.stop.Load(); n++ {
				c.ask(client, requests[(n+i*len(requests)/clients)%len(requests)])
				if n >= len(requests) {
					time.Sleep(steady)
				}
			}
		})
	}
	return c
}

// ask sends a request until there is an answer: a connection ends with the configuration that took it.
func (c *crowd) ask(client *http.Client, r request) {
	caused, body, header := c.shop.now.Load(), "", http.Header{}
	if r.body != nil {
		body, header = r.body(c.shop)
	}
	if r.accept != "" {
		header.Set("Accept", r.accept)
	}
	for deadline := time.Now().Add(patience); ; {
		a, err := server.Do(client, r.method, c.shop.url+r.path, body, header)
		c.answers.Add(1)
		switch {
		case err == nil && r.body != nil && a.Status == http.StatusServiceUnavailable && caused.touches[database] && time.Now().Before(deadline):
			c.shop.answered(r.String(), a.Status, r.want, a.Body, caused, r.rests...)
			time.Sleep(again) // a webhook is sent again until it is taken
			continue
		case err == nil:
			c.shop.answered(r.String(), a.Status, r.want, a.Body, caused, r.rests...)
			return
		case time.Now().After(deadline):
			c.shop.found.Add(r.String()+": no answer", err.Error())
			return
		}
	}
}

// awaitAll returns when there are as many answers as each client needs for everything. Some may wait for what is disturbed.
func (c *crowd) awaitAll() {
	c.shop.Helper()
	server.Eventually(c.shop, "everything is asked for", func() bool { return c.answers.Load() >= int64(clients*len(requests)) })
}

// end waits for the last answers.
func (c *crowd) end() {
	c.stop.Store(true)
	c.clients.Wait()
}
