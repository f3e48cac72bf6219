package reload

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"
)

// request is one use of the offer.
type request struct {
	method, path, accept string
	// want is the status that it had before the traffic.
	want int
	// body makes what is posted, with its headers; nil posts nothing.
	body func() (string, http.Header)
}

func (r request) String() string { return strings.TrimSpace(r.method + " " + r.path + " " + r.accept) }

// send asks until there is an answer.
func (s *shop) send(client *http.Client, r request) answer {
	header, body := http.Header{}, ""
	if r.body != nil {
		body, header = r.body()
	}
	if r.accept != "" {
		header.Set("Accept", r.accept)
	}
	return ask(client, r.method, s.url+r.path, body, header)
}

// requests are every operation of the description that the server publishes, with what each needs, and every image of a QR
// code whose address was given out by now. It returns when each is answered as it is while nothing happens.
func (s *shop) requests() (all []request) {
	s.Helper()
	var api struct {
		Paths map[string]map[string]json.RawMessage
	}
	require.NoError(s, json.Unmarshal([]byte(s.get(s.url+"/openapi.json")), &api))
	for _, path := range slices.Sorted(maps.Keys(api.Paths)) {
		for method := range api.Paths[path] {
			if method = strings.ToUpper(method); method == http.MethodGet || method == http.MethodPost {
				all = append(all, s.operation(method, path)...)
			}
		}
	}
	require.Greater(s, len(all), 60, "the description names fewer paths than are known")
	for i := range all {
		s.eventually(all[i].String()+" is answered", func() bool {
			all[i].want = s.send(loopback, all[i]).status
			return all[i].want > 0 && all[i].want < 500
		})
	}
	return all
}

// operation are the requests of one operation.
func (s *shop) operation(method, path string) []request {
	s.Helper()
	switch {
	case path == "/v1/qr/{rail}/{image}":
		return s.images()
	case strings.HasPrefix(path, "/v1/receipt/{id}"):
		return []request{{method: method, path: strings.Replace(path, "{id}", "unknown", 1)}}
	case path == "/v1/hook/card":
		return []request{{method: method, path: path, body: s.cardEvent}}
	case path == "/v1/hook/{storefront}/{secret}":
		return []request{{method: method, path: "/v1/hook/tip-jar/" + storeSecret, body: s.sale}}
	case path == "/mcp" && method == http.MethodPost:
		return []request{{method: method, path: path, body: toolCall}}
	case method == http.MethodPost:
		return []request{{method: method, path: path}}
	}
	require.NotContains(s, path, "{", "a new kind of path: say here what to ask for")
	return []request{{method: method, path: path}, {method: method, path: path, accept: "text/html"}}
}

// images are the addresses of QR codes that are given out now.
func (s *shop) images() (all []request) {
	s.Helper()
	for _, rail := range []string{"card", "usdc", "btc", "transfer", "tip-jar"} {
		var address *url.URL
		s.eventually("the image of "+rail, func() bool {
			a := ask(loopback, http.MethodGet, s.url+"/v1/pay/"+rail+".png", "", nil)
			if a.status != http.StatusFound {
				return false
			}
			var err error
			address, err = url.Parse(a.header.Get("Location"))
			return err == nil
		})
		all = append(all, request{method: http.MethodGet, path: address.Path})
	}
	return all
}

func toolCall() (string, http.Header) {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"first_42_sponsor"}}`,
		http.Header{"Content-Type": {"application/json"}}
}

// cardEvent is a new delivery of the card processor.
func (s *shop) cardEvent() (string, http.Header) {
	id, now := s.deliveries.Add(1), time.Now().Unix()
	body := fmt.Sprintf(`{"id":"evt_%d","object":"event","type":"checkout.session.completed","livemode":true,"created":%d,"data":{"object":{
		"id":"cs_%[1]d","object":"checkout.session","mode":"payment","status":"complete","payment_status":"paid","amount_total":4200,"currency":"usd",
		"livemode":true,"created":%[2]d,"payment_intent":"pi_%[1]d","payment_link":"plink_1"}}}`, id, now+1)
	mac := hmac.New(sha256.New, []byte(cardSecret))
	fmt.Fprintf(mac, "%d.%s", now, body)
	return body, http.Header{
		"Content-Type":     {"application/json"},
		"Stripe-Signature": {fmt.Sprintf("t=%d,v1=%s", now, hex.EncodeToString(mac.Sum(nil)))},
	}
}

// sale is a new notice of the storefront.
func (s *shop) sale() (string, http.Header) {
	return url.Values{
		"sale_id": {fmt.Sprintf("sale-%d", s.deliveries.Add(1))}, "order_number": {"1"}, "product_id": {"product-1"}, "price": {"4200"},
		"currency": {"usd"}, "seller_id": {"seller-1"}, "sale_timestamp": {time.Now().UTC().Add(time.Second).Format(time.RFC3339)},
	}.Encode(), http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
}

// findings are what was wrong, each kind with its number and the first of it.
type findings struct {
	mu    sync.Mutex
	first map[string]string
	count map[string]int
}

func newFindings() *findings {
	return &findings{first: make(map[string]string), count: make(map[string]int)}
}

func (f *findings) add(what, detail string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count[what]++; f.count[what] == 1 {
		f.first[what] = detail
	}
}

// report fails the test for each kind.
func (f *findings) report(s *shop) {
	s.Helper()
	for _, what := range slices.Sorted(maps.Keys(f.count)) {
		s.Errorf("%s: %d times; first %s", what, f.count[what], f.first[what])
	}
}

// traffic are clients that ask for everything again and again.
type traffic struct {
	shop     *shop
	requests []request
	states   []railState // of every report
	found    *findings

	reload  atomic.Int64 // the number of the last one that began
	stop    atomic.Bool
	answers atomic.Int64
	clients sync.WaitGroup
}

// begin lets four clients loose, two of which keep their connections.
func (t *traffic) begin() {
	for i := range 4 {
		t.clients.Go(func() {
			client := newClient("127.0.0.1", i%2 == 0)
			defer client.CloseIdleConnections()
			for n := i * len(t.requests) / 4; !t.stop.Load(); n++ {
				t.check(client, t.requests[n%len(t.requests)])
			}
		})
	}
}

// end waits for the last answers.
func (t *traffic) end() {
	t.stop.Store(true)
	t.clients.Wait()
	t.stop.Store(false)
}

// awaitAnswers returns when everything was asked for once more.
func (t *traffic) awaitAnswers() {
	t.shop.Helper()
	before := t.answers.Load()
	t.shop.eventually("every path is asked for", func() bool { return t.answers.Load() >= before+int64(len(t.requests)) })
}

// check holds one answer against that of before, and follows the redirect to a QR code.
func (t *traffic) check(client *http.Client, r request) {
	during := t.reload.Load()
	a := t.shop.send(client, r)
	t.answers.Add(1)
	if a.status != r.want {
		t.found.add(fmt.Sprintf("%s: status %d instead of %d", r, a.status, r.want), fmt.Sprintf("during reload %d: %s", during, a.body))
		return
	}
	switch {
	case r.path == "/v1/received" && r.accept == "":
		if states := withoutPlace(rails(a.body)); !slices.Equal(states, t.states) {
			t.found.add("the rails' health in /v1/received", fmt.Sprintf("during reload %d: %+v instead of %+v", during, states, t.states))
		}
	case strings.HasSuffix(r.path, ".png") && a.status == http.StatusFound:
		if image, err := url.Parse(a.header.Get("Location")); err == nil {
			t.check(client, request{method: http.MethodGet, path: image.Path, want: http.StatusOK})
		}
	}
}
