// Package storefront observes the sales of one product at a shop, Gumroad, by
// the shop's API.
//
// A notice (https://gumroad.com/ping) is unsigned, so it only has the list of
// sales read early. Without a token of the API the rail is not monitored.
package storefront

import (
	"cmp"
	"context"
	"crypto/sha256"
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
	// defaultAPI is where the shop answers, below which /v2/sales stands.
	defaultAPI = "https://api.gumroad.com"
	// minSecret is the length of the shortest webhook secret, in characters:
	// the secret is all that tells the shop's notices from others.
	minSecret = 16
	// staleAfter is how old the last complete reading of the list may be for
	// the sums to be taken as whole.
	staleAfter = time.Hour
)

// Ledger is what the observer reads and writes; *ledger.Ledger is one.
type Ledger interface {
	observe.Ledger
	Receipt(ctx context.Context, offer, account, externalID string) (ledger.Receipt, bool, error)
}

// Config says which sales are observed and how.
type Config struct {
	// OfferID, Account and Rail name the money in the ledger, where the
	// account is registered.
	OfferID, Account, Rail string
	// Seller is the seller's id; empty takes sales of any seller.
	Seller string
	// Product is the product's id or its short id. Sales of other products are
	// none of the offer's. (A custom permalink is no id: sales read from the
	// shop do not hold it, and it can be given to another product.)
	Product string
	// Secret is the last segment of the address to which notices are sent, at
	// least 16 characters; empty takes no notices.
	Secret string
	// Token is a token of the shop's API with the scope view_sales; without it
	// the rail is not monitored.
	Token string
	// API is the shop's address, default https://api.gumroad.com.
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

// Observer observes the sales of one product. Its methods may be used
// concurrently; one Run at a time.
type Observer struct {
	// cfg is without the secret and the token, which shop keeps.
	cfg Config
	// secret is the hash of the webhook secret, if there is one: hooked.
	secret [sha256.Size]byte
	hooked bool
	shop   *shop
	loop   source.Loop
	hook   observe.Deliveries
	// origin is from when on sales count, 0 while unknown, and first the first
	// start, both in Unix seconds.
	origin, first atomic.Int64
	// through is the Unix second up to which the list was read whole.
	through atomic.Int64
	// refused is a warning that is given once.
	refused sync.Once

	// noticed says that a notice came since the list was read.
	noticed atomic.Bool

	// The rest belongs to Run.
	walk *walk
	// listed is when the list was last read, due when it is to be read next.
	listed, due time.Time
}

// New checks the configuration and returns an observer. It calls nobody.
func New(cfg Config) (*Observer, error) {
	if cfg.Product == "" {
		return nil, errors.New("the storefront needs a product: other products of the same seller are not this offer")
	}
	if cfg.Secret == "" && cfg.Token == "" {
		return nil, errors.New("the storefront needs a webhook secret, an API token or both; without a token its sales are not monitored")
	}
	if err := checkSecret(cfg.Secret); err != nil {
		return nil, err
	}
	source.Default(&cfg.Now, &cfg.Random, &cfg.Logger)
	base, err := offer.ParseURL(cmp.Or(cfg.API, defaultAPI))
	if err != nil {
		return nil, fmt.Errorf("the storefront's API: %w", err)
	}
	o := &Observer{
		secret: sha256.Sum256([]byte(cfg.Secret)), hooked: cfg.Secret != "",
		shop: &shop{
			sales: base.JoinPath("v2", "sales").String(), host: base.Hostname(), token: cfg.Token,
			client: source.Client{Transport: cfg.Transport, Timeout: callTimeout},
		},
	}
	o.hook.Option, o.hook.Logger = "hook_secret", cfg.Logger
	cfg.Secret, cfg.Token = "", ""
	o.cfg = cfg
	o.loop = source.Loop{
		Round: o.round, Least: minPause, Most: maxPause, Random: cfg.Random,
		Turned: source.Log(cfg.Logger, "the storefront's sales cannot be observed now; they are read later",
			"the storefront's sales are observed again"),
	}
	return o, nil
}

// reads reports whether there is a token to read the shop with.
func (o *Observer) reads() bool { return o.shop.token != "" }

func checkSecret(secret string) error {
	if secret != "" && len(secret) < minSecret {
		return fmt.Errorf("the webhook secret has %d characters; use at least %d, as printed by 'openssl rand -hex 16'", len(secret), minSecret)
	}
	if strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("/?#%", r) }) {
		return errors.New("the webhook secret is the last segment of an address and holds a character that cannot stand there; use letters and digits, as printed by 'openssl rand -hex 16'")
	}
	return nil
}

// Health says how well the sales are observed. Without a token
// the rail has no source. Nothing is known before the origin is, and while the
// list was not read for an hour. The sums are a lower bound while an earlier
// origin is still to be read.
func (o *Observer) Health() observe.Health {
	if !o.reads() {
		return observe.Health{Rail: o.cfg.Rail, Partial: true, Blind: true, LastError: o.hook.Trouble()}
	}
	failure, _ := o.loop.Last()
	h := observe.Health{
		Rail: o.cfg.Rail, Source: "provider", Partial: true, Blind: true, LastError: cmp.Or(failure, o.hook.Trouble()),
	}
	if h.At = o.through.Load(); h.At > 0 {
		h.ObservedThrough = date(h.At)
		h.Blind = o.origin.Load() == 0 || o.cfg.Now().Sub(time.Unix(h.At, 0)) > staleAfter
		h.Partial = h.Blind
	}
	return h
}

var _ observe.Hook = (*Observer)(nil)
