package source

import "net/http"

const (
	// idlePerHost is how many connections to one host are kept for the next
	// calls: as many as payments may be under way at once. net/http keeps two,
	// and most payments of a burst then wait for new ones.
	idlePerHost = 64
	// idleInAll bounds them over all hosts.
	idleInAll = 512
)

// NewTransport is net/http's default transport, with its proxy, timeouts and
// HTTP/2, that keeps more connections. A process has one.
func NewTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost, t.MaxIdleConns = idlePerHost, idleInAll
	return t
}
