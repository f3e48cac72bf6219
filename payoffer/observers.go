package payoffer

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/bitcoin"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/card"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/storefront"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
	"github.com/payoffer/caddy-pay-offer/payoffer/web"
)

// observers read what arrives on the rails of one offer that are not USDC,
// which settlement reads. A rail that nobody observes has none.
type observers struct {
	bitcoin     *bitcoin.Observer
	card        *card.Observer
	storefronts map[string]*storefront.Observer
	// byHand are the rails of which the operator's entries tell.
	byHand []observe.Health
}

// newObservers puts the observers of an offer together. It calls nobody.
// moved is called when an extended key publishes another address.
func newObservers(s *settings, book *ledger.Ledger, rates func() (rate.Rate, bool), moved func(), logger *slog.Logger) (*observers, error) {
	found := &observers{storefronts: make(map[string]*storefront.Observer)}
	var err error
	for _, rail := range s.offer.Rails {
		account := s.account(rail).ID
		logger := logger.With("rail", rail.Name())
		switch rail := rail.(type) {
		case *offer.Transfer:
			found.byHand = append(found.byHand, observe.Health{Rail: rail.Name(), Source: "operator"})
		case *offer.Bitcoin:
			if len(s.bitcoin.esplora) == 0 {
				continue
			}
			found.bitcoin, err = bitcoin.New(bitcoin.Config{
				OfferID: s.offer.ID, Rail: rail, Endpoints: s.bitcoin.esplora, Confirmations: s.bitcoin.confirmations,
				Ledger: book, Rate: rates, Changed: moved, Transport: meteredTransport("esplora"), Now: time.Now, Logger: logger,
			})
		case *offer.Card:
			if !s.card.observed() {
				continue
			}
			found.card, err = card.New(card.Config{
				OfferID: s.offer.ID, Account: account, Rail: rail.Name(), PaymentLink: s.card.paymentLink,
				TestMode: s.card.testMode, Secret: s.card.secret, APIKey: s.card.apiKey,
				Ledger: book, Transport: meteredTransport("card"), Now: time.Now, Logger: logger,
			})
		case *offer.Storefront:
			shop := s.storefront(rail.Name())
			if !shop.observed() {
				continue
			}
			found.storefronts[rail.Name()], err = storefront.New(storefront.Config{
				OfferID: s.offer.ID, Account: account, Rail: rail.Name(), Seller: shop.seller, Product: shop.product,
				Secret: shop.secret, Token: shop.token,
				Ledger: book, Transport: meteredTransport("storefront"), Now: time.Now, Logger: logger,
			})
		}
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// load reads from the open ledger what a request may ask for at once.
func (o *observers) load(ctx context.Context) error {
	if o.bitcoin == nil {
		return nil
	}
	return o.bitcoin.Load(ctx)
}

// run observes until ctx ends.
func (o *observers) run(ctx context.Context) {
	var work sync.WaitGroup
	if o.bitcoin != nil {
		work.Go(func() { o.bitcoin.Run(ctx) })
	}
	if o.card != nil {
		work.Go(func() { o.card.Run(ctx) })
	}
	for _, shop := range o.storefronts {
		work.Go(func() { shop.Run(ctx) })
	}
	work.Wait()
}

// health says how well each rail is observed. It never blocks.
func (o *observers) health() []observe.Health {
	var health []observe.Health
	if o.bitcoin != nil {
		health = append(health, o.bitcoin.Health())
	}
	if o.card != nil {
		health = append(health, o.card.Health())
	}
	for _, shop := range o.storefronts {
		health = append(health, shop.Health())
	}
	return append(health, o.byHand...)
}

// hooks take the webhooks of the rails that have a secret for them.
func (o *observers) hooks(s *settings) web.Hooks {
	hooks := web.Hooks{Storefronts: make(map[string]observe.Hook)}
	if s.card.secret != "" {
		hooks.Card = o.card
	}
	for name, shop := range o.storefronts {
		if s.storefront(name).secret != "" {
			hooks.Storefronts[name] = shop
		}
	}
	return hooks
}

// address is the one that an extended key publishes now, empty while it is not
// known.
func (o *observers) address() string {
	if o.bitcoin == nil {
		return ""
	}
	return o.bitcoin.Address()
}

// quoted tells the observer at what amount the price was published.
func (o *observers) quoted(satoshis int64, price offer.USD) {
	if o.bitcoin != nil && satoshis > 0 {
		o.bitcoin.Quoted(satoshis, int64(price))
	}
}
