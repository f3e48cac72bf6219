package service

import (
	"log/slog"

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

func (b Bitcoin) observe(svc *Service) (observer, error) {
	if err := svc.shareRates(); err != nil || len(b.Esplora) == 0 {
		return nil, err
	}
	svc.esplora = share(svc.Runtime, KeyOf("esplora", b.Esplora), new(bitcoin.Usage))
	return bitcoin.New(b.observer(svc, svc.esplora, svc.logger.With("rail", b.Name())))
}

// shareRates shares the price of bitcoin, from the sources of the Bitcoin rail or the default ones.
func (s *Service) shareRates() error {
	var sources []string
	for _, b := range RailsOf[Bitcoin](s.Settings) {
		sources = b.Rates
	}
	rates, err := rate.New(rate.Config{Sources: sources, Transport: s.Instruments.Transport("rates"), Logger: s.Logger})
	if err == nil {
		s.rates = share(s.Runtime, KeyOf("rates", sources), rates)
	}
	return err
}

func (b Bitcoin) observer(svc *Service, usage *bitcoin.Usage, logger *slog.Logger) bitcoin.Config {
	return bitcoin.Config{
		OfferID: svc.Offer.ID, Rail: b.Bitcoin, Endpoints: b.Esplora, Usage: usage, Confirmations: b.Confirmations, Since: b.Since,
		ClockOffset: svc.clockCorrection, Rate: svc.rates.Current,
		Ledger: svc.Ledger, Transport: svc.Instruments.Transport("esplora"), Logger: logger,
	}
}

// removedBitcoin reads all payments to an account that was removed, because payers keep
// addresses. Without a Bitcoin rail there is no price: the operator states the value.
func removedBitcoin(svc *Service, account string) (found removedAccount, ok bool) {
	rail, err := offer.ParseBitcoinAccount(account, svc.Offer.Amount)
	if err != nil {
		return found, false
	}
	b, usage := Bitcoin{Esplora: bitcoin.DefaultEndpoints(rail), Confirmations: bitcoin.DefaultConfirmations}, new(bitcoin.Usage)
	for _, configured := range RailsOf[Bitcoin](svc.Settings) {
		if configured.CAIP2() == rail.CAIP2() {
			b, usage = configured, svc.esplora
		}
	}
	if b.Bitcoin, b.Since = rail, 0; len(b.Esplora) == 0 { // since concerns the configured account
		return found, true
	}
	if o, err := bitcoin.New(b.observer(svc, usage, svc.logger.With("rail", rail.Name(), "account", "removed"))); err == nil {
		found.observer = o
	}
	return found, true
}
