package payoffer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

func init() { caddy.RegisterModule(new(eventHandler)) }

// eventHandler is one of a configuration, which does what the test says.
type eventHandler struct{}

var handleEvent = func(caddy.Event) error { return nil }

func (*eventHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "events.handlers.test", New: func() caddy.Module { return new(eventHandler) }}
}

func (*eventHandler) Handle(_ context.Context, e caddy.Event) error { return handleEvent(e) }

func (*eventHandler) UnmarshalCaddyfile(*caddyfile.Dispenser) error { return nil }

var (
	_ caddyevents.Handler   = (*eventHandler)(nil)
	_ caddyfile.Unmarshaler = (*eventHandler)(nil)
)

// Caddy only logs that a handler failed; whoever raised the event must know.
func TestAnEventWhoseHandlerFailsIsNotTakenForHandled(t *testing.T) {
	config := &caddy.Config{AppsRaw: caddy.ModuleMap{"events": []byte(
		`{"subscriptions": [{"events": ["payment_confirmed"], "handlers": [{"handler": "test"}]}]}`)}}
	ctx := must(caddy.ProvisionContext(config))(t)
	value := must(ctx.App("events"))(t)
	events := value.(*caddyevents.App)
	emit := newEmitter(ctx, events)
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

// Another handler may send a message or move money: it must not do so again because one failed.
func TestARetryRunsOnlyTheHandlersThatFailed(t *testing.T) {
	config := &caddy.Config{AppsRaw: caddy.ModuleMap{"events": []byte(
		`{"subscriptions": [{"events": ["payment_confirmed"], "handlers": [{"handler": "test"}, {"handler": "test"}]}]}`)}}
	ctx := must(caddy.ProvisionContext(config))(t)
	value := must(ctx.App("events"))(t)
	events := value.(*caddyevents.App)
	emit := newEmitter(ctx, events)
	app := new(countingHandler)
	require.NoError(t, events.On("payment_confirmed", app))
	require.NoError(t, events.Start())
	t.Cleanup(func() { handleEvent = func(caddy.Event) error { return nil } })

	full, calls := errors.New("the disk is full"), 0
	handleEvent = func(caddy.Event) error {
		if calls++; calls == 2 || calls == 3 { // the second handler, and at its first retry
			return full
		}
		return nil
	}
	data := map[string]any{"id": "card:pi_1:1"}
	require.ErrorIs(t, emit("payment_confirmed", data), full)
	require.ErrorIs(t, emit("payment_confirmed", data), full)
	require.NoError(t, emit("payment_confirmed", data))
	require.Equal(t, 4, calls)
	require.EqualValues(t, 1, *app, "that of another app")
	require.NoError(t, emit("payment_confirmed", map[string]any{"id": "card:pi_2:1"}))
	require.Equal(t, 6, calls)
	require.EqualValues(t, 2, *app)
}

// countingHandler is subscribed by another app.
type countingHandler int

func (c *countingHandler) Handle(context.Context, caddy.Event) error {
	*c++
	return nil
}

// An announcement that a handler of the configuration fails is not lost, and the
// receiver "events" says so.
func TestAFailingHandlerHoldsUpTheEventsOfTheServer(t *testing.T) {
	raised := make(chan string, 100)
	handleEvent = func(e caddy.Event) error {
		raised <- e.Name() + " " + e.Data["id"].(string)
		return errors.New("the disk is full")
	}
	t.Cleanup(func() { handleEvent = func(caddy.Event) error { return nil } })
	o := &operated{newInstance(t), strings.TrimPrefix(freeOrigin(t), "http://")}
	options := "admin " + o.address + "\n\tevents {\n\t\ton payment_confirmed test\n\t}"
	require.NoError(t, loadCaddyfile(t, strings.Replace(o.caddyfile(books), "admin off", options, 1)))
	for _, reference := range []string{"INV-1", "INV-2"} {
		o.enter(`{"action":"enter","rail":"transfer","reference":"` + reference + `","amount":42,"sure":true,"date":"2026-11-20"}`)
	}
	require.Equal(t, "payment_confirmed transfer:INV-1:1", payoffertest.Untagged(t, <-raised))
	require.Eventually(t, func() bool { return onChain().Announcements(nil)[0].LastError == "handler_failed" }, 30*time.Second, time.Millisecond)
	for len(raised) > 0 {
		require.Equal(t, "payment_confirmed transfer:INV-1:1", payoffertest.Untagged(t, <-raised), "the second waits for the first")
	}
}
