package x402

import (
	"context"
	"sync"
)

// response holds callbacks for the end of one HTTP response.
type response struct {
	mu        sync.Mutex
	callbacks []func(complete bool)
	ended     bool
	gated     bool
}

type responseKey struct{}

// TrackResponse lets Pay learn whether its answer was written. The transport calls EndResponse with
// the returned context. Without them no charge becomes acknowledged.
func TrackResponse(ctx context.Context) context.Context {
	return context.WithValue(ctx, responseKey{}, new(response))
}

// TrackGatedResponse is TrackResponse for a gated address, which a client may request again without
// its cookie: for two minutes the charge stays the response to the payer's next authorizations.
func TrackGatedResponse(ctx context.Context) context.Context {
	return context.WithValue(ctx, responseKey{}, &response{gated: true})
}

func responseOf(ctx context.Context) *response {
	r, _ := ctx.Value(responseKey{}).(*response)
	return r
}

func isGated(ctx context.Context) bool {
	r := responseOf(ctx)
	return r != nil && r.gated
}

// AwaitsResponse reports whether EndResponse has anything to do.
func AwaitsResponse(ctx context.Context) bool {
	r := responseOf(ctx)
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.callbacks) > 0
}

// EndResponse reports the end of a response: complete says that all of it was written.
func EndResponse(ctx context.Context, complete bool) {
	r := responseOf(ctx)
	if r == nil {
		return
	}
	r.mu.Lock()
	callbacks := r.callbacks
	r.callbacks, r.ended = nil, true
	r.mu.Unlock()
	for _, f := range callbacks {
		f(complete)
	}
}

// OnResponse calls f when the response ends, or at once if it has ended, is not tracked, or the
// client has left. A client that leaves later may have read the answer.
func OnResponse(ctx context.Context, f func(complete bool)) {
	if r := responseOf(ctx); r != nil && ctx.Err() == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.ended {
			r.callbacks = append(r.callbacks, f)
			return
		}
	}
	f(false)
}
