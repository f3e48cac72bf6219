// Package lightning makes invoices at the wallet of a Lightning address, and asks the wallet which of them were paid
// (LUD-21). The wallet's word is the evidence: the operator chose it, as a card processor.
package lightning

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/big"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	invoicesPerMinute = 30                     // of all payers of an offer
	hostEvery         = 500 * time.Millisecond // between two requests to a wallet's host
	staleAfter        = time.Hour              // the age of the last answer at which payments may be missing
	grace             = 24 * time.Hour         // an invoice is asked for after its end: a payment may be on its way
	abandonAfter      = 30 * 24 * time.Hour    // after that, if the wallet gives no answer
	watchFor          = 40 * time.Second       // a page is open after it was read
	watchedAge        = 10 * time.Minute       // an older invoice has no priority, even if its page is open
	loadEvery         = time.Minute            // the invoices of other instances are read
	longestPause      = time.Hour              // after failures
	watchedPause      = time.Minute            // the same while a page is open, also if the wallet asks for more
	unknownTimes      = 3                      // answers in a row, until an unknown invoice is reported
)

// Ledger is what the observer reads and writes; *ledger.Ledger implements it.
type Ledger interface {
	observe.Ledger
	InsertInvoice(ctx context.Context, i ledger.Invoice) (inserted bool, err error)
	OpenInvoices(ctx context.Context, offer, account string) ([]ledger.Invoice, error)
	CloseInvoice(ctx context.Context, hash string) error
}

// Config says whose invoices are made and observed.
type Config struct {
	OfferID string
	Rail    *offer.Lightning
	// Price is the price in satoshis at the current rate, and in US cents; 0 satoshis without a rate.
	Price func() (satoshis, usdCents int64)
	// Pace is that of all offers with the host of the wallet.
	Pace *rate.Limiter
	// Known is nil if no other observer shares it.
	Known  *Known
	Ledger Ledger
	// Transport refuses private addresses, unless the wallet is on this machine. source.Default sets the fields below.
	Transport http.RoundTripper
	Now       func() time.Time
	Random    func() float64
	Logger    *slog.Logger
}

// Known is what the wallet of an address has shown: that it gave an invoice when it was asked at a start, that it does not
// report payments, and that it reports them at another domain. Configurations share it, so that a reload makes no invoice.
type Known struct{ asked, silent, foreign atomic.Bool }

// Observer makes and observes the invoices of one offer at one wallet. It is safe for concurrent use, but only one Run
// at a time.
type Observer struct {
	Config
	wallet wallet
	loop   source.Loop
	budget *rate.Limiter

	mu      sync.Mutex
	open    map[string]*entry // by payment hash
	through time.Time         // when the wallet answered last, or nothing was open
	turn    int
	trouble string // why the last invoice was not made

	// Only Run uses these: when the ledger was read, and the error of the last request.
	loaded  time.Time
	failure error
}

// New makes an observer. It does no I/O.
func New(c Config) *Observer {
	source.Default(&c.Now, &c.Random, &c.Logger)
	c.Known = cmp.Or(c.Known, new(Known))
	o := &Observer{Config: c, wallet: newWallet(c), open: make(map[string]*entry)}
	o.budget = rate.NewLimiter(rate.Every(time.Minute/invoicesPerMinute), invoicesPerMinute)
	o.loop = source.Loop{
		Poll: o.poll, Random: c.Random,
		OnChange: source.Log(c.Logger, "lightning payments cannot be read", "lightning payments can be read again"),
	}
	return o
}

// Run asks for the open invoices until ctx ends. It can be called again.
func (o *Observer) Run(ctx context.Context) { o.loop.Run(ctx) }

// IsReady reports whether an invoice may be made now, as far as this server limits them. It takes nothing from the budget.
func (o *Observer) IsReady() bool { return o.budget.TokensAt(o.Now()) >= 1 }

// NewInvoice makes an invoice and stores it before it returns. A payment hash that was ever stored is refused: two payers
// would pay one purchase. Error: observe.ErrNoLedger, or another one if there is no invoice.
func (o *Observer) NewInvoice(ctx context.Context) (ledger.Invoice, error) {
	satoshis, cents := o.Price()
	if satoshis <= 0 || !o.budget.AllowN(o.Now(), 1) {
		return ledger.Invoice{}, errors.New("there is no exchange rate, or too many invoices were made in the last minute")
	}
	made, err := o.wallet.invoice(ctx, satoshis)
	o.learn(made, err)
	if err != nil {
		return ledger.Invoice{}, err
	}
	i := ledger.Invoice{
		Hash: made.hash, Offer: o.OfferID, Account: o.Rail.Account(), Rail: o.Rail.Name(), Request: made.text, Verify: made.verify,
		Satoshis: satoshis, USDCents: cents, CreatedAt: o.Now().Unix(), ExpireAt: made.expireAt.Unix(),
	}
	switch inserted, err := o.Ledger.InsertInvoice(ctx, i); {
	case err != nil:
		return ledger.Invoice{}, observe.ErrNoLedger
	case !inserted:
		o.Logger.Error("lightning wallet repeats an invoice", "hash", i.Hash, "hint", "it was refused, because two payers would pay one purchase; ask the wallet's provider")
		return ledger.Invoice{}, o.wallet.fail(o.Rail.ParametersURL())
	}
	o.add(i)
	o.loop.Wake()
	return i, nil
}

// learn keeps whether the wallet answers and reports payments, and logs the first foreign host.
func (o *Observer) learn(made request, err error) {
	o.mu.Lock()
	o.trouble = source.Code(err)
	o.mu.Unlock()
	if err != nil {
		o.Logger.Warn("lightning wallet gives no invoice", "error", err.Error(), "hint", "check the address, and the wallet and its limits")
		return
	}
	silent := made.verify == ""
	if was := o.Known.silent.Swap(silent); silent && !was {
		o.Logger.Warn("lightning wallet does not report payments", "hint", "enter each payment with 'caddy pay-offer record', or use a wallet with LUD-21 (verify)")
	}
	if made.foreign && !o.Known.foreign.Swap(true) {
		o.Logger.Warn("lightning payments are verified at another domain", "host", offer.Hostname(made.verify), "hint", "check that it is the wallet's provider")
	}
}

// Probe has the wallet make an invoice that no payer sees, and returns whether the wallet will report its payment.
func Probe(ctx context.Context, c Config) (reports bool, err error) {
	source.Default(&c.Now, &c.Random, &c.Logger)
	made, err := newWallet(c).invoice(ctx, 0)
	return made.verify != "", err
}

// Watch says that the page of an invoice is open now.
func (o *Observer) Watch(hash string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e := o.open[hash]; e != nil {
		if now := o.Now(); !e.isWatched(now) {
			defer o.loop.Wake()
		}
		e.watched = o.Now()
	}
}

// Health says how well payments are observed. Without verify the seller enters them. A wallet that answers about another
// payment is reported until it answers about ours.
func (o *Observer) Health() observe.Health {
	failure, _ := o.loop.Last()
	o.mu.Lock()
	defer o.mu.Unlock()
	h := observe.Health{Rail: o.Rail.Name(), Source: "provider", LastError: cmp.Or(failure, o.trouble)}
	if o.Known.silent.Load() {
		h.Source = "operator"
	}
	for _, e := range o.open {
		if e.contradicted {
			h.LastError = observe.ErrDisagree
		}
	}
	if !o.through.IsZero() {
		h.At, h.ObservedThrough = o.through.Unix(), o.through.UTC().Format(time.RFC3339)
	}
	h.Blind = o.Now().Sub(o.through) > staleAfter
	h.Partial = h.Blind
	return h
}

// NewPace spaces the requests of all offers to the host of a wallet.
func NewPace() *rate.Limiter { return rate.NewLimiter(rate.Every(hostEvery), 1) }

// poll asks for all invoices that are due. Its error is that of the last request, also of an earlier poll.
func (o *Observer) poll(ctx context.Context) (time.Duration, error) {
	if o.Now().Sub(o.loaded) >= loadEvery {
		if err := o.load(ctx); err != nil {
			return loadEvery, err
		}
	}
	for ctx.Err() == nil {
		next, pause := o.next()
		if next == nil {
			return pause, o.failure
		}
		o.failure = o.ask(ctx, next)
		if limited := (*source.Error)(nil); errors.As(o.failure, &limited) && limited.Wait > 0 {
			return o.shorten(limited.Wait), o.failure
		}
		if errors.Is(o.failure, observe.ErrNoLedger) {
			return loadEvery, o.failure
		}
	}
	return 0, nil
}

// shorten returns the pause that a wallet asked for, or less while a page is open.
func (o *Observer) shorten(pause time.Duration) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.open {
		if e.isWatched(o.Now()) {
			return min(pause, watchedPause)
		}
	}
	return pause
}

// load reads the open invoices of the ledger. At a start it asks the wallet for one, to learn whether it reports payments.
func (o *Observer) load(ctx context.Context) error {
	stored, err := o.Ledger.OpenInvoices(ctx, o.OfferID, o.Rail.Account())
	if err != nil {
		return observe.ErrNoLedger
	}
	for _, i := range stored {
		o.add(i)
	}
	o.loaded = o.Now()
	if o.Known.asked.Load() || o.Pace.Wait(ctx) != nil {
		return nil
	}
	made, err := o.wallet.invoice(ctx, 0)
	if ctx.Err() != nil {
		return nil
	}
	o.learn(made, err)
	o.Known.asked.Store(err == nil)
	return nil
}

func (o *Observer) add(i ledger.Invoice) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open[i.Hash] == nil && i.Verify != "" {
		o.open[i.Hash] = &entry{Invoice: i}
	}
}

// next returns the invoice that is to be asked for now, or nil and the time until one may be. A stranger can open many pages,
// and go on. So of four turns one is for the youngest invoice with an open page, two are for the most urgent of these, and one
// is for the invoice that waits longest.
func (o *Observer) next() (chosen *entry, pause time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, first, preferred := o.Now(), time.Time{}, false
	o.turn++
	pause = loadEvery
	for _, e := range o.open {
		due := e.due(now)
		if due.After(now) {
			pause = min(pause, due.Sub(now))
			continue
		}
		watched := o.turn%4 != 0 && e.isWatched(now)
		sooner := due.Before(first)
		switch {
		case watched && preferred && o.turn%4 == 1:
			sooner = e.CreatedAt > chosen.CreatedAt
		case watched && preferred && e.urgency(now) != chosen.urgency(now):
			sooner = e.urgency(now) > chosen.urgency(now)
		}
		if chosen == nil || watched && !preferred || watched == preferred && sooner {
			chosen, first, preferred = e, due, watched
		}
	}
	if o.failure == nil {
		o.through = now
	}
	return chosen, pause
}

// ask asks the wallet about one invoice and records its answer. An answer that nothing is known of is no failure.
func (o *Observer) ask(ctx context.Context, e *entry) error {
	if o.Pace.Wait(ctx) != nil {
		return nil
	}
	paid, preimage, err := o.wallet.isPaid(ctx, e.Invoice)
	if ctx.Err() != nil {
		return nil
	}
	now, end := o.Now(), time.Unix(e.ExpireAt, 0).Add(grace)
	if paid {
		if err := o.record(ctx, e, preimage, now); err != nil {
			return err
		}
	}
	closed := paid || now.After(end) && (err == nil || now.After(end.Add(abandonAfter)))
	if closed && o.Ledger.CloseInvoice(ctx, e.Hash) != nil {
		return observe.ErrNoLedger
	}
	o.note(e, err, now, closed)
	if errors.Is(err, errUnknown) || errors.Is(err, errContradiction) {
		return nil
	}
	return err
}

// note keeps the outcome of an answer, and logs what an operator should know.
func (o *Observer) note(e *entry, err error, now time.Time, closed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	e.asked = now
	if e.failures++; err == nil {
		e.failures, e.unpaid = 0, now
	}
	if e.unknown++; !errors.Is(err, errUnknown) {
		e.unknown = 0
	}
	const hint = "look in the wallet for this payment, and record it by its hash if it is there"
	contradicted := errors.Is(err, errContradiction)
	if contradicted && !e.contradicted {
		o.Logger.Error("lightning wallet answers about another payment", "hash", e.Hash, "hint", "nothing was recorded; "+hint)
	}
	if e.unknown == unknownTimes {
		o.Logger.Warn("lightning wallet does not know an invoice", "hash", e.Hash, "hint", hint)
	}
	if e.contradicted = contradicted; closed {
		delete(o.open, e.Hash)
	}
}

// record stores a paid invoice as a receipt, by its payment hash. The evidence is who said so, and whether with the fitting
// preimage. That itself stays out: everyone who saw the invoice can get it.
func (o *Observer) record(ctx context.Context, e *entry, preimage bool, now time.Time) error {
	cents, basis := &e.USDCents, ledger.BasisQuote
	if e.unpaid.Unix() > e.PriceUntil() {
		cents, basis = o.worth(e.Satoshis)
	}
	evidence := offer.JSON(map[string]any{"wallet": o.Rail.Address(), "verified": offer.Hostname(e.Verify), "preimage": preimage})
	_, err := observe.Record(ctx, o.Ledger, nil, ledger.Observation{
		Offer: e.Offer, Account: e.Account, Rail: e.Rail, ExternalID: e.Hash, Via: "link", Asset: offer.LightningAsset,
		Amount: e.Satoshis, USDCents: cents, ValueBasis: basis, State: ledger.StatusConfirmed,
		EvidenceLevel: ledger.LevelProvider, Evidence: evidence, OccurredAt: now.Unix(), Cause: "provider",
	})
	return err
}

// worth is the value of a payment after the time of its price, or nil without a rate: the seller states it then.
func (o *Observer) worth(satoshis int64) (*int64, ledger.ValueBasis) {
	price, cents := o.Price()
	if price <= 0 {
		return nil, ""
	}
	value := new(big.Int).Mul(big.NewInt(satoshis), big.NewInt(cents))
	cents = value.Quo(value, big.NewInt(price)).Int64()
	return &cents, ledger.BasisRate
}
