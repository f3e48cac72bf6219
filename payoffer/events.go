package payoffer

import (
	"context"
	"errors"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
)

// newEmitter returns a function that emits an event and returns the errors of its handlers,
// so that a failed notification is retried. Caddy's events app only logs these errors, so
// the handlers are wrapped before it subscribes them. A retry runs only the handlers that failed.
func newEmitter(ctx caddy.Context, events *caddyevents.App) func(name string, data map[string]any) error {
	for _, subscription := range events.Subscriptions {
		for i, handler := range subscription.Handlers {
			subscription.Handlers[i] = reportingHandler{handler}
		}
	}
	var failed sync.Map // the attempt that failed, by the id of the notification
	return func(name string, data map[string]any) error {
		now := new(attempt)
		if before, again := failed.LoadAndDelete(data["id"]); again {
			for _, h := range before.(*attempt).handlings {
				_ = now.handle(h)
			}
		} else if e := events.Emit(ctx.WithValue(attemptKey{}, now), name, data); e.Aborted != nil {
			return e.Aborted // it may have kept the event from handlers
		}
		if ctx.Err() == nil && len(now.handlings) > 0 {
			failed.Store(data["id"], now)
		}
		return errors.Join(append(now.errs, ctx.Err())...) // a canceled context may have, too
	}
}

// attempt has the handlings of one event that failed.
type attempt struct {
	handlings []handling
	errs      []error
}

// handling is one call of a handler.
type handling struct {
	handler caddyevents.Handler
	ctx     context.Context
	event   caddy.Event
}

func (a *attempt) handle(h handling) error {
	err := h.handler.Handle(h.ctx, h.event)
	if err != nil {
		a.handlings, a.errs = append(a.handlings, h), append(a.errs, err)
	}
	return err
}

// attemptKey is the key of the attempt in the context of an event.
type attemptKey struct{}

// reportingHandler is a handler that adds its error to the attempt.
type reportingHandler struct{ caddyevents.Handler }

// Handle implements caddyevents.Handler.
func (h reportingHandler) Handle(ctx context.Context, e caddy.Event) error {
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		return a.handle(handling{h.Handler, ctx, e})
	}
	return h.Handler.Handle(ctx, e)
}
