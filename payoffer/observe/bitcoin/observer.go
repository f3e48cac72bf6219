// Package bitcoin observes the payments to a Bitcoin address, or to the addresses of an extended public key, through
// Esplora HTTP APIs.
//
// A cycle reads through one endpoint, the first one that answers, and through a witness: a live endpoint on another host
// (observe.Witness). Both must show a payment before it counts or is dropped, and a block before the cursor passes it. A
// payment is read again until its block is final. Unconfirmed payments are shown and not counted. Old addresses are read
// forever.
package bitcoin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
	// idleEvery is the time between two cycles of all idle accounts together, so that their number does not multiply the
	// calls.
	idleEvery = time.Second
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
	// Endpoints are base URLs of Esplora APIs, in the order in which they are used; https, or http on loopback. While
	// only one host is live it is trusted, and the rail is partial.
	Endpoints []string
	// Usage is shared by observers with the same Endpoints; nil is private.
	Usage *Usage
	// Confirmations is the number of blocks, the payment's own included, at which a payment counts; at least 1.
	Confirmations int
	// Rate returns the current price of a bitcoin, if known. Required.
	Rate func() (rate.Rate, bool)
	// Since is the block time from which payments count, in Unix seconds; 0 is the first start. It can also be set later.
	Since int64
	// ClockOffset is how far this machine's clock is ahead, as far as that is known; nil is never. It corrects the origin.
	ClockOffset func() time.Duration
	// source.Default sets the fields below, except the Ledger.
	Ledger    Ledger
	Transport http.RoundTripper
	Now       func() time.Time
	Random    func() float64
	Logger    *slog.Logger
}

// Usage counts the accounts that are read from the same endpoints.
type Usage struct{ accounts atomic.Int64 }

// every returns the time between two cycles of an idle account.
func (u *Usage) every() time.Duration {
	return max(pollEvery, time.Duration(u.accounts.Load())*idleEvery)
}

// Observer reads the payments of one Bitcoin rail.
type Observer struct {
	config    Config
	endpoints []*endpoint
	quotes    quotes
	// pollLoop runs the cycles; quoteLoop stores the quotes in between.
	pollLoop, quoteLoop source.Loop
	addressListeners    source.Listeners

	polling sync.Mutex // held during a cycle; guards the fields below
	busy    bool       // the last cycle found payments that can change, or searched addresses
	// undecided means that the last cycle waits for an endpoint, and logged has the transactions whose contradictions
	// were logged.
	undecided bool
	logged    map[string]bool
	// turn is the number of the cycle. It selects the receipts that this cycle looks up.
	turn int
	// swept is the number of cycles that were recorded since the origin was lowered.
	swept uint32
	// absent contains the times since which the transactions of receipts are unknown.
	absent map[string]time.Time
	// derived and scripts are the rail's addresses by index and by script in hexadecimal, wallets the offer's accounts and
	// own their scripts.
	derived map[uint32]string
	scripts map[string]string
	wallets map[string]*wallet
	own     map[string]bool

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
	if c.ClockOffset == nil {
		c.ClockOffset = func() time.Duration { return 0 }
	}
	c.Usage = cmp.Or(c.Usage, new(Usage))
	o := &Observer{
		config: c, absent: make(map[string]time.Time), logged: make(map[string]bool),
		derived: make(map[uint32]string), scripts: make(map[string]string), wallets: make(map[string]*wallet), own: make(map[string]bool),
		health: observe.Health{Rail: c.Rail.Name(), Source: "chain", Blind: true, Partial: true},
	}
	o.pollLoop = source.Loop{
		Poll: func(ctx context.Context) (time.Duration, error) {
			err, pause := o.Poll(ctx), pollEvery
			if !o.busy {
				pause = o.config.Usage.every()
			}
			return source.Spread(pause, c.Random()), err
		},
		OnChange: source.Log(c.Logger, "bitcoin payments cannot be read completely", "bitcoin payments can be read again"),
	}
	o.quoteLoop = source.Loop{Poll: o.renewQuote}
	for _, address := range c.Endpoints {
		base, err := offer.ParseURL(address)
		if err != nil {
			return nil, err
		}
		o.endpoints = append(o.endpoints, &endpoint{
			base: base, client: source.Client{Transport: c.Transport, Timeout: callTimeout}, now: c.Now, random: c.Random,
			lists: make(map[string]list),
		})
	}
	if c.Rail.Extended() {
		return o, nil
	}
	var err error
	o.address, err = o.watch(0)
	return o, err
}

// DefaultEndpoints returns public Esplora APIs of the rail's network; none for a regression-test network.
func DefaultEndpoints(b *offer.Bitcoin) []string {
	return map[string][]string{
		"bip122:000000000019d6689c085ae165831e93": {"https://mempool.space/api", "https://blockstream.info/api"},
		"bip122:000000000933ea01ad0ee984209779ba": {"https://mempool.space/testnet/api", "https://blockstream.info/testnet/api"},
	}[b.CAIP2()]
}

// Hosts returns the distinct host names of endpoints. Several endpoints of one host are one witness.
func Hosts(endpoints []string) (names []string) {
	for _, address := range endpoints {
		names = append(names, strings.ToLower(offer.Hostname(address)))
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
	if err != nil {
		return observe.ErrNoLedger
	}
	return o.publish(p.Index)
}

// Run observes until ctx ends. It can be called again.
func (o *Observer) Run(ctx context.Context) {
	others := o.config.Usage.accounts.Add(1) - 1
	defer o.config.Usage.accounts.Add(-1)
	var storing sync.WaitGroup
	storing.Go(func() { o.quoteLoop.Run(ctx) })
	defer storing.Wait()
	o.pollLoop.RunAfter(ctx, time.Duration(others)*idleEvery) // starts are spread
}

// Listen calls changed after each change of Address, until stop.
func (o *Observer) Listen(changed func()) (stop func()) { return o.addressListeners.Listen(changed) }

// Address is the address to publish: of an extended key the first unpaid one, empty until it is known.
func (o *Observer) Address() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.address
}

// Health reports how well the chain was last read, and whether that is late.
func (o *Observer) Health() observe.Health {
	o.mu.Lock()
	defer o.mu.Unlock()
	health := o.health
	if !health.Blind && o.config.Now().Sub(o.ended) > max(lateAfter, 2*o.config.Usage.every()) {
		health.Partial, health.LastError = true, cmp.Or(health.LastError, observe.ErrLagging)
	}
	return health
}

// updateHealth stores the outcome of a cycle and returns its problem.
func (o *Observer) updateHealth(c *cycle, err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = o.config.Now()
	o.health.Blind, o.health.LastError = err != nil, source.Code(err)
	if err != nil {
		return err
	}
	sweeping := o.swept < min((c.readings[0].oldest+slowAtOnce-1)/slowAtOnce, slowCycles)
	problem := cmp.Or(c.problem, c.reason)
	if known, ok := problem.(*observe.Error); ok && known.Code == observe.ErrHistory { // only one endpoint says so
		problem = &observe.Error{Code: observe.ErrDisagree, Host: known.Host}
	}
	partial := !c.trusted && len(c.hosts) < 2 || !c.settled && problem != nil
	o.health.Partial = partial || c.trusted || sweeping || c.stale
	o.health.LastError = source.Code(problem)
	if !c.waits {
		o.health.ObservedThrough, o.health.At = fmt.Sprintf("block %d", c.head), o.ended.Unix()
	}
	if c.stale && problem == nil {
		o.health.LastError = observe.ErrLagging
	}
	if partial || c.trusted && len(Hosts(o.config.Endpoints)) > 1 {
		return problem
	}
	return nil
}

// publish makes the address at an index the current one, if it is known.
func (o *Observer) publish(index *uint32) error {
	if index == nil {
		return nil
	}
	address, err := o.config.Rail.Address(*index)
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
