package service

import (
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/clock"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/bitcoin"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/card"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/evm"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/storefront"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/pool"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
	"github.com/payoffer/caddy-pay-offer/payoffer/signature"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// qrKey is where the key of QR addresses is stored.
const qrKey = "pay_offer/qr.key"

// Share is what the offers of one configuration are put to work in: its use of
// the pool, and what they all stand on.
type Share struct {
	*pool.Use[Host]
	// Ledger is where the receipts of all offers are kept.
	Ledger *ledger.Ledger
	// LedgerKey and StorageKey tell ledgers and storages apart.
	LedgerKey, StorageKey pool.Key
	Instruments           *Instruments
	// Pulse tells what is due on the ledger.
	Pulse *ledger.Pulse
	// Clock says whether that of this machine is wrong.
	Clock *clock.Clock
}

// NewShare begins the share of a configuration. The ledger, which may be
// unopened, is made only where none is in use with the key.
func NewShare(use *pool.Use[Host], ledgerKey, storageKey pool.Key, newLedger func() (*ledger.Ledger, error), i *Instruments) (*Share, error) {
	book, err := pool.Acquire(use, ledgerKey, func(hosts *pool.Hosts[Host]) (*ledger.Ledger, error) {
		book, err := newLedger()
		if err == nil {
			book.Logger = logger(hosts)
		}
		return book, err
	})
	if err != nil {
		return nil, err
	}
	compared, err := pool.Acquire(use, pool.KeyOf("clock"), func(hosts *pool.Hosts[Host]) (*clock.Clock, error) {
		return clock.New(time.Now, logger(hosts)), nil
	})
	if err != nil {
		return nil, err
	}
	pulse, err := pool.Acquire(use, pool.KeyOf("pulse", ledgerKey), func(*pool.Hosts[Host]) (*ledger.Pulse, error) {
		return ledger.NewPulse(book), nil
	})
	return &Share{Use: use, Ledger: book, LedgerKey: ledgerKey, StorageKey: storageKey, Instruments: i, Clock: compared, Pulse: pulse}, err
}

// transport carries the calls to upstreams of a kind that the operator chose for
// the truth of what they say, which their Date is part of. Receivers of
// announcements are anybody's.
func (share *Share) transport(kind string) http.RoundTripper {
	return share.Clock.Transport(share.Instruments.Transport(kind))
}

// parts are what one offer is made of: each outlives configurations by itself,
// so that an offer whose description was changed goes on with all of them.
type parts struct {
	ledger       *ledger.Ledger
	pulse        *ledger.Pulse
	clock        *clock.Clock
	keys         *signature.Keys
	qrKey        *signature.Secret
	limiter      *x402.Limiter
	standing     *standing
	rates        *rate.Watcher // nil without a bitcoin rail
	facilitators map[pool.Key]*x402.Facilitator
	readers      map[int64]*evm.Chain     // by chain id
	chains       map[string]*evm.Observer // by rail; none where the chain is not read
	indexes      *bitcoin.Indexes         // nil where they are not asked, as the following
	bitcoin      *bitcoin.Observer
	card         *card.Observer
	storefronts  map[string]*storefront.Observer // by rail
}

// standing says whether an offer was ever open, with whatever settings.
type standing struct{ opened atomic.Bool }

// acquire takes the parts of an offer into use.
func (share *Share) acquire(s *Settings) (p *parts, err error) {
	a := acquisition{Share: share, settings: s}
	p = &parts{
		ledger: share.Ledger, pulse: share.Pulse, clock: share.Clock, facilitators: make(map[pool.Key]*x402.Facilitator),
		readers: make(map[int64]*evm.Chain), chains: make(map[string]*evm.Observer), storefronts: make(map[string]*storefront.Observer),
	}
	p.keys = part(&a, pool.KeyOf("signing keys", share.StorageKey, s.Offer.DID()), a.newKeys)
	p.qrKey = part(&a, pool.KeyOf("qr key", share.StorageKey), a.newQRKey)
	p.limiter = part(&a, pool.KeyOf("limiter", share.LedgerKey, s.Offer.ID, s.Limit), func(*pool.Hosts[Host]) (*x402.Limiter, error) {
		return x402.NewLimiter(s.Limit), nil
	})
	p.standing = part(&a, pool.KeyOf("standing", share.LedgerKey, share.StorageKey, s.Offer.ID), func(*pool.Hosts[Host]) (*standing, error) {
		return new(standing), nil
	})
	for _, u := range s.USDC {
		for _, f := range u.Facilitators {
			p.facilitators[facilitatorKey(f)] = part(&a, facilitatorKey(f), a.newFacilitator(f))
		}
		if len(u.RPC) > 0 {
			reader := part(&a, pool.KeyOf("chain", a.LedgerKey, u.Rail.Network.CAIP2(), u.RPC), a.newReader(u))
			p.readers[u.Rail.Network.ChainID] = reader
			p.chains[u.Rail.Name()] = part(&a, a.railKey(u.Rail, u.Rail.Network.CAIP2(), u.RPC, u.Confirm, u.FromBlock, s.OwnPayers), a.newChain(u, reader))
		}
	}
	if rail := s.Offer.Bitcoin(); rail != nil {
		rates := pool.KeyOf("rates", s.Rates)
		p.rates = part(&a, rates, a.newRates)
		if len(s.Bitcoin.Esplora) > 0 {
			p.indexes = part(&a, pool.KeyOf("indexes", s.Bitcoin.Esplora), newIndexes)
			p.bitcoin = part(&a, a.railKey(rail, s.Bitcoin, rates), a.newBitcoin(rail, p.rates, p.indexes))
		}
	}
	if s.Card.observed() {
		p.card = part(&a, a.railKey(s.Offer.Card, s.Card), a.newCard)
	}
	for _, shop := range s.Storefronts {
		if shop.observed() {
			p.storefronts[shop.Rail.Name()] = part(&a, a.railKey(shop.Rail, shop.Seller, shop.HookSecret, shop.Token, shop.Since), a.newStorefront(shop))
		}
	}
	return p, a.err
}

// acquisition takes parts into use until one cannot be made.
type acquisition struct {
	*Share
	settings *Settings
	err      error
}

// part takes one part into use; it is the zero value after an error.
func part[T any](a *acquisition, key pool.Key, make func(*pool.Hosts[Host]) (T, error)) (found T) {
	if a.err == nil {
		found, a.err = pool.Acquire(a.Use, key, make)
	}
	return found
}

// railKey is the key of what observes a rail: the observer of another offer, or
// of another ledger, is another one.
func (a *acquisition) railKey(rail offer.Rail, settings ...any) pool.Key {
	return pool.KeyOf("observer", a.LedgerKey, a.settings.account(rail), settings)
}

// facilitatorKey is equal for facilitators that are configured alike, at
// whatever rail and offer: what fails at one is not asked by another.
func facilitatorKey(c x402.FacilitatorConfig) pool.Key {
	return pool.KeyOf("facilitator", c.URL, c.KeyID, c.KeySecret, c.Timeout)
}

func (a *acquisition) newKeys(hosts *pool.Hosts[Host]) (*signature.Keys, error) {
	return signature.NewKeys(signature.KeysConfig{
		DID: a.settings.Offer.DID(), Path: a.settings.KeysPath, Storage: storage(hosts), Now: time.Now, Logger: logger(hosts),
	}), nil
}

func (a *acquisition) newQRKey(hosts *pool.Hosts[Host]) (*signature.Secret, error) {
	return signature.NewSecret(storage(hosts), qrKey, "the key of QR addresses"), nil
}

// storage is that of the configuration that started last.
func storage(hosts *pool.Hosts[Host]) func() signature.Storage {
	return func() signature.Storage { return hosts.Current().Storage }
}

func (a *acquisition) newFacilitator(c x402.FacilitatorConfig) func(*pool.Hosts[Host]) (*x402.Facilitator, error) {
	return func(hosts *pool.Hosts[Host]) (*x402.Facilitator, error) {
		c.Transport, c.Now, c.Logger = a.transport("facilitator"), time.Now, logger(hosts)
		return x402.NewFacilitator(c)
	}
}

// newReader makes what reads the chain of a rail for all offers that have its
// endpoints.
func (a *acquisition) newReader(u USDC) func(*pool.Hosts[Host]) (*evm.Chain, error) {
	return func(hosts *pool.Hosts[Host]) (*evm.Chain, error) {
		return evm.NewChain(reader(u, a.Ledger, a.Clock, a.Instruments, logger(hosts)))
	}
}

// reader says how the chain of a rail is read.
func reader(u USDC, book *ledger.Ledger, c *clock.Clock, i *Instruments, logger *slog.Logger) evm.ChainConfig {
	network := u.Rail.Network.CAIP2()
	return evm.ChainConfig{
		Network: u.Rail.Network, Endpoints: u.RPC, HeadTime: func(unix int64) { c.Block(network, unix) },
		Ledger: book, Transport: c.Transport(i.Transport("rpc")), Now: time.Now, Logger: logger.With("network", network),
	}
}

func (a *acquisition) newChain(u USDC, reader *evm.Chain) func(*pool.Hosts[Host]) (*evm.Observer, error) {
	return func(hosts *pool.Hosts[Host]) (*evm.Observer, error) {
		return evm.New(chain(a.settings, u, reader, a.Ledger, a.Clock, logger(hosts).With("offer", a.settings.Offer.ID)))
	}
}

// chain says how a USDC rail is observed.
func chain(s *Settings, u USDC, reader *evm.Chain, book *ledger.Ledger, c *clock.Clock, logger *slog.Logger) evm.Config {
	return evm.Config{
		OfferID: s.Offer.ID, USDC: u.Rail, Chain: reader, Confirm: u.Confirm, FromBlock: u.FromBlock, Own: s.own,
		ClockOffset: c.Offset, Ledger: book, Now: time.Now, Logger: logger,
	}
}

func (a *acquisition) newRates(hosts *pool.Hosts[Host]) (*rate.Watcher, error) {
	return rate.New(rate.Config{
		Sources: a.settings.Rates, Transport: a.transport("rates"), Now: time.Now, Logger: logger(hosts),
	})
}

func newIndexes(*pool.Hosts[Host]) (*bitcoin.Indexes, error) {
	return bitcoin.NewIndexes(time.Now), nil
}

func (a *acquisition) newBitcoin(rail *offer.Bitcoin, rates *rate.Watcher, indexes *bitcoin.Indexes) func(*pool.Hosts[Host]) (*bitcoin.Observer, error) {
	return func(hosts *pool.Hosts[Host]) (*bitcoin.Observer, error) {
		return bitcoin.New(coins(a.settings, a.settings.Bitcoin, rail, rates, indexes, a.Ledger, a.Clock, a.Instruments, a.railLogger(hosts, rail)))
	}
}

// coins says how a Bitcoin rail is observed.
func coins(s *Settings, b Bitcoin, rail *offer.Bitcoin, rates *rate.Watcher, indexes *bitcoin.Indexes, book *ledger.Ledger, c *clock.Clock, i *Instruments, logger *slog.Logger) bitcoin.Config {
	return bitcoin.Config{
		OfferID: s.Offer.ID, Rail: rail, Endpoints: b.Esplora, Indexes: indexes, Confirmations: b.Confirmations, Since: b.Since, ClockOffset: c.Offset,
		Rate:   rates.Current,
		Ledger: book, Transport: c.Transport(i.Transport("esplora")), Now: time.Now, Logger: logger,
	}
}

func (a *acquisition) newCard(hosts *pool.Hosts[Host]) (*card.Observer, error) {
	s := a.settings
	return card.New(card.Config{
		OfferID: s.Offer.ID, Account: s.Offer.AccountOf(s.Offer.Card), Rail: s.Offer.Card.Name(),
		PaymentLink: s.Offer.Card.PaymentLink, TestMode: s.Offer.Card.TestMode, Secret: s.Card.WebhookSecret, APIKey: s.Card.APIKey,
		Since: s.Card.Since, ClockOffset: a.Clock.Offset,
		Ledger: a.Ledger, Transport: a.transport("card"), Now: time.Now, Logger: a.railLogger(hosts, s.Offer.Card),
	})
}

func (a *acquisition) newStorefront(shop Storefront) func(*pool.Hosts[Host]) (*storefront.Observer, error) {
	return func(hosts *pool.Hosts[Host]) (*storefront.Observer, error) {
		return storefront.New(storefront.Config{
			OfferID: a.settings.Offer.ID, Account: a.settings.Offer.AccountOf(shop.Rail), Rail: shop.Rail.Name(),
			Seller: shop.Seller, Product: shop.Rail.Product, Secret: shop.HookSecret, Token: shop.Token,
			Since: shop.Since, ClockOffset: a.Clock.Offset,
			Ledger: a.Ledger, Transport: a.transport("storefront"), Now: time.Now, Logger: a.railLogger(hosts, shop.Rail),
		})
	}
}

func (a *acquisition) railLogger(hosts *pool.Hosts[Host], rail offer.Rail) *slog.Logger {
	return logger(hosts).With("offer", a.settings.Offer.ID, "rail", rail.Name())
}
