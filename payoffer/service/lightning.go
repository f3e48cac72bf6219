package service

import (
	"log/slog"
	"strings"

	limit "golang.org/x/time/rate"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/lightning"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
)

// Lightning is a rail whose invoices are made and observed at a wallet.
type Lightning struct{ *offer.Lightning }

func init() { removedRails = append(removedRails, removedLightning) }

func (l Lightning) observe(svc *Service) (observer, error) {
	if err := svc.shareRates(); err != nil {
		return nil, err
	}
	config := l.observer(svc, share(svc.Runtime, KeyOf("wallet", l.host()), lightning.NewPace()), svc.logger.With("rail", l.Name()))
	config.Known = share(svc.Runtime, KeyOf("wallet's answers", l.Address()), new(lightning.Known))
	return lightning.New(config), nil
}

func (l Lightning) host() string { return offer.Hostname(l.ParametersURL()) }

func (l Lightning) observer(svc *Service, pace *limit.Limiter, logger *slog.Logger) lightning.Config {
	transport := svc.Instruments.Transport
	if !l.IsLocal() {
		transport = svc.Instruments.PublicTransport
	}
	return lightning.Config{
		OfferID: svc.Offer.ID, Rail: l.Lightning, Pace: pace, Ledger: svc.Ledger, Transport: transport("wallet"), Logger: logger,
		Price: func() (satoshis, usdCents int64) {
			current, _ := svc.rates.Current()
			return rate.Satoshis(int64(svc.Offer.Amount), current), int64(svc.Offer.Amount)
		},
	}
}

// watchInvoice says that a payer looks at an invoice, of a configured address or one that was removed.
func (s *Service) watchInvoice(account, hash string) {
	o, ok := s.observers[offer.RailLightning].(*lightning.Observer)
	if !ok || o.Rail.Account() != account {
		o, ok = s.removed(account).observer.(*lightning.Observer)
	}
	if ok {
		o.Watch(hash)
	}
}

// removedLightning asks for the open invoices of an address that was removed, at the pace of the configured one on its host.
func removedLightning(svc *Service, account string) (found removedAccount, ok bool) {
	address, ours := strings.CutPrefix(account, offer.RailLightning+"/")
	rail, err := offer.NewLightning(address, svc.Offer.Amount)
	if err != nil || !ours {
		return found, false
	}
	l, pace := Lightning{rail}, lightning.NewPace()
	if o, ok := svc.observers[rail.Name()].(*lightning.Observer); ok && (Lightning{o.Rail}).host() == l.host() {
		pace = o.Pace
	}
	found.observer = lightning.New(l.observer(svc, pace, svc.logger.With("rail", rail.Name(), "account", "removed")))
	return found, true
}
