package payoffer

import (
	"context"
	"errors"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
)

// newEmitter returns a function that emits an event and returns the errors of its handlers,
// so that a failed notification is retried. Caddy's events app only logs these errors, so
// the handlers are wrapped before it subscribes them.
func newEmitter(ctx caddy.Context, events *caddyevents.App) func(name string, data map[string]any) error {
	for _, subscription := range events.Subscriptions {
		for i, handler := range subscription.Handlers {
			subscription.Handlers[i] = reportingHandler{handler}
		}
	}
	return func(name string, data map[string]any) error {
		var failures []error
		e := events.Emit(ctx.WithValue(failuresKey{}, &failures), name, data)
		// A canceled context may have kept the event from handlers.
		return errors.Join(append(failures, e.Aborted, ctx.Err())...)
	}
}

// failuresKey is the key of the handlers' errors in the context of an event.
type failuresKey struct{}

// reportingHandler is a handler that adds its error to the context of the event.
type reportingHandler struct{ caddyevents.Handler }

// Handle implements caddyevents.Handler.
func (h reportingHandler) Handle(ctx context.Context, e caddy.Event) error {
	err := h.Handler.Handle(ctx, e)
	if failures, ok := ctx.Value(failuresKey{}).(*[]error); ok && err != nil {
		*failures = append(*failures, err)
	}
	return err
}
