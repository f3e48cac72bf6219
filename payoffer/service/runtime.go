// Package service runs the offers of a configuration. It does not know Caddy.
//
// Each load of a configuration has a Runtime. It prepares the offers and makes their services without any I/O. Start
// opens the ledger, loads the keys, and stores the accounts, the prices and the positions of the notifications of all
// offers at once. Then each offer takes payments, resolves open ones and sends notifications; its observers begin one
// offer after the other. Stop ends that work, and Wait waits for its end.
//
// A load may start while the one before still runs: they are like two instances on one ledger. Config.Share has what
// outlives a load: the signing keys, the clients of chains, facilitators and price sources, and the memory of each offer.
// The ledger does, too. A payment that is taken holds it, because requests may be answered after Stop.
package service

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/evm"
	"github.com/payoffer/caddy-pay-offer/payoffer/signature"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// qrKeyPath is where the storage keeps the key of QR addresses.
const qrKeyPath = "pay_offer/qr.key"

// Instruments count and time what offers do. All loads share them.
type Instruments struct {
	// Transport carries the calls to upstreams of a kind, such as rpc.
	Transport func(kind string) http.RoundTripper
	// PublicTransport is Transport without private addresses, for addresses that an upstream names.
	PublicTransport func(kind string) http.RoundTripper
	// Mailed is called after each attempt to send an e-mail with the last status of the
	// mail server (0 for none) and the duration.
	Mailed func(host string, status int, took time.Duration)
	// Attempt is called with the outcome of each attempt to pay.
	Attempt func(offerID string, status x402.Status)
	// Delivery is called with the outcome of each inbound webhook.
	Delivery func(offerID, rail string, v observe.Verdict)
	// ClientIP is the address by which the rate limit counts a request.
	ClientIP func(r *http.Request) string
	// SiteFile is a file of the site; see web.Config.
	SiteFile func(r *http.Request, address string) []byte
}

// Runner is a shared value with work in the background, which ends with ctx.
type Runner interface{ Run(ctx context.Context) }

// Config is what one load of the configuration provides to its offers.
type Config struct {
	Ledger    *ledger.Ledger
	DuePoller *ledger.DuePoller
	// Open opens the ledger, after a former handle of it is closed.
	Open func(ctx context.Context) error
	// Hold keeps the ledger open until release, also after the load has ended; held is false if it is closed.
	Hold func() (release func(), held bool)
	// LedgerKey and StorageKey identify the ledger and the storage.
	LedgerKey, StorageKey string
	// Storage returns the storage with the secrets that instances share. A later load may replace it.
	Storage func() signature.Storage
	// Share returns the value that all loads have under a key, which is made if there is none. A Runner runs from the first
	// start on.
	Share func(key string, made any) any
	// Emit emits an event of the server, see announce.Config.
	Emit func(name string, data map[string]any) error
	// Exiting reports whether the process ends.
	Exiting     func() bool
	Instruments *Instruments
	Logger      *slog.Logger
}

// Runtime runs the offers of one load of the configuration.
type Runtime struct {
	Config
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
	// services and chains are complete before Start.
	services []*Service
	chains   map[*evm.Chain]bool
}

// NewRuntime does no I/O.
func NewRuntime(c Config) *Runtime {
	r := &Runtime{Config: c, chains: make(map[*evm.Chain]bool)}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// KeyOf is equal for the same kind and equal settings, compared as JSON. The settings may
// contain secrets: the key does not reveal them.
func KeyOf(kind string, settings ...any) string {
	text, err := json.Marshal(settings)
	if err != nil {
		panic("settings of a " + kind + ": " + err.Error()) // they are plain values
	}
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%d %s %s", len(kind), kind, text)))
}

// share returns what all loads have under a key, which is made if there is nothing.
func share[T any](r *Runtime, key string, made T) T { return r.Share(key, made).(T) }

// ClockOffset is how far the clock of this machine is ahead of the newest block, negative if it is behind; 0 up to a
// minute, and without a chain. Of several chains the nearest one counts, because a chain may stand still.
func (r *Runtime) ClockOffset() (nearest time.Duration) {
	known := false
	for chain := range r.chains {
		if offset, read := chain.ClockOffset(); read && (!known || offset.Abs() < nearest.Abs()) {
			nearest, known = offset, true
		}
	}
	return nearest
}

// longestCorrection bounds what the newest block says of this machine's clock. An older one shows a chain or an endpoint that
// stands still, and one in the future can be a lie.
const longestCorrection = 10 * time.Minute

// clockCorrection is what is subtracted from this machine's clock before it is compared with the times of a source, negative
// if the clock is behind.
func (r *Runtime) clockCorrection() time.Duration {
	return max(-longestCorrection, min(r.ClockOffset(), longestCorrection))
}
