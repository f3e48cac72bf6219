package payoffertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// PriceReply scripts what one price source answers.
type PriceReply struct {
	Price       string        // US dollars for one bitcoin, a decimal number
	Status      int           // HTTP status; 0 is 200
	Age         time.Duration // how old the price claims to be, where the source says so
	Hang        bool          // no answer until the client leaves or the server closes
	Body        string        // sent instead of the source's shape, unless empty
	KrakenError string        // makes Kraken report this error, with status 200
}

// Prices stands in for all four providers of the BTC/USD price on one loopback
// address: each answers at its real path.
type Prices struct {
	server *httptest.Server
	now    func() time.Time
	closed chan struct{}

	mu       sync.Mutex
	arrival  *sync.Cond // signalled for each request
	replies  map[string]PriceReply
	requests map[string]int
}

// priceSources are the names of the sources that Prices stands in for.
func priceSources() []string { return []string{"mempool", "coinbase", "kraken", "bitstamp"} }

// NewPrices starts a stand-in whose sources all answer 90000 USD, with
// timestamps by now. It closes when the test ends.
func NewPrices(tb testing.TB, now func() time.Time) *Prices {
	tb.Helper()
	p := &Prices{
		now:      now,
		closed:   make(chan struct{}),
		replies:  map[string]PriceReply{},
		requests: map[string]int{},
	}
	p.arrival = sync.NewCond(&p.mu)
	p.SetAll(PriceReply{Price: "90000"})
	mux := http.NewServeMux()
	mux.Handle("GET /api/v1/prices", p.source("mempool", p.mempool))
	mux.Handle("GET /v2/prices/BTC-USD/spot", p.source("coinbase", p.coinbase))
	mux.Handle("GET /0/public/Ticker", p.source("kraken", p.kraken))
	mux.Handle("GET /api/v2/ticker/btcusd/{$}", p.source("bitstamp", p.bitstamp))
	p.server = httptest.NewServer(mux)
	tb.Cleanup(func() {
		close(p.closed)
		p.server.Close()
	})
	return p
}

// URL is the base URL of all sources.
func (p *Prices) URL() string { return p.server.URL }

// RoundTrip answers a request to any host from the stand-in. The connections end with
// the test.
func (p *Prices) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = "http", p.server.Listener.Addr().String()
	return p.server.Client().Transport.RoundTrip(r)
}

// Set scripts one source from its next request on.
func (p *Prices) Set(source string, reply PriceReply) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replies[source] = reply
}

// SetAll scripts every source alike.
func (p *Prices) SetAll(reply PriceReply) {
	for _, name := range priceSources() {
		p.Set(name, reply)
	}
}

// Requests is how many requests a source has received.
func (p *Prices) Requests(source string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests[source]
}

// Await returns when a source has received that many requests.
func (p *Prices) Await(source string, requests int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.requests[source] < requests {
		p.arrival.Wait()
	}
}

// source counts a request and answers as scripted, in the shape that body makes
// of the reply.
func (p *Prices) source(name string, body func(*http.Request, PriceReply) any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reply := p.arrived(name)
		if reply.Hang {
			select {
			case <-p.closed:
			case <-r.Context().Done():
			}
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		if reply.Status != 0 {
			w.WriteHeader(reply.Status)
		}
		if reply.Body != "" {
			fmt.Fprint(w, reply.Body)
			return
		}
		_ = json.NewEncoder(w).Encode(body(r, reply)) // the client may have left
	})
}

func (p *Prices) arrived(name string) PriceReply {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests[name]++
	p.arrival.Broadcast()
	return p.replies[name]
}

// mempool writes whole dollars as a JSON number, as mempool.space does.
func (p *Prices) mempool(_ *http.Request, reply PriceReply) any {
	whole, _, _ := strings.Cut(reply.Price, ".")
	return map[string]any{"time": p.unix(reply), "USD": json.Number(whole), "EUR": -1}
}

func (p *Prices) coinbase(_ *http.Request, reply PriceReply) any {
	return map[string]any{"data": map[string]string{"amount": reply.Price, "base": "BTC", "currency": "USD"}}
}

func (p *Prices) kraken(r *http.Request, reply PriceReply) any {
	if r.URL.Query().Get("pair") != "XBTUSD" {
		reply.KrakenError = "EQuery:Unknown asset pair"
	}
	if reply.KrakenError != "" {
		return map[string]any{"error": []string{reply.KrakenError}}
	}
	ticker := map[string]any{
		"a": []string{reply.Price, "1", "1.000"},
		"b": []string{reply.Price, "2", "2.000"},
		"c": []string{reply.Price, "0.01686188"},
		"v": []string{"1414.57420708", "1686.74719574"},
		"t": []int{20034, 23808},
		"o": reply.Price,
	}
	return map[string]any{"error": []string{}, "result": map[string]any{"XXBTZUSD": ticker}}
}

func (p *Prices) bitstamp(_ *http.Request, reply PriceReply) any {
	return map[string]string{
		"timestamp": fmt.Sprint(p.unix(reply)), "last": reply.Price,
		"bid": reply.Price, "ask": reply.Price, "open": reply.Price, "volume": "2897.05432716",
	}
}

// unix is the time that the reply claims for its price, in Unix seconds.
func (p *Prices) unix(reply PriceReply) int64 { return p.now().Add(-reply.Age).Unix() }
