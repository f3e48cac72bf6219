// Package card observes the hosted card checkout: it takes the processor's
// webhooks, and reads back through its API what webhooks missed. The processor
// is Stripe, and none of its libraries is needed.
package card

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	// defaultAPI is where the processor answers.
	defaultAPI = "https://api.stripe.com"
	// secretPrefix begins the signing secret of every webhook endpoint, and
	// secretLeast is how long the rest is at least. What is short or of another
	// kind could be guessed, or would verify nothing.
	secretPrefix, secretLeast = "whsec_", 16
)

// Ledger is where payments and what went back of them are kept; *ledger.Ledger is
// one.
type Ledger interface {
	observe.Ledger
	Receipt(ctx context.Context, offer, account, externalID string) (ledger.Receipt, bool, error)
	Returns(ctx context.Context, offer, account, externalID string) ([]ledger.Return, error)
}

// Config says whose money an Observer sees, and by what means.
type Config struct {
	// OfferID, Account and Rail are those of the receipts. The account is
	// registered with the ledger before Run and Receive.
	OfferID, Account, Rail string
	// PaymentLink is the id of the payment link, plink_…: other products of
	// the same processor's account are not this offer's.
	PaymentLink string
	// TestMode says that test payments are looked for, and no others.
	TestMode bool
	// Secret is the signing secret of the webhook endpoint, whsec_…, and
	// APIKey a key that may read checkout sessions, events, payment intents,
	// charges, refunds and disputes. One of the two may be empty.
	Secret, APIKey string
	// API is the processor's address; default https://api.stripe.com.
	API string
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

// Observer turns what the processor says into receipts. It is safe for
// concurrent use.
type Observer struct {
	config   Config
	money    scope
	provider *provider // nil without a key
	loop     source.Loop
	hook     observe.Deliveries

	begun atomic.Pointer[observe.Beginning] // nil while unknown
	mu    sync.Mutex                        // guards state
	state state
}

// New checks the configuration and calls nobody. Neither secret nor key, no
// payment link, a secret or key of another kind, a key of the wrong mode and an API
// that is no absolute URL are errors.
func New(c Config) (*Observer, error) {
	switch {
	case c.PaymentLink == "":
		return nil, errors.New("the card rail cannot be observed without the id of its payment link: set payment_link")
	case c.Secret == "" && c.APIKey == "":
		return nil, errors.New("the card rail cannot be observed without a webhook_secret or an api_key")
	case c.Secret != "" && !isSecret(c.Secret):
		return nil, errors.New("the card webhook_secret is no signing secret, which is whsec_ and at least 16 characters: copy it from the webhook endpoint at Stripe, without spaces or quotation marks around it")
	case strings.HasPrefix(c.APIKey, "pk_"):
		return nil, errors.New("the card api_key is a publishable key, which reads nothing: make a restricted one (rk_…)")
	case strings.ContainsAny(c.APIKey, "\"' \t"):
		return nil, errors.New("the card api_key has spaces or quotation marks around it; write it without, also into a file of --env-file")
	case c.TestMode && strings.Contains(c.APIKey, "_live_"):
		return nil, errors.New("the card api_key is for live payments, and test_mode is set: use the key of the test mode")
	case !c.TestMode && strings.Contains(c.APIKey, "_test_"):
		return nil, errors.New("the card api_key is for test payments: use the live key, or set test_mode")
	}
	source.Default(&c.Now, &c.Random, &c.Logger)
	o := &Observer{
		config: c,
		money:  scope{offer: c.OfferID, account: c.Account, rail: c.Rail, link: c.PaymentLink, test: c.TestMode},
	}
	o.hook.Option, o.hook.Logger = "webhook_secret", c.Logger
	o.loop = source.Loop{
		Round: o.round, Least: firstRetry, Most: maxRetry, Random: c.Random,
		Turned: source.Log(c.Logger, "card payments cannot be brought up to date; nothing is lost, it is tried again",
			"card payments are up to date again"),
	}
	if c.APIKey == "" {
		return o, nil
	}
	api, err := offer.ParseURL(cmp.Or(c.API, defaultAPI))
	if err != nil {
		return nil, fmt.Errorf("the address of the card processor's API: %w", err)
	}
	o.provider = &provider{api, c.APIKey, source.Client{Transport: c.Transport, Timeout: callTimeout}}
	return o, nil
}

// isSecret reports whether a text has the form of a signing secret.
func isSecret(text string) bool {
	rest, prefixed := strings.CutPrefix(text, secretPrefix)
	return prefixed && len(rest) >= secretLeast && !strings.ContainsFunc(rest, func(r rune) bool { return r <= ' ' || r > '~' })
}

// scoped is what this offer's money is, as soon as the ledger tells since when it
// counts.
func (o *Observer) scoped(ctx context.Context) (scope, error) {
	begun := o.begun.Load()
	if begun == nil {
		if err := o.begin(ctx); err != nil {
			return scope{}, err
		}
		begun = o.begun.Load()
	}
	money := o.money
	money.origin, money.first = begun.Origin, begun.First
	return money, nil
}

// begin finds out since when money counts. The operator may have lowered it.
func (o *Observer) begin(ctx context.Context) error {
	begun, err := observe.Begin(ctx, o.config.Ledger, o.money.offer, o.money.account, o.config.Since, o.config.ClockOffset, o.config.Now())
	if err != nil {
		return err
	}
	if begun.Before > 0 {
		words := "card payments count from an earlier time on, and are read back from there"
		if o.provider == nil {
			words = "card payments count from an earlier time on; without an api_key none of them is read back, and late webhooks alone tell of them"
		}
		o.config.Logger.Warn(words, "since", date(begun.Origin), "before", date(begun.Before))
	}
	o.begun.Store(&begun)
	return nil
}

func date(unix int64) string { return time.Unix(unix, 0).UTC().Format(time.RFC3339) }

// state is what Health tells.
type state struct {
	heardAt int64 // when a genuine delivery was last understood, in Unix seconds
	// readAt is when the API was last read to its end, covering everything up
	// to through, both in Unix seconds; through is by the processor's clock.
	readAt, through int64
}

func (o *Observer) update(change func(*state)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change(&o.state)
}

// Health tells how well the rail is observed. Webhooks alone are partial, for
// a lost one is never noticed. With a key the rail is whole while the last
// reading of the API succeeded; until then it is partial with webhooks, and
// blind without.
func (o *Observer) Health() observe.Health {
	o.mu.Lock()
	s := o.state
	o.mu.Unlock()
	failure, current := o.loop.Last()
	begun := o.begun.Load()
	current = current && begun != nil
	h := observe.Health{Rail: o.money.rail, Source: "webhook", Partial: true, At: s.heardAt, LastError: failure}
	if o.provider != nil {
		h.Source, h.At = "provider", s.readAt
		h.Partial = !current
		h.Blind = !current && o.config.Secret == ""
		if s.through > 0 {
			h.ObservedThrough = date(s.through)
		}
	}
	h.Blind = h.Blind || begun == nil
	if trouble := o.hook.Trouble(); h.LastError == "" || trouble == observe.ErrLedger {
		h.LastError = trouble
	}
	return h
}
