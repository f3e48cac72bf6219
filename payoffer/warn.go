package payoffer

import (
	"context"
	"slices"

	"go.uber.org/zap"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// literalSecrets is logged with the names of the options.
const literalSecrets = "secrets stand in the configuration itself, where 'caddy adapt' and the admin API show them; write {env.NAME} or {file.PATH}"

// warn logs, one line each, what is allowed and yet likely a mistake.
func (app *App) warn(s *settings, r *resolver) {
	logger := app.logger.With(zap.String("offer", s.offer.ID))
	// A public offer with demo addresses is refused.
	if options := demoOptions(s.offer); len(options) > 0 && !publicHost(s.offer.BaseURL) {
		logger.Warn("demo addresses are in use: nobody receives what is paid to them; set your own before you show this to anyone",
			zap.Strings("options", options))
	}
	if len(r.off) > 0 {
		logger.Warn("secrets without a value: their features are off", zap.Strings("options", r.off))
	}
	if len(r.literal) > 0 {
		logger.Warn(literalSecrets, zap.Strings("options", r.literal))
	}
	if contract, _ := offer.ParseUSD(defaultAmount); s.offer.Amount != contract {
		logger.Warn("the amount is not 42: clients that know the interface expect 42 USD", zap.Stringer("amount", s.offer.Amount))
	}
	for _, a := range s.announce {
		if a.secret == "" {
			logger.Warn("announcements are not signed: their receiver cannot tell them from forged ones; give announce a secret",
				zap.String("host", offer.Host(a.url)))
		}
	}
	for _, u := range s.usdc {
		if len(u.rpc) == 0 && !u.rail.Network.Test {
			logger.Warn("rpc is off on a main network: settlements stay claims of the facilitator and count in no sum",
				zap.String("network", u.rail.Network.Name))
		}
	}
}

// warnOfForgotten logs the offers whose money stands on the ledger and that the
// configuration does not have. An id that changed with base_url would put it
// out of sight.
func (app *App) warnOfForgotten(ctx context.Context, book *ledger.Ledger, services []*service) error {
	forgotten, err := book.Offers(ctx)
	if err != nil {
		return err
	}
	forgotten = slices.DeleteFunc(forgotten, func(id string) bool {
		return slices.ContainsFunc(services, func(svc *service) bool { return svc.offer.ID == id })
	})
	if len(forgotten) > 0 {
		app.logger.Warn("the ledger holds money of offers that this configuration does not have: did base_url change? "+
			"then give the offer its old 'id'; offers of other instances may be meant", zap.Strings("offers", forgotten))
	}
	return nil
}
