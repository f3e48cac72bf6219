package x402

import (
	"context"
	"sync"
)

// written holds what is to be noted once it is known whether an answer was
// written.
type written struct {
	mu    sync.Mutex
	notes []func(whole bool)
	over  bool
}

type writtenKey struct{}

// WithWritten lets Pay say what is to be noted once its answer was written:
// the transport calls Written with the same context then. Without both no
// charge counts as told, and each goes on answering for its payer.
func WithWritten(ctx context.Context) context.Context {
	return context.WithValue(ctx, writtenKey{}, new(written))
}

// Noted reports whether Written has anything to do.
func Noted(ctx context.Context) bool {
	w, _ := ctx.Value(writtenKey{}).(*written)
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.notes) > 0
}

// Written ends a request: whole says that its answer was written whole.
func Written(ctx context.Context, whole bool) {
	w, _ := ctx.Value(writtenKey{}).(*written)
	if w == nil {
		return
	}
	w.mu.Lock()
	notes := w.notes
	w.notes, w.over = nil, true
	w.mu.Unlock()
	for _, note := range notes {
		note(whole)
	}
}

// onWritten has f called when the request ends, or now where nobody would, or where the
// client has left already. Who leaves later may have read the answer: many do so for
// each request.
func onWritten(ctx context.Context, f func(whole bool)) {
	if w, _ := ctx.Value(writtenKey{}).(*written); w != nil && ctx.Err() == nil && w.note(f) {
		return
	}
	f(false)
}

// note reports false where the request has ended.
func (w *written) note(f func(whole bool)) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.notes = append(w.notes, f)
	}
	return !w.over
}
