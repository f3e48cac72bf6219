package service

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/pool"
	"github.com/payoffer/caddy-pay-offer/payoffer/signature"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// Host is what a configuration lends to the offers at work.
type Host struct {
	// Logger takes the log lines of offers.
	Logger slog.Handler
	// Storage keeps secrets that instances share.
	Storage signature.Storage
	// Emit raises an event of the server and returns when it was handled; the
	// error is that of a handler.
	Emit func(name string, data map[string]any) error
}

// Instruments count and time what offers do. They are the same for all
// configurations.
type Instruments struct {
	// Transport carries the calls to upstreams of a kind: facilitator, rpc,
	// esplora, rates, card, storefront or announce.
	Transport func(kind string) http.RoundTripper
	// Mailed is told of each try to send an e-mail: the status of the mail server's
	// last answer, 0 for none, and how long it took.
	Mailed func(host string, status int, took time.Duration)
	// Attempt is told how an attempt to pay ended.
	Attempt func(offerID string, status x402.Status)
	// Delivery is told what became of a webhook.
	Delivery func(offerID, rail string, v observe.Verdict)
	// ClientIP is the address that the rate limit counts a request by.
	ClientIP func(r *http.Request) string
}

// logger writes to the log of the configuration that started last: what
// outlives a configuration must not keep writing to that one's.
func logger(hosts *pool.Hosts[Host]) *slog.Logger {
	return slog.New(forwarder{hosts, func(h slog.Handler) slog.Handler { return h }})
}

// forwarder is a slog.Handler that passes records on to the current host's.
type forwarder struct {
	hosts *pool.Hosts[Host]
	// derive adds the attributes and groups of the logger.
	derive func(slog.Handler) slog.Handler
}

func (f forwarder) current() slog.Handler { return f.derive(f.hosts.Current().Logger) }

// Enabled implements slog.Handler.
func (f forwarder) Enabled(ctx context.Context, level slog.Level) bool {
	return f.hosts.Current().Logger.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (f forwarder) Handle(ctx context.Context, r slog.Record) error {
	return f.current().Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (f forwarder) WithAttrs(attrs []slog.Attr) slog.Handler {
	return forwarder{f.hosts, func(h slog.Handler) slog.Handler { return f.derive(h).WithAttrs(attrs) }}
}

// WithGroup implements slog.Handler.
func (f forwarder) WithGroup(name string) slog.Handler {
	return forwarder{f.hosts, func(h slog.Handler) slog.Handler { return f.derive(h).WithGroup(name) }}
}
