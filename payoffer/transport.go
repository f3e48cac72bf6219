package payoffer

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// upstreamSeconds times every call to an upstream, up to its headers.
var upstreamSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Namespace: "caddy", Subsystem: "pay_offer", Name: "upstream_seconds",
	Help:    "Histogram of the time that an upstream takes to answer, in seconds, by kind, host and outcome.",
	Buckets: []float64{.025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
}, []string{"kind", "host", "outcome"})

// meteredTransport carries the calls to upstreams of a kind: facilitator, rpc,
// esplora, card, storefront or announce.
type meteredTransport string

// RoundTrip implements http.RoundTripper.
func (kind meteredTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	start := time.Now()
	response, err := http.DefaultTransport.RoundTrip(r)
	upstreamSeconds.WithLabelValues(string(kind), r.URL.Hostname(), outcomeOf(response, err)).Observe(time.Since(start).Seconds())
	return response, err
}

// outcomeOf is "error" for an upstream that did not answer, else the class of
// its status, as in "2xx".
func outcomeOf(response *http.Response, err error) string {
	if err != nil || response.StatusCode < 100 || response.StatusCode > 599 {
		return "error"
	}
	return string(rune('0'+response.StatusCode/100)) + "xx"
}
