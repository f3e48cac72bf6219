// Package bitcoin observes the payments to a Bitcoin address, or to the
// addresses of an extended public key, over Esplora HTTP APIs.
//
// A payment counts when it is confirmed on the best chain, by the word of two hosts
// if two are waited for, and is read again until it lies so deep that the chain
// will not change its mind. The mempool is shown and never counted. No address is ever given up: who pays late has
// paid.
package bitcoin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
)

// DefaultConfirmations is at how many blocks a payment counts where nobody says.
const DefaultConfirmations = 2

const (
	// pollEvery is the time between two rounds, at most, where there is a payment that
	// may still change, or few accounts are at rest.
	pollEvery = 30 * time.Second
	// lateAfter is the age of the last round at which what it said is too old, unless
	// many take turns.
	lateAfter = 5 * time.Minute
	// staleAfter is the age of the newest block at which an endpoint seems to
	// stand still: a block takes ten minutes, and three hours once in many years.
	staleAfter = 3 * time.Hour
	// minFinal is the least depth at which a block is final. Where more
	// confirmations are asked for, it is finalMargin beyond them.
	minFinal, finalMargin = 12, 6
)

// Ledger is what the observer needs of the ledger; *ledger.Ledger has it.
type Ledger interface {
	observe.Ledger
	Receipt(ctx context.Context, offer, account, externalID string) (r ledger.Receipt, found bool, err error)
	Unfinal(ctx context.Context, offer, account string, limit int) ([]ledger.Receipt, error)
	NoteQuote(ctx context.Context, offer string, satoshis, usdCents, at int64) error
	Accounts(ctx context.Context, offer string) ([]ledger.Account, error)
	Quoted(ctx context.Context, offer string, satoshis, since, until int64) (q ledger.Quote, found bool, err error)
}

// Config describes a Bitcoin rail to be observed.
type Config struct {
	// OfferID is the offer's id in the ledger.
	OfferID string
	// Rail is the rail; its Account is the account in the ledger.
	Rail *offer.Bitcoin
	// Endpoints are the base URLs of Esplora APIs; https, or http on loopback. Two
	// hosts of those that are waited for (observe.Witness) must agree on whatever is to
	// be true; money that only one of them shows is seen. While only one is waited for
	// its word is taken, and the rail is partial.
	Endpoints []string
	// Indexes is shared with the observers that have the same Endpoints; nil is this
	// one's own.
	Indexes *Indexes
	// Confirmations is the number of blocks, the payment's own included, at
	// which a payment counts; at least 1.
	Confirmations int
	// Rate is the current price of a bitcoin, if there is one. Required.
	Rate func() (rate.Rate, bool)
	// Since is from when on money counts, in Unix seconds; 0 is from the first
	// start on. It lowers the origin, also later.
	Since int64
	// ClockOffset is by how much the clock of this machine is proven to be ahead;
	// nil is never. The origin is corrected by it.
	ClockOffset func() time.Duration
	// source.Default sets the fields below, except the Ledger.
	Ledger    Ledger
	Transport http.RoundTripper
	Now       func() time.Time
	Random    func() float64
	Logger    *slog.Logger
}

// Observer reads the payments of one Bitcoin rail.
type Observer struct {
	config    Config
	endpoints []*endpoint
	need      int // how many hosts must show the same while all answer
	quotes    quotes
	// reading makes the rounds, and noting keeps the quotes of the meantime.
	reading, noting source.Loop
	moved           source.Listeners

	round sync.Mutex // held for a round; guards what follows
	memory
	wallets map[string]*wallet // by account
	busy    bool               // payments that may still change were known to it, or an address was searched

	mu      sync.Mutex // guards what follows
	health  observe.Health
	ended   time.Time // the last round
	address string
}

// New prepares the observer of a rail and calls nobody.
func New(c Config) (*Observer, error) {
	if len(c.Endpoints) == 0 {
		return nil, errors.New("a Bitcoin observer needs an Esplora endpoint")
	}
	if c.Confirmations < 1 {
		return nil, fmt.Errorf("%d confirmations: an unconfirmed payment can be taken back; ask for 1 or more", c.Confirmations)
	}
	source.Default(&c.Now, &c.Random, &c.Logger)
	if c.Indexes == nil {
		c.Indexes = NewIndexes(c.Now)
	}
	o := &Observer{
		config: c, memory: newMemory(), wallets: make(map[string]*wallet),
		health: observe.Health{Rail: c.Rail.Name(), Source: "chain", Blind: true, Partial: true},
	}
	o.reading = source.Loop{
		Round: func(ctx context.Context) (time.Duration, error) {
			if !o.busy {
				c.Indexes.turn(ctx)
			}
			err := o.Round(ctx)
			if o.busy {
				return source.Spread(pollEvery, c.Random()), err
			}
			return source.Spread(c.Indexes.every(), c.Random()), err
		},
		Turned: o.turned,
	}
	o.noting = source.Loop{Round: func(ctx context.Context) (time.Duration, error) {
		return renewEvery, o.keepQuotes(ctx)
	}}
	for _, address := range c.Endpoints {
		e, err := newEndpoint(address, &c)
		if err != nil {
			return nil, err
		}
		o.endpoints = append(o.endpoints, e)
	}
	o.need = observe.Needed(len(Hosts(c.Endpoints)))
	if c.Rail.Extended() {
		return o, nil
	}
	w, err := o.watch(0)
	o.address, o.walked = w.address, true
	return o, err
}

// DefaultEndpoints are public Esplora APIs of the rail's network; none for a
// regression-test network.
func DefaultEndpoints(b *offer.Bitcoin) []string {
	switch b.CAIP2() {
	case "bip122:000000000019d6689c085ae165831e93":
		return []string{"https://mempool.space/api", "https://blockstream.info/api"}
	case "bip122:000000000933ea01ad0ee984209779ba":
		return []string{"https://mempool.space/testnet/api", "https://blockstream.info/testnet/api"}
	default:
		return nil
	}
}

// Hosts are the names of the hosts of endpoints, each once: several endpoints of one
// host are one witness.
func Hosts(endpoints []string) (names []string) {
	for _, address := range endpoints {
		if u, err := url.Parse(address); err == nil {
			names = append(names, hostOf(u))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Load publishes the address that the ledger holds for an extended key, whose cursor
// is among those given, by their accounts. One that was never observed has none yet:
// Run looks on the chain first, so that no address is used twice after a restore. The
// error is an *observe.Error; Run tries again.
func (o *Observer) Load(cursors map[string]ledger.Cursor) error {
	c, found := cursors[o.config.Rail.Account()]
	if !found || !o.config.Rail.Extended() {
		return nil
	}
	p, err := parsePosition(c)
	switch {
	case err != nil:
		return observe.ErrNoLedger
	case p.Index == nil:
		return nil
	}
	return o.publish(*p.Index)
}

// Run observes until ctx ends. It may be called again afterwards.
func (o *Observer) Run(ctx context.Context) {
	done := make(chan struct{})
	o.Begin(ctx, func() { close(done) })
	<-done
}

// Begin is Run that does not wait: it calls ended when Run would return.
func (o *Observer) Begin(ctx context.Context, ended func()) {
	leave := o.config.Indexes.use()
	done := source.After(2, func() {
		leave()
		ended()
	})
	o.reading.Begin(ctx, done)
	o.noting.Begin(ctx, done)
}

// Listen has changed called whenever Address has changed, until stop.
func (o *Observer) Listen(changed func()) (stop func()) { return o.moved.Listen(changed) }

// Address is the address to be published now: of an extended key the first one
// that nobody has paid to, empty until it is known.
func (o *Observer) Address() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.address
}

// turned logs when a trouble begins, becomes another one, and is over.
func (o *Observer) turned(err error) {
	trouble := "bitcoin payments can be read in part"
	if o.Health().Blind {
		trouble = "bitcoin payments cannot be read; receipts wait"
	}
	source.Log(o.config.Logger, trouble, "bitcoin payments can be read again")(err)
}

// Health says how well the chain could be read last, and whether that is late. It never blocks for long.
func (o *Observer) Health() observe.Health {
	o.mu.Lock()
	defer o.mu.Unlock()
	health := o.health
	if !health.Blind && o.config.Now().Sub(o.ended) > max(lateAfter, 2*o.config.Indexes.every()) {
		health.Partial, health.LastError = true, cmp.Or(health.LastError, observe.ErrLagging)
	}
	return health
}

// report takes the outcome of a round into the health, and returns what is wrong
// with it. The reading is nil where there was none.
func (o *Observer) report(v *view, r *reading, err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = o.config.Now()
	if err != nil {
		o.health.Blind, o.health.LastError = true, source.Code(err)
		return err
	}
	o.health.Blind, o.health.LastError = r == nil, source.Code(v.problem)
	if r == nil {
		return v.problem
	}
	o.health.Partial = v.need < 2 || v.partial || !o.walked || r.stale || o.config.Since > 0 && !o.lowered
	if v.quorum() {
		o.health.ObservedThrough, o.health.At = fmt.Sprintf("block %d", r.tip.height), o.config.Now().Unix()
	}
	if r.stale && v.problem == nil {
		o.health.LastError = observe.ErrLagging
	}
	if v.partial || v.need < o.need {
		return v.problem
	}
	return nil
}

// publish makes the address at an index the current one.
func (o *Observer) publish(index uint32) error {
	address, err := o.config.Rail.Address(index)
	if err != nil {
		return err
	}
	o.mu.Lock()
	changed := o.address != address
	o.address = address
	o.mu.Unlock()
	if changed {
		o.moved.Tell()
	}
	return nil
}

// final is the depth at which a block is final.
func (o *Observer) final() int64 { return max(minFinal, int64(o.config.Confirmations)+finalMargin) }
