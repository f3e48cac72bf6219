package service

import (
	"log/slog"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/bitcoin"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
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
			"hint", "name an endpoint on a second host in esplora; it can then contradict the first one")
	}
	if b.Extended() {
		logger.Info("compare these addresses with your wallet", "addresses", b.FirstAddresses(),
			"hint", "they must be its first two receiving addresses; otherwise the wallet does not show payments")
	}
	warnUnreadSince(logger, b.Since, "esplora", len(b.Esplora) > 0)
}

func (b Bitcoin) observe(s *Settings, d *dependencies) (observer, error) {
	if err := d.acquireRates(s); err != nil || len(b.Esplora) == 0 {
		return nil, err
	}
	d.esplora = share(d.Runtime, KeyOf("esplora", b.Esplora), new(bitcoin.Usage))
	return bitcoin.New(b.observer(s, d, d.railLogger(s, b)))
}

// acquireRates acquires the price of bitcoin, from the sources of the Bitcoin rail or the default ones.
func (d *dependencies) acquireRates(s *Settings) error {
	var sources []string
	for _, b := range RailsOf[Bitcoin](s) {
		sources = b.Rates
	}
	rates, err := rate.New(rate.Config{Sources: sources, Transport: d.Instruments.Transport("rates"), Now: time.Now, Logger: d.Logger})
	if err == nil {
		d.rates = share(d.Runtime, KeyOf("rates", sources), rates)
	}
	return err
}

func (b Bitcoin) observer(s *Settings, d *dependencies, logger *slog.Logger) bitcoin.Config {
	return bitcoin.Config{
		OfferID: s.Offer.ID, Rail: b.Bitcoin, Endpoints: b.Esplora, Usage: d.esplora, Confirmations: b.Confirmations, Since: b.Since,
		ClockOffset: d.clockCorrection, Rate: d.rates.Current, Ledger: d.Ledger, Transport: d.Instruments.Transport("esplora"), Now: time.Now, Logger: logger,
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
	d.esplora = nil
	for _, configured := range RailsOf[Bitcoin](r.settings) {
		if configured.CAIP2() == rail.CAIP2() {
			b, d.esplora = configured, r.esplora
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
