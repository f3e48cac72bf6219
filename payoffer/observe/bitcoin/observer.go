// Package bitcoin observes the payments to a Bitcoin address, or to the addresses of an extended public key, through
// Esplora HTTP APIs.
//
// A payment counts when two hosts show it confirmed on the best chain, or one if only one is awaited
// (observe.Witness). It is read again until its block is final. Unconfirmed payments are shown and not counted. Old
// addresses are read forever.
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

// DefaultConfirmations is the number of blocks at which a payment counts by default.
const DefaultConfirmations = 2

const (
	// pollEvery is the longest time between two cycles while a payment can still change or few accounts are idle.
	pollEvery = 30 * time.Second
	// lateAfter is the age of the last cycle at which the rail is reported as lagging.
	lateAfter = 5 * time.Minute
	// staleAfter is the age of the newest block at which an endpoint seems stuck. Bitcoin has such a gap once in many
	// years.
	staleAfter = 3 * time.Hour
	// A block is final at minFinal confirmations, or at finalMargin more than the configured ones.
	minFinal, finalMargin = 12, 6
)

// Ledger is what the observer needs of the ledger; *ledger.Ledger implements it.
type Ledger interface {
	observe.Ledger
	Receipt(ctx context.Context, offer, account, externalID string) (r ledger.Receipt, found bool, err error)
	Unfinal(ctx context.Context, offer, account string, limit int) ([]ledger.Receipt, error)
	StoreQuote(ctx context.Context, offer string, satoshis, usdCents, at int64) error
	Accounts(ctx context.Context, offer string) ([]ledger.Account, error)
	Quoted(ctx context.Context, offer string, satoshis, since, until int64) (q ledger.Quote, found bool, err error)
}

// Config configures an Observer.
type Config struct {
	OfferID string
	// Rail is the rail; its Account is the account in the ledger.
	Rail *offer.Bitcoin
	// Endpoints are base URLs of Esplora APIs; https, or http on loopback. Two awaited hosts must agree. While only
	// one is awaited it is trusted, and the rail is partial.
	Endpoints []string
	// Indexes is shared by observers with the same Endpoints; nil is private.
	Indexes *Indexes
	// Confirmations is the number of blocks, the payment's own included, at which a payment counts; at least 1.
	Confirmations int
	// Rate returns the current price of a bitcoin, if known. Required.
	Rate func() (rate.Rate, bool)
	// Since is the time from which payments count, in Unix seconds; 0 is the first start. It can also be set later.
	Since int64
	// ClockOffset is how far this machine's clock is proven to be ahead; nil is never. It corrects the origin.
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
	need      int // hosts that must agree while all answer
	quotes    quotes
	// pollLoop runs the cycles; quoteLoop stores the quotes in between.
	pollLoop, quoteLoop source.Loop
	addressListeners    source.Listeners

	cycle sync.Mutex // held during a cycle; guards the fields below
	memory
	wallets map[string]*wallet // by account
	busy    bool               // the last cycle found payments that can change, or searched addresses

	mu      sync.Mutex // guards the fields below
	health  observe.Health
	ended   time.Time // the last cycle
	address string
}

// New prepares the observer. It makes no network call.
func New(c Config) (*Observer, error) {
	if len(c.Endpoints) == 0 {
		return nil, errors.New("no Esplora endpoint is configured; add the option 'esplora <url>'")
	}
	if c.Confirmations < 1 {
		return nil, fmt.Errorf("confirmations is %d, but an unconfirmed payment can be withdrawn; use 1 or more", c.Confirmations)
	}
	source.Default(&c.Now, &c.Random, &c.Logger)
	if c.Indexes == nil {
		c.Indexes = NewIndexes(c.Now)
	}
	o := &Observer{
		config: c, memory: newMemory(), wallets: make(map[string]*wallet),
		health: observe.Health{Rail: c.Rail.Name(), Source: "chain", Blind: true, Partial: true},
	}
	o.pollLoop = source.Loop{
		Poll: func(ctx context.Context) (time.Duration, error) {
			if !o.busy {
				c.Indexes.waitTurn(ctx)
			}
			err := o.Poll(ctx)
			if o.busy {
				return source.Spread(pollEvery, c.Random()), err
			}
			return source.Spread(c.Indexes.every(), c.Random()), err
		},
		OnChange: o.logProblem,
	}
	o.quoteLoop = source.Loop{Poll: func(ctx context.Context) (time.Duration, error) {
		return renewEvery, o.storeQuotes(ctx)
	}}
	for _, address := range c.Endpoints {
		e, err := newEndpoint(address, &c)
		if err != nil {
			return nil, err
		}
		o.endpoints = append(o.endpoints, e)
	}
	o.need = observe.RequiredWitnesses(len(Hosts(c.Endpoints)))
	if c.Rail.Extended() {
		return o, nil
	}
	w, err := o.watch(0)
	o.address, o.swept = w.address, true
	return o, err
}

// DefaultEndpoints returns public Esplora APIs of the rail's network; none for a regression-test network.
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

// Hosts returns the distinct host names of endpoints. Several endpoints of one host are one witness.
func Hosts(endpoints []string) (names []string) {
	for _, address := range endpoints {
		if u, err := url.Parse(address); err == nil {
			names = append(names, hostOf(u))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Load publishes the address that the cursor of an extended key names. A new key has none: Run searches the chain
// first, so that no address is used twice after a restore. The error is an *observe.Error; Run retries.
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

// Run observes until ctx ends. It can be called again.
func (o *Observer) Run(ctx context.Context) {
	defer o.config.Indexes.use()()
	var storing sync.WaitGroup
	storing.Go(func() { o.quoteLoop.Run(ctx) })
	defer storing.Wait()
	o.pollLoop.Run(ctx)
}

// Listen calls changed after each change of Address, until stop.
func (o *Observer) Listen(changed func()) (stop func()) { return o.addressListeners.Listen(changed) }

// Address is the address to publish: of an extended key the first unpaid one, empty until it is known.
func (o *Observer) Address() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.address
}

func (o *Observer) logProblem(err error) {
	problem := "bitcoin payments can be read only in part"
	if o.Health().Blind {
		problem = "bitcoin payments cannot be read"
	}
	source.Log(o.config.Logger, problem, "bitcoin payments can be read again")(err)
}

// Health reports how well the chain was last read, and whether that is late.
func (o *Observer) Health() observe.Health {
	o.mu.Lock()
	defer o.mu.Unlock()
	health := o.health
	if !health.Blind && o.config.Now().Sub(o.ended) > max(lateAfter, 2*o.config.Indexes.every()) {
		health.Partial, health.LastError = true, cmp.Or(health.LastError, observe.ErrLagging)
	}
	return health
}

// updateHealth stores the outcome of a cycle and returns its problem.
func (o *Observer) updateHealth(v *view, r *reading, err error) error {
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
	o.health.Partial = v.need < 2 || v.partial || !o.swept || r.stale || o.config.Since > 0 && !o.lowered
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
		o.addressListeners.Notify()
	}
	return nil
}

// final is the depth at which a block is final.
func (o *Observer) final() int64 { return max(minFinal, int64(o.config.Confirmations)+finalMargin) }
