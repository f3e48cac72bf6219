package payoffer

import (
	"context"
	"errors"
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

// Durable delivery is that of a webhook: a handler that sends a message or moves money must not do so again.
func TestEventEmittedOnceIfHandlerFails(t *testing.T) {
	emitted := make(chan string, 100)
	handleEvent = func(e caddy.Event) error {
		emitted <- e.Name() + " " + payoffertest.Untagged(t, e.Data["id"].(string))
		return errors.New("the disk is full")
	}
	t.Cleanup(func() { handleEvent = func(caddy.Event) error { return nil } })
	o := &operated{newInstance(t), strings.TrimPrefix(freeOrigin(t), "http://")}
	options := "admin " + o.address + "\n\tevents {\n\t\ton payment_confirmed test\n\t\ton payment_confirmed test\n\t}"
	require.NoError(t, loadCaddyfile(t, strings.Replace(o.caddyfile(books), "admin off", options, 1)))
	for _, reference := range []string{"INV-1", "INV-2"} {
		o.enter(`{"action":"enter","rail":"transfer","reference":"` + reference + `","amount":42,"sure":true,"date":"2026-11-20"}`)
	}
	for _, want := range []string{"INV-1", "INV-1", "INV-2", "INV-2"} {
		require.Equal(t, "payment_confirmed transfer:"+want+":1", <-emitted)
	}
	require.Eventually(t, func() bool {
		events := onChain().Operator.Announcer.Health(nil)[0]
		return events.Behind == 0 && events.LastError == ""
	}, 30*time.Second, time.Millisecond)
	require.Empty(t, emitted)
}

// The next configuration emits what the handlers of an ended one may have missed.
func TestEmitFailsAfterConfigurationEnds(t *testing.T) {
	ctx := must(caddy.ProvisionContext(new(caddy.Config)))(t)
	var cancel context.CancelFunc
	ctx.Context, cancel = context.WithCancel(ctx.Context)
	app := new(App)
	require.NoError(t, app.Provision(ctx))
	require.NoError(t, app.emit("payment_confirmed", map[string]any{"id": "card:pi_1:1"}))
	cancel()
	require.Error(t, app.emit("payment_confirmed", map[string]any{"id": "card:pi_1:1"}))
}
