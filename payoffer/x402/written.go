package x402

import (
	"context"
	"sync"
)

// written holds what is to be noted once an answer was written.
type written struct {
	mu    sync.Mutex
	notes []func()
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

// Written says that the answer was written whole, to a connection that still
// stands.
func Written(ctx context.Context) {
	w, _ := ctx.Value(writtenKey{}).(*written)
	if w == nil {
		return
	}
	w.mu.Lock()
	notes := w.notes
	w.notes = nil
	w.mu.Unlock()
	for _, note := range notes {
		note()
	}
}

// onWritten has f called when the answer was written.
func onWritten(ctx context.Context, f func()) {
	if w, _ := ctx.Value(writtenKey{}).(*written); w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.notes = append(w.notes, f)
	}
}
