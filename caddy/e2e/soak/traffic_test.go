package soak

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
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
	id, now := s.deliveries.Add(1), time.Now().Unix()
	body := fmt.Sprintf(`{"id":"evt_%d","object":"event","type":"checkout.session.completed","livemode":true,"created":%d,"data":{"object":{
		"id":"cs_%[1]d","object":"checkout.session","mode":"payment","status":"complete","payment_status":"paid","amount_total":30,"currency":"usd",
		"livemode":true,"created":%[2]d,"payment_intent":"pi_%[1]d","payment_link":"plink_1"}}}`, id, now+1)
	mac := hmac.New(sha256.New, []byte(cardSecret))
	fmt.Fprintf(mac, "%d.%s", now, body)
	return body, http.Header{
		"Content-Type": {"application/json"}, "Stripe-Signature": {fmt.Sprintf("t=%d,v1=%s", now, hex.EncodeToString(mac.Sum(nil)))},
	}
}

// sale is a notice of the storefront, which records nothing.
func (s *shop) sale() (string, http.Header) {
	return url.Values{
		"sale_id": {"sale-1"}, "order_number": {"1"}, "product_id": {"product-1"}, "price": {"30"},
		"currency": {"usd"}, "seller_id": {"seller-1"}, "sale_timestamp": {time.Now().UTC().Add(time.Second).Format(time.RFC3339)},
	}.Encode(), http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
}

// clients are those that ask at the same time.
const clients = 3

// crowd are clients that ask for everything again and again.
type crowd struct {
	shop    *shop
	stop    atomic.Bool
	clients sync.WaitGroup
	answers atomic.Int64
}

// visitors let three clients loose, one of which keeps no connection.
func (s *shop) visitors() *crowd {
	c := &crowd{shop: s}
	for i := range clients {
		c.clients.Go(func() {
			client := &http.Client{Timeout: patience, CheckRedirect: s.client.CheckRedirect, Transport: &http.Transport{DisableKeepAlives: i == 0}}
			defer client.CloseIdleConnections()
			for !c.stop.Load() {
				for n := range requests {
					c.ask(client, requests[(n+i*len(requests)/clients)%len(requests)])
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
		status, read, err := send(client, r.method, c.shop.url+r.path, body, header)
		c.answers.Add(1)
		switch {
		case err == nil && r.body != nil && status == http.StatusServiceUnavailable && caused.touches[database] && time.Now().Before(deadline):
			c.shop.answered(r.String(), status, r.want, read, caused, r.rests...)
			time.Sleep(again) // a webhook is sent again until it is taken
			continue
		case err == nil:
			c.shop.answered(r.String(), status, r.want, read, caused, r.rests...)
			return
		case time.Now().After(deadline):
			c.shop.found.add(r.String()+": no answer", err.Error())
			return
		}
	}
}

// send sends a request and reads the answer.
func send(client *http.Client, method, address, body string, header http.Header) (status int, read string, err error) {
	r, err := http.NewRequest(method, address, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header = header
	a, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer a.Body.Close()
	data, err := io.ReadAll(a.Body)
	return a.StatusCode, string(data), err
}

// awaitAll returns when there are as many answers as each client needs for everything. Some may wait for what is disturbed.
func (c *crowd) awaitAll() {
	c.shop.Helper()
	c.shop.await("everything is asked for", func() bool { return c.answers.Load() >= int64(clients*len(requests)) })
}

// end waits for the last answers.
func (c *crowd) end() {
	c.stop.Store(true)
	c.clients.Wait()
}
