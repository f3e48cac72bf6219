package payoffer

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/stretchr/testify/require"
)

func init() { caddy.RegisterModule(new(eventHandler)) }

// eventHandler is one of a configuration, which does what the test says.
type eventHandler struct{}

var handleEvent = func(caddy.Event) error { return nil }

func (*eventHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "events.handlers.test", New: func() caddy.Module { return new(eventHandler) }}
}

func (*eventHandler) Handle(_ context.Context, e caddy.Event) error { return handleEvent(e) }

var _ caddyevents.Handler = (*eventHandler)(nil)

// Caddy only logs that a handler failed; whoever raised the event must know.
func TestAnEventWhoseHandlerFailsIsNotTakenForHandled(t *testing.T) {
	config := &caddy.Config{AppsRaw: caddy.ModuleMap{"events": []byte(
		`{"subscriptions": [{"events": ["payment_confirmed"], "handlers": [{"handler": "test"}]}]}`)}}
	ctx, err := caddy.ProvisionContext(config)
	require.NoError(t, err)
	value, err := ctx.App("events")
	require.NoError(t, err)
	events := value.(*caddyevents.App)
	emit := emitter(ctx, events)
	require.NoError(t, events.Start())
	t.Cleanup(func() { handleEvent = func(caddy.Event) error { return nil } })

	full := errors.New("the disk is full")
	for name, fails := range map[string]error{"handled": nil, "failed": full, "aborted": fmt.Errorf("%w: stop", caddy.ErrEventAborted)} {
		t.Run(name, func(t *testing.T) {
			var seen string
			handleEvent = func(e caddy.Event) error {
				seen = e.Data["id"].(string)
				return fails
			}
			err := emit("payment_confirmed", map[string]any{"id": "card:pi_1:1"})
			require.Equal(t, "card:pi_1:1", seen)
			require.ErrorIs(t, err, fails)
			require.NoError(t, emit("payment_seen", map[string]any{"id": "x"}), "nobody asked for it")
		})
	}
}
