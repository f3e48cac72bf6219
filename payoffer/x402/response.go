package x402

import (
	"context"
	"errors"
	"net/http"
	"sync"
)

// Response is the response to an attempt. By it Pay learns whether its answer was written: only then is a charge
// acknowledged. It is for one attempt.
type Response struct {
	// Gated: the address is gated, so that a client may request it again without its cookie. For two minutes the charge
	// stays the response to the payer's next authorizations.
	Gated bool

	mu        sync.Mutex
	callbacks []func(complete bool)
	ended     bool
}

// Serve writes the response by write, which reports whether all of it was written, and ends it.
func (r *Response) Serve(w http.ResponseWriter, write func() (complete bool)) {
	complete := false
	defer func() { r.End(complete) }()
	if !write() || !r.awaited() {
		return
	}
	err := http.NewResponseController(w).Flush()
	complete = err == nil || errors.Is(err, http.ErrNotSupported)
}

// awaited reports whether End has anything to do.
func (r *Response) awaited() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.callbacks) > 0
}

// End reports the end of the response: complete says that all of it was written.
func (r *Response) End(complete bool) {
	r.mu.Lock()
	callbacks := r.callbacks
	r.callbacks, r.ended = nil, true
	r.mu.Unlock()
	for _, f := range callbacks {
		f(complete)
	}
}

// OnEnd calls f when the response ends, or at once if it has ended, there is none (nil), or the client has left. A client
// that leaves later may have read the answer.
func (r *Response) OnEnd(ctx context.Context, f func(complete bool)) {
	if r != nil && ctx.Err() == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.ended {
			r.callbacks = append(r.callbacks, f)
			return
		}
	}
	f(false)
}
