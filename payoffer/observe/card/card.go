// Package card observes the hosted card checkout, Stripe. It receives the webhooks, and reads through the API what the
// webhooks missed. It does not need Stripe's libraries.
package card

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
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
)

const defaultAPI, maxLinks = "https://api.stripe.com", 20

// Ledger is what the observer reads and writes.
type Ledger interface {
	observe.Ledger
	Receipt(ctx context.Context, offer, account, externalID string) (ledger.Receipt, bool, error)
	Returns(ctx context.Context, offer, account, externalID string) ([]ledger.Return, error)
}

// Config says whose payments are observed, and how.
type Config struct {
	// OfferID, Account and Rail are those of the receipts. The account is registered in the ledger.
	OfferID, Account, Rail string
	// PaymentLink is the id of the payment link, plink_…, so that payments for other products are not counted.
	PaymentLink string
	// TestMode says that only test payments are observed.
	TestMode bool
	// Secret is the signing secret of the webhook endpoint, whsec_…. APIKey is a key that can read checkout sessions,
	// events, payment intents, charges, refunds, disputes, payment links and prices. One of the two can be empty.
	Secret, APIKey string
	// API is the API's address; default https://api.stripe.com.
	API string
	// Since is from when on money counts, in Unix seconds; 0 is from the first start on. It lowers the origin, also later.
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

// Observer turns what Stripe reports into receipts. It is safe for concurrent use.
type Observer struct {
	config     Config
	provider   *provider // nil without a key
	loop       source.Loop
	deliveries observe.Deliveries

	scope atomic.Pointer[scope] // nil until the origin is known
	// deliveredAt is when a genuine delivery was last understood. readAt is when the API was last read to its end, up to
	// through by Stripe's clock. All are Unix seconds.
	deliveredAt, readAt, through atomic.Int64
	// warned has the refunds in another currency that the log has, because the API is read repeatedly.
	warned sync.Map
	// otherLinks has at most maxLinks payment links of other products, with the last day of each in the log.
	otherLinks map[string]int64
	linksMu    sync.Mutex
}

// New checks the configuration. It makes no network call.
func New(c Config) (*Observer, error) {
	switch {
	case c.PaymentLink == "":
		return nil, errors.New("card payments cannot be monitored without payment_link; set the id of the payment link, such as plink_1AbC")
	case c.Secret == "" && c.APIKey == "":
		return nil, errors.New("card payments cannot be monitored without webhook_secret or api_key; set one, such as 'api_key {env.CARD_API_KEY}'")
	case c.Secret != "" && !isSecret(c.Secret):
		return nil, errors.New("card webhook_secret: this is not a signing secret, which is whsec_ and at least 16 characters; copy it from the webhook endpoint at Stripe, without quotation marks")
	case strings.ContainsAny(c.APIKey, "\"' \t"):
		return nil, errors.New("card api_key: this contains spaces or quotation marks; write it without them, also in an --env-file")
	case c.TestMode && strings.Contains(c.APIKey, "_live_"):
		return nil, errors.New("card api_key: this is a live key, and test_mode is set; use a test key (rk_test_…), or remove test_mode")
	case !c.TestMode && strings.Contains(c.APIKey, "_test_"):
		return nil, errors.New("card api_key: this is a test key; use a live key (rk_live_…), or set test_mode")
	case strings.HasPrefix(c.APIKey, "{"):
		return nil, errors.New("card api_key: this placeholder does not end; write its closing brace, as in {env.CARD_API_KEY}")
	case c.APIKey != "" && !strings.HasPrefix(c.APIKey, "rk_"):
		return nil, errors.New("card api_key: this is not a restricted key, which begins with rk_ (the webhook's whsec_… belongs into webhook_secret); create one at Stripe, as docs/guides/stripe says")
	}
	source.Default(&c.Now, &c.Random, &c.Logger)
	o := &Observer{config: c, otherLinks: map[string]int64{}}
	o.deliveries.Option, o.deliveries.Logger = "webhook_secret", c.Logger
	o.loop = source.Loop{
		Poll: o.poll, Least: firstRetry, Most: maxRetry, Random: c.Random,
		OnChange: source.Log(c.Logger, "card payments cannot be read", "card payments can be read again"),
	}
	if c.APIKey == "" {
		return o, nil
	}
	api, err := offer.ParseURL(cmp.Or(c.API, defaultAPI))
	if err != nil {
		return nil, fmt.Errorf("the address of Stripe's API: %w", err)
	}
	o.provider = &provider{api, c.APIKey, source.Client{Transport: c.Transport, Timeout: callTimeout}}
	return o, nil
}

// isSecret reports whether a text has the form of a signing secret and is too long to be guessed.
func isSecret(text string) bool {
	rest, prefixed := strings.CutPrefix(text, "whsec_")
	return prefixed && len(rest) >= 16 && !strings.ContainsFunc(rest, func(r rune) bool { return r <= ' ' || r > '~' })
}

// loadScope loads from when on money counts. The operator may have lowered it.
func (o *Observer) loadScope(ctx context.Context) (scope, error) {
	c := &o.config
	begun, err := observe.Begin(ctx, c.Ledger, c.OfferID, c.Account, c.Since, c.ClockOffset, c.Now())
	if err != nil {
		return scope{}, err
	}
	if begun.Before > 0 {
		c.Logger.Warn("card payments are read again", "since", formatTime(begun.Origin), "before", formatTime(begun.Before),
			"hint", "set api_key if they are missing; webhooks report only new ones")
	}
	s := scope{
		offer: c.OfferID, account: c.Account, rail: c.Rail, link: c.PaymentLink, test: c.TestMode,
		origin: begun.Origin, first: begun.First,
	}
	if before := o.scope.Load(); before != nil {
		s.prices = before.prices
	}
	o.scope.Store(&s)
	return s, nil
}

func formatTime(unix int64) string { return time.Unix(unix, 0).UTC().Format(time.RFC3339) }

// Health says how well the rail is observed. Webhooks without a key are partial, because a lost one is not noticed. With
// a key the rail is complete while the last poll succeeded; else it is partial with webhooks, and blind without.
func (o *Observer) Health() observe.Health {
	failure, current := o.loop.Last()
	h := observe.Health{Rail: o.config.Rail, Source: "webhook", Refunds: true, Partial: true, At: o.deliveredAt.Load(), LastError: failure}
	if o.provider != nil {
		h.Source, h.At, h.Partial = "provider", o.readAt.Load(), !current
		h.Blind = !current && o.config.Secret == ""
		if through := o.through.Load(); through > 0 {
			h.ObservedThrough = formatTime(through)
		}
	}
	if o.scope.Load() == nil {
		h.Blind, h.Partial = true, true
	}
	h.Deliveries = o.deliveries.Trouble()
	if h.LastError == "" || h.Deliveries == observe.ErrLedger {
		h.LastError = h.Deliveries
	}
	o.linksMu.Lock()
	defer o.linksMu.Unlock()
	h.OtherLinks = strings.Join(slices.Sorted(maps.Keys(o.otherLinks)), " ")
	return h
}

// warnLink logs a paid checkout of another payment link, once for each link and day.
func (o *Observer) warnLink(u *unusableError) {
	o.linksMu.Lock()
	defer o.linksMu.Unlock()
	day, known := o.otherLinks[u.otherLink]
	if u.otherLink == "" || known && day >= u.day || !known && len(o.otherLinks) == maxLinks {
		return
	}
	o.otherLinks[u.otherLink] = u.day
	o.config.Logger.Warn("paid checkout of another payment link ignored", "payment_link", o.config.PaymentLink, "paid_link", u.otherLink,
		"hint", "write it into payment_link if it sells this offer")
}
