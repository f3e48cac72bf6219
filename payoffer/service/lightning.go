package service

import (
	"log/slog"
	"strings"
	"time"

	limit "golang.org/x/time/rate"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/lightning"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
)

// Lightning is a rail whose invoices are made and observed at a wallet.
type Lightning struct{ *offer.Lightning }

func init() { removedRails = append(removedRails, removedLightning) }

func (l Lightning) observe(s *Settings, d *dependencies) (observer, error) {
	if err := d.acquireRates(s); err != nil {
		return nil, err
	}
	pace := share(d.Runtime, KeyOf("wallet", l.host()), lightning.NewPace())
	config := l.observer(s, d, pace, d.railLogger(s, l))
	config.Known = share(d.Runtime, KeyOf("wallet's answers", l.Address()), new(lightning.Known))
	o := lightning.New(config)
	d.invoices[l.Name()] = o
	return o, nil
}

func (l Lightning) host() string { return offer.Hostname(l.ParametersURL()) }

func (l Lightning) observer(s *Settings, d *dependencies, pace *limit.Limiter, logger *slog.Logger) lightning.Config {
	transport := d.Instruments.Transport
	if !l.IsLocal() {
		transport = d.Instruments.PublicTransport
	}
	return lightning.Config{
		OfferID: s.Offer.ID, Rail: l.Lightning, Pace: pace, Ledger: d.Ledger, Transport: transport("wallet"), Now: time.Now, Logger: logger,
		Price: func() (satoshis, usdCents int64) {
			current, _ := d.rates.Current()
			return rate.Satoshis(int64(s.Offer.Amount), current), int64(s.Offer.Amount)
		},
	}
}

// watchInvoice says that a payer looks at an invoice, of a configured address or one that was removed.
func (r *removedAccounts) watchInvoice(account, hash string) {
	for _, configured := range r.dependencies.observers {
		if o, ok := configured.(*lightning.Observer); ok && o.Rail.Account() == account {
			o.Watch(hash)
			return
		}
	}
	if o, ok := r.get(account).observer.(*lightning.Observer); ok {
		o.Watch(hash)
	}
}

// removedLightning asks for the open invoices of an address that was removed, at the pace of the configured one on its host.
func removedLightning(r *removedAccounts, account string) (found removedAccount, ok bool) {
	address, ours := strings.CutPrefix(account, offer.RailLightning+"/")
	rail, err := offer.NewLightning(address, r.settings.Offer.Amount)
	if err != nil || !ours {
		return found, false
	}
	l, pace := Lightning{rail}, lightning.NewPace()
	for _, configured := range RailsOf[Lightning](r.settings) {
		if o, running := r.dependencies.observers[configured.Name()].(*lightning.Observer); running && configured.host() == l.host() {
			pace = o.Pace
		}
	}
	found.observer = lightning.New(l.observer(r.settings, r.dependencies, pace, r.logger.With("rail", rail.Name(), "account", "removed")))
	return found, true
}
