package payoffer

import (
	"context"
	"errors"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
)

// emitter returns what raises an event and says whether it was handled. Caddy's
// events app tells who raised an event only of a handler that aborts it, and logs
// what else goes wrong; so the handlers of the configuration, which are loaded and
// not yet subscribed, are asked themselves.
func emitter(ctx caddy.Context, events *caddyevents.App) func(name string, data map[string]any) error {
	for _, subscription := range events.Subscriptions {
		for i, handler := range subscription.Handlers {
			subscription.Handlers[i] = watched{handler}
		}
	}
	return func(name string, data map[string]any) error {
		var failures []error
		e := events.Emit(ctx.WithValue(failuresKey{}, &failures), name, data)
		// A context that ended may have kept handlers from the event.
		return errors.Join(append(failures, e.Aborted, ctx.Err())...)
	}
}

// failuresKey is where the context of an event holds what its handlers return.
type failuresKey struct{}

// watched is a handler that notes for the event's emitter that it failed.
type watched struct{ caddyevents.Handler }

// Handle implements caddyevents.Handler.
func (w watched) Handle(ctx context.Context, e caddy.Event) error {
	err := w.Handler.Handle(ctx, e)
	if failures, ok := ctx.Value(failuresKey{}).(*[]error); ok && err != nil {
		*failures = append(*failures, err)
	}
	return err
}

// Interface guard
var _ caddyevents.Handler = watched{}
