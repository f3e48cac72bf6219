package clock

import (
	"net/http"
)

// transport tells a clock the Date of every answer.
type transport struct {
	http.RoundTripper
	clock *Clock
}

// Transport hears what time it is for the hosts that next calls; nil means
// http.DefaultTransport.
func (c *Clock) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return transport{next, c}
}

// RoundTrip implements http.RoundTripper. The Date of an answer that a cache has
// kept for a while, which Age tells (RFC 9111 section 5.1), is not that of now.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	date, unknown := http.ParseTime(response.Header.Get("Date"))
	if age := response.Header.Get("Age"); unknown == nil && (age == "" || age == "0") {
		t.clock.Date(r.URL.Hostname(), date)
	}
	return response, nil
}
