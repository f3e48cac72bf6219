package payoffertest

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// AnnouncedReply scripts one answer of a Receiver. The zero value takes the
// announcement.
type AnnouncedReply struct {
	// Status is the HTTP status; 0 is 204.
	Status int
	// RetryAfter and Location are headers, left out while empty.
	RetryAfter, Location string
	// Body is how many bytes the answer has.
	Body int
	// Drop closes the connection instead of an answer, after the announcement
	// was read.
	Drop bool
	// Hang leaves the client without an answer until it leaves, or until Release is
	// closed: then it is answered.
	Hang    bool
	Release <-chan struct{}
}

// Announced is one request that a Receiver got, as it arrived.
type Announced struct {
	Method, Path string
	Header       http.Header
	Body         []byte
	// Taken says that the answer was a success.
	Taken bool
}

// Receiver stands in for a receiver of outbound webhooks.
type Receiver struct {
	tb        testing.TB
	transport *http.Transport
	address   string
	path      string
	inspect   func(Announced) // of what arrived; nil for anything

	mu      sync.Mutex
	arrival *sync.Cond // signalled for each request
	server  *httptest.Server
	script  []AnnouncedReply
	got     []Announced
}

// NewReceiver starts a receiver that takes everything. It closes when the test
// ends.
func NewReceiver(tb testing.TB) *Receiver {
	tb.Helper()
	return newReceiver(tb, "/hook/secret-path", nil)
}

func newReceiver(tb testing.TB, path string, inspect func(Announced)) *Receiver {
	tb.Helper()
	r := &Receiver{tb: tb, transport: http.DefaultTransport.(*http.Transport).Clone(), address: "127.0.0.1:0", path: path, inspect: inspect}
	r.arrival = sync.NewCond(&r.mu)
	r.Up()
	tb.Cleanup(func() {
		r.transport.CloseIdleConnections()
		r.Down()
	})
	return r
}

// URL is where it receives; the path stands for a key that no log may show.
func (r *Receiver) URL() string { return "http://" + r.address + r.path }

// Host is the host and port of URL.
func (r *Receiver) Host() string { return r.address }

// Transport has connections that end with the test.
func (r *Receiver) Transport() *http.Transport { return r.transport }

// Script sets the answers to the next requests; those after them are taken.
func (r *Receiver) Script(replies ...AnnouncedReply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.script = replies
}

// Down makes connections fail until Up.
func (r *Receiver) Down() {
	r.server.CloseClientConnections()
	r.server.Close()
}

// Up listens again, at the same address.
func (r *Receiver) Up() {
	r.tb.Helper()
	listener, err := net.Listen("tcp4", r.address)
	require.NoError(r.tb, err)
	r.address = listener.Addr().String()
	r.server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(r.receive)}}
	r.server.Start()
}

// Requests are all that arrived, in their order.
func (r *Receiver) Requests() []Announced {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Announced(nil), r.got...)
}

// Await returns when that many requests have arrived.
func (r *Receiver) Await(requests int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.got) < requests {
		r.arrival.Wait()
	}
}

func (r *Receiver) receive(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return // it never arrived
	}
	arrived := Announced{Method: request.Method, Path: request.URL.Path, Header: request.Header, Body: body}
	if r.inspect != nil {
		r.inspect(arrived)
	}
	reply := r.arrived(arrived)
	switch {
	case reply.Drop:
		panic(http.ErrAbortHandler)
	case reply.Hang:
		select {
		case <-reply.Release:
		case <-request.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
	if reply.RetryAfter != "" {
		w.Header().Set("Retry-After", reply.RetryAfter)
	}
	if reply.Location != "" {
		w.Header().Set("Location", reply.Location)
	}
	w.WriteHeader(reply.Status)
	_, _ = io.WriteString(w, strings.Repeat(".", reply.Body)) // the client may have left
}

func (r *Receiver) arrived(a Announced) AnnouncedReply {
	r.mu.Lock()
	defer r.mu.Unlock()
	var reply AnnouncedReply
	if len(r.script) > 0 {
		reply, r.script = r.script[0], r.script[1:]
	}
	if reply.Status == 0 {
		reply.Status = http.StatusNoContent
		if reply.Body > 0 {
			reply.Status = http.StatusOK
		}
	}
	a.Taken = !reply.Drop && (!reply.Hang || reply.Release != nil) && reply.Status >= 200 && reply.Status <= 299
	r.got = append(r.got, a)
	r.arrival.Broadcast()
	return reply
}

var eventID = regexp.MustCompile(`^(.+:[0-9]+):[0-9a-f]{16}$`)

// Untagged is the id of an event without its tag, which is random.
func Untagged(tb testing.TB, id string) string {
	tb.Helper()
	parts := eventID.FindStringSubmatch(id)
	require.NotNil(tb, parts, "%q has no tag", id)
	return parts[1]
}
