package service

import (
	"log/slog"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/bitcoin"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/pool"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
)

// Bitcoin says how the Bitcoin rail is priced and observed.
type Bitcoin struct {
	*offer.Bitcoin
	// Rates are the names of the price sources; empty means all.
	Rates []string
	// Esplora are the endpoints; empty if the chain is not read.
	Esplora       []string
	Confirmations int
	// Since is the Unix time from which payments count; 0 is the first start.
	Since int64
}

func init() { removedRails = append(removedRails, removedBitcoin) }

func (b Bitcoin) warn(logger *slog.Logger) {
	if hosts := bitcoin.Hosts(b.Esplora); len(hosts) == 1 {
		logger.Warn("one Esplora host is trusted without a second", "host", hosts[0],
			"hint", "name endpoints of two hosts in esplora; a payment then counts when both show it")
	}
	if b.Extended() {
		logger.Info("compare these addresses with your wallet", "addresses", b.FirstAddresses(),
			"hint", "they must be its first two receiving addresses; otherwise the wallet does not show payments")
	}
	warnUnreadSince(logger, b.Since, "esplora", len(b.Esplora) > 0)
}

func (b Bitcoin) observe(a *acquisition) observer {
	rates := pool.KeyOf("rates", b.Rates)
	a.rates = use(a, rates, func(e *environment) (*rate.Watcher, error) {
		return rate.New(rate.Config{Sources: b.Rates, Transport: a.transport("rates"), Now: time.Now, Logger: newLogger(e)})
	})
	if len(b.Esplora) == 0 {
		return nil
	}
	a.indexes = use(a, pool.KeyOf("indexes", b.Esplora), func(*environment) (*bitcoin.Indexes, error) {
		return bitcoin.NewIndexes(time.Now), nil
	})
	key := a.railKey(b, b.Esplora, b.Confirmations, b.Since, rates)
	return use(a, key, func(e *environment) (*bitcoin.Observer, error) {
		return bitcoin.New(b.observer(a.settings, a.dependencies, a.railLogger(e, b)))
	})
}

func (b Bitcoin) observer(s *Settings, d *dependencies, logger *slog.Logger) bitcoin.Config {
	return bitcoin.Config{
		OfferID: s.Offer.ID, Rail: b.Bitcoin, Endpoints: b.Esplora, Indexes: d.indexes, Confirmations: b.Confirmations, Since: b.Since,
		ClockOffset: d.Clock.Offset, Rate: d.rates.Current, Ledger: d.Ledger, Transport: d.transport("esplora"), Now: time.Now, Logger: logger,
	}
}

// removedBitcoin reads all payments to an account that was removed, because payers keep
// addresses. Without a Bitcoin rail there is no price: the operator states the value.
func removedBitcoin(r *removedAccounts, account string) (found removedAccount, ok bool) {
	rail, err := offer.ParseBitcoinAccount(account, r.settings.Offer.Amount)
	if err != nil {
		return found, false
	}
	b, d := Bitcoin{Esplora: bitcoin.DefaultEndpoints(rail), Confirmations: bitcoin.DefaultConfirmations}, *r.dependencies
	d.indexes = nil
	for _, configured := range RailsOf[Bitcoin](r.settings) {
		if configured.CAIP2() == rail.CAIP2() {
			b, d.indexes = configured, r.indexes
		}
	}
	if b.Bitcoin, b.Since = rail, 0; len(b.Esplora) == 0 { // since concerns the configured account
		return found, true
	}
	if o, err := bitcoin.New(b.observer(r.settings, &d, r.logger.With("rail", rail.Name(), "account", "removed"))); err == nil {
		found.observer = o
	}
	return found, true
}
