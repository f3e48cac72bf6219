// Package storefront observes the sales of one Gumroad product through Gumroad's API.
//
// A ping (https://gumroad.com/ping) is unsigned, so it only makes the observer read the list of sales early. Without an
// API token the rail is not monitored.
package storefront

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
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
	defaultAPI = "https://api.gumroad.com"
	// minSecret is the length of the shortest webhook secret, in characters. Only the secret tells Gumroad's pings from others.
	minSecret = 16
	// staleAfter is the age of the last complete reading at which the sums are unknown.
	staleAfter = time.Hour
)

// Ledger is what the observer reads and writes; *ledger.Ledger implements it.
type Ledger interface {
	observe.Ledger
	Receipt(ctx context.Context, offer, account, externalID string) (ledger.Receipt, bool, error)
}

// Config says which sales are observed.
type Config struct {
	// OfferID, Account and Rail are those of the receipts. The account is registered in the ledger.
	OfferID, Account, Rail string
	// Seller is the seller's id; empty accepts any seller.
	Seller string
	// Product is the product's id or its short id. A custom permalink does not work: Gumroad's list does not contain it.
	Product string
	// Secret is the last segment of the ping address, at least 16 characters; empty accepts no pings.
	Secret string
	// Token is an API token with the scope view_sales; without it the rail is not monitored.
	Token string
	// API is the API's address, default https://api.gumroad.com.
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

// Observer observes the sales of one product. Its methods can be used concurrently, but only one Run at a time.
type Observer struct {
	// cfg is without the secret and the token, which only shop has.
	cfg Config
	// secret is the hash of the webhook secret, if hasSecret.
	secret     [sha256.Size]byte
	hasSecret  bool
	shop       *shop
	loop       source.Loop
	deliveries observe.Deliveries
	// origin is from when on sales count, 0 while unknown, and first the first start, both in Unix seconds.
	origin, first atomic.Int64
	// through is the Unix second up to which the list was read completely.
	through atomic.Int64
	// pinged says that a ping came since the list was read.
	pinged       atomic.Bool
	warnUnusable sync.Once

	// Only Run uses these: when the list was last read, and when it is to be read next.
	listed, due time.Time
}

// New checks the configuration. It makes no network call.
func New(cfg Config) (*Observer, error) {
	if cfg.Product == "" {
		return nil, errors.New("the storefront has no product; set the product's id, so that sales of your other products are not counted")
	}
	if cfg.Secret == "" && cfg.Token == "" {
		return nil, errors.New("the storefront has neither an API token nor a webhook secret; set the token to monitor its sales")
	}
	if err := checkSecret(cfg.Secret); err != nil {
		return nil, err
	}
	source.Default(&cfg.Now, &cfg.Random, &cfg.Logger)
	base, err := offer.ParseURL(cmp.Or(cfg.API, defaultAPI))
	if err != nil {
		return nil, fmt.Errorf("the address of the storefront's API: %w", err)
	}
	o := &Observer{
		secret: sha256.Sum256([]byte(cfg.Secret)), hasSecret: cfg.Secret != "",
		shop: &shop{
			sales: base.JoinPath("v2", "sales").String(), host: base.Hostname(), token: cfg.Token,
			client: source.Client{Transport: cfg.Transport, Timeout: callTimeout},
		},
	}
	o.deliveries.Option, o.deliveries.Logger = "hook_secret", cfg.Logger
	cfg.Secret, cfg.Token = "", ""
	o.cfg = cfg
	o.loop = source.Loop{
		Poll: o.poll, Least: minPause, Most: maxPause, Random: cfg.Random,
		OnChange: source.Log(cfg.Logger, "storefront sales cannot be read", "storefront sales can be read again"),
	}
	return o, nil
}

func (o *Observer) hasToken() bool { return o.shop.token != "" }

func checkSecret(secret string) error {
	if secret != "" && len(secret) < minSecret {
		return fmt.Errorf("the webhook secret has %d characters; use at least %d, such as the output of 'openssl rand -hex 16'", len(secret), minSecret)
	}
	if strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("/?#%", r) }) {
		return errors.New("the webhook secret contains a character that a URL cannot contain; use letters and digits, such as the output of 'openssl rand -hex 16'")
	}
	return nil
}

// Receive handles a ping. It is unsigned, so the body is not read: a ping only makes Run read the list early.
func (o *Observer) Receive(_ context.Context, d observe.Delivery) (observe.Verdict, string) {
	if detail, admitted := o.Admit(d.Header, d.Secret); !admitted {
		return observe.Unverified, detail
	}
	const read, unread = "the sale is recorded once the shop's API lists it", "not recorded, because the storefront has no API token; set one"
	o.deliveries.Update(observe.Ignored, read)
	if !o.hasToken() {
		return observe.Ignored, unread
	}
	o.pinged.Store(true)
	o.loop.Wake()
	return observe.Ignored, read
}

// Admit compares the secret of the address in constant time. A wrong secret that is long enough can be an older one
// that the shop still uses, and is reported; a short one is a guess.
func (o *Observer) Admit(_ http.Header, secret string) (detail string, admitted bool) {
	given := sha256.Sum256([]byte(secret))
	if o.hasSecret && subtle.ConstantTimeCompare(given[:], o.secret[:]) == 1 {
		return "", true
	}
	const other = "the secret in the address is wrong; copy the ping address of this storefront again"
	if len(secret) >= minSecret {
		o.deliveries.Update(observe.Unverified, other)
	}
	return other, false
}

// Health says how well the sales are observed. The sums are unknown before the list was read completely, and when that
// was an hour ago. Without a token the rail has no source.
func (o *Observer) Health() observe.Health {
	h := observe.Health{Rail: o.cfg.Rail, Partial: true, Blind: true, LastError: o.deliveries.Trouble()}
	if !o.hasToken() {
		return h
	}
	failure, _ := o.loop.Last()
	h.Source, h.Refunds, h.LastError = "provider", true, cmp.Or(failure, h.LastError)
	if h.At = o.through.Load(); h.At > 0 {
		h.ObservedThrough = formatTime(h.At)
		h.Blind = o.origin.Load() == 0 || o.cfg.Now().Sub(time.Unix(h.At, 0)) > staleAfter
		h.Partial = h.Blind
	}
	return h
}

var _ observe.Hook = (*Observer)(nil)
