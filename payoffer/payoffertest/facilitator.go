package payoffertest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// The calls of a facilitator, by their paths.
const (
	CallVerify    = "/verify"
	CallSettle    = "/settle"
	CallSupported = "/supported"
)

// CallProbe is a call of CallVerify by which the plugin finds out how the
// facilitator is: its nonce is 32 zero bytes. It is scripted and counted under
// this name alone.
const CallProbe = "probe"

// Unfunded is the answer to a probe unless another one is scripted.
var Unfunded = FacilitatorReply{Reason: reasonUnfunded}

// FacilitatorFault is how a facilitator fails to answer.
type FacilitatorFault int

// The faults. "Acts" means that it does what was asked: a settlement is
// broadcast.
const (
	// FaultCloseUnread closes the connection before it reads the body.
	FaultCloseUnread FacilitatorFault = iota + 1
	// FaultCloseRead reads the request and closes the connection.
	FaultCloseRead
	// FaultCloseActed acts and closes the connection without an answer.
	FaultCloseActed
	// FaultHang neither acts nor answers until Release; then it does both.
	FaultHang
	// FaultHangActed acts at once and answers after Release.
	FaultHangActed
	// FaultLate acts as soon as the client has given up.
	FaultLate
)

// FacilitatorReply scripts one answer. The zero value says yes.
type FacilitatorReply struct {
	Fault FacilitatorFault
	// Reason makes the answer a no, and nothing is broadcast. Message is its text
	// for a person.
	Reason, Message string
	// Transaction is the hash in the answer to settle; by default that of the
	// broadcast, and none with a Reason. NoTransaction leaves it out.
	Transaction   string
	NoTransaction bool
	// Idle says yes to settle without a broadcast.
	Idle bool
	// Network replaces the network of the requirements in the answer.
	Network string
	// Status is the HTTP status; 0 is 200. Location is that of a redirect.
	Status   int
	Location string
	// Extensions is the value of the header EXTENSION-RESPONSES, unless empty.
	Extensions string
	// Body is sent instead of the call's own shape, unless empty.
	Body string
}

// FacilitatorCall is one request as it arrived. Path is CallProbe for a probe.
type FacilitatorCall struct {
	Path   string
	Header http.Header
	Body   []byte
}

// Settlement is what a facilitator is asked to broadcast.
type Settlement struct {
	Network, Asset, Signature, From, To, Value, ValidAfter, ValidBefore, Nonce string
}

// Facilitator stands in for an x402 facilitator. It says yes to everything but
// a probe, broadcasts one settlement at a time, and refuses a nonce that it has spent,
// in the words of the reference facilitator.
type Facilitator struct {
	server    *httptest.Server
	transport *http.Transport
	closed    chan struct{}

	broadcasting sync.Mutex
	broadcast    func(Settlement) (transaction string, err error)

	mu       sync.Mutex
	arrival  *sync.Cond // signalled for each request
	released chan struct{}
	scripts  map[string][]FacilitatorReply
	calls    []FacilitatorCall
	settled  map[string]int
}

// NewFacilitator starts a facilitator on a loopback address. It closes when
// the test ends.
func NewFacilitator(tb testing.TB) *Facilitator {
	tb.Helper()
	f := newFacilitator()
	f.server = httptest.NewServer(f)
	f.transport = f.server.Client().Transport.(*http.Transport)
	tb.Cleanup(f.close)
	return f
}

// NewPipedFacilitator starts a facilitator at http://<name>.localhost that only
// its own Transport reaches, in memory: a test can own the time that passes
// between the two (testing/synctest).
func NewPipedFacilitator(tb testing.TB, name string) *Facilitator {
	tb.Helper()
	f := newFacilitator()
	pipe := newPipeListener(name + ".localhost")
	f.server = httptest.NewUnstartedServer(f)
	tb.Cleanup(f.close)
	_ = f.server.Listener.Close() // the loopback one, which is not needed
	f.server.Listener = pipe
	f.server.Start()
	f.transport = &http.Transport{DialContext: pipe.dial}
	return f
}

func newFacilitator() *Facilitator {
	f := &Facilitator{
		closed: make(chan struct{}), released: make(chan struct{}),
		scripts: map[string][]FacilitatorReply{CallProbe: {Unfunded}}, settled: map[string]int{},
	}
	f.arrival = sync.NewCond(&f.mu)
	f.broadcast = func(s Settlement) (string, error) {
		return "0xfac" + strings.ToLower(s.Nonce)[5:], nil // 32 bytes that differ for each nonce
	}
	return f
}

func (f *Facilitator) close() {
	close(f.closed)
	if f.transport != nil {
		f.transport.CloseIdleConnections()
	}
	f.server.Close()
}

// URL is the address below which the calls stand.
func (f *Facilitator) URL() string { return f.server.URL }

// Transport reaches the facilitator.
func (f *Facilitator) Transport() *http.Transport { return f.transport }

// Refuse closes the listener: later connections are not accepted.
func (f *Facilitator) Refuse() {
	f.transport.CloseIdleConnections()
	_ = f.server.Listener.Close() // what matters is that nobody connects
}

// Script sets the answers to a call, in order; the last one stays.
func (f *Facilitator) Script(path string, replies ...FacilitatorReply) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.scripts[path] = replies
}

// OnBroadcast makes broadcasts: it is called for one settlement at a time and
// returns the transaction's hash, or an error when the chain refused it.
func (f *Facilitator) OnBroadcast(broadcast func(Settlement) (transaction string, err error)) {
	f.broadcasting.Lock()
	defer f.broadcasting.Unlock()
	f.broadcast = broadcast
}

// Release lets the calls go on that hang now and later.
func (f *Facilitator) Release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.released:
	default:
		close(f.released)
	}
}

// Calls are the requests of one path so far, in the order of arrival.
func (f *Facilitator) Calls(path string) []FacilitatorCall {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.callsOf(path)
}

func (f *Facilitator) callsOf(path string) (calls []FacilitatorCall) {
	for _, call := range f.calls {
		if call.Path == path {
			calls = append(calls, call)
		}
	}
	return calls
}

// Await returns when so many requests of a path have arrived.
func (f *Facilitator) Await(path string, count int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.callsOf(path)) < count {
		f.arrival.Wait()
	}
}

// Settled is how often a nonce was broadcast with success.
func (f *Facilitator) Settled(nonce string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.settled[strings.ToLower(nonce)]
}

// Forget makes a nonce unspent: its transaction has left the chain.
func (f *Facilitator) Forget(nonce string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.settled, strings.ToLower(nonce))
}

// ServeHTTP answers a call as scripted.
func (f *Facilitator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call, body := r.URL.Path, []byte(nil)
	if call == CallVerify {
		if body = read(r); isProbe(body) {
			call = CallProbe
		}
	}
	reply := f.next(call)
	if reply.Fault == FaultCloseUnread {
		f.record(call, r, nil)
		panic(http.ErrAbortHandler)
	}
	if call != CallVerify && call != CallProbe {
		body = read(r)
	}
	f.record(call, r, body)
	f.before(r, reply.Fault)
	answer := f.act(call, body, reply)
	f.after(reply.Fault)
	w.Header().Set("Content-Type", "application/json")
	if reply.Location != "" {
		w.Header().Set("Location", reply.Location)
	}
	if reply.Extensions != "" {
		w.Header().Set("EXTENSION-RESPONSES", reply.Extensions)
	}
	if reply.Status != 0 {
		w.WriteHeader(reply.Status)
	}
	if reply.Body != "" {
		fmt.Fprint(w, reply.Body)
		return
	}
	_ = json.NewEncoder(w).Encode(answer) // the client may have left
}

// next is the scripted reply to a call.
func (f *Facilitator) next(path string) (reply FacilitatorReply) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if script := f.scripts[path]; len(script) > 0 {
		reply = script[0]
		if len(script) > 1 {
			f.scripts[path] = script[1:]
		}
	}
	return reply
}

func read(r *http.Request) []byte {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return body
}

func (f *Facilitator) record(call string, r *http.Request, body []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, FacilitatorCall{Path: call, Header: r.Header.Clone(), Body: body})
	f.arrival.Broadcast()
}

// before is what goes wrong before it acts.
func (f *Facilitator) before(r *http.Request, fault FacilitatorFault) {
	switch fault {
	case FaultCloseRead:
		panic(http.ErrAbortHandler)
	case FaultHang:
		f.hang(f.released)
	case FaultLate:
		f.hang(r.Context().Done())
	}
}

// after is what goes wrong after it acted.
func (f *Facilitator) after(fault FacilitatorFault) {
	switch fault {
	case FaultCloseActed:
		panic(http.ErrAbortHandler)
	case FaultHangActed:
		f.hang(f.released)
	}
}

func (f *Facilitator) hang(until <-chan struct{}) {
	select {
	case <-until:
	case <-f.closed:
		panic(http.ErrAbortHandler)
	}
}
