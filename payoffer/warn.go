package payoffer

import (
	"context"
	"slices"

	"go.uber.org/zap"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
)

// literalSecrets is logged with the names of the options.
const literalSecrets = "secrets stand in the configuration itself, where 'caddy adapt' and the admin API show them; write {env.NAME} or {file.PATH}"

// warn logs, one line each, what is allowed and yet likely a mistake.
func (app *App) warn(s *service.Settings, r *resolver) {
	logger := app.logger.With(zap.String("offer", s.Offer.ID))
	// A public offer with demo addresses is refused.
	if options := demoOptions(s.Offer); len(options) > 0 && !publicHost(s.Offer.BaseURL) {
		logger.Warn("demo addresses are in use: nobody receives what is paid to them; set your own before you show this to anyone",
			zap.Strings("options", options))
	}
	if len(r.off) > 0 {
		logger.Warn("secrets without a value: their features are off", zap.Strings("options", r.off))
	}
	if len(r.literal) > 0 {
		logger.Warn(literalSecrets, zap.Strings("options", r.literal))
	}
	if contract, _ := offer.ParseUSD(defaultAmount); s.Offer.Amount != contract {
		logger.Warn("the amount is not 42: clients that know the interface expect 42 USD", zap.Stringer("amount", s.Offer.Amount))
	}
	for _, a := range s.Announce {
		if a.Secret == "" {
			logger.Warn("announcements are not signed: their receiver cannot tell them from forged ones; give announce a secret",
				zap.String("host", offer.Host(a.URL)))
		}
	}
	for _, u := range s.USDC {
		if len(u.RPC) == 0 && !u.Rail.Network.Test {
			logger.Warn("rpc is off on a main network: settlements stay claims of the facilitator and count in no sum",
				zap.String("network", u.Rail.Network.Name))
		}
	}
}

// warnOfForgotten logs the offers whose money stands on the ledger and that the
// configuration does not have. An id that changed with base_url would put it
// out of sight.
func (app *App) warnOfForgotten(ctx context.Context) error {
	forgotten, err := app.share.Ledger.Offers(ctx)
	if err != nil {
		return err
	}
	configured := app.Offers()
	forgotten = slices.DeleteFunc(forgotten, func(id string) bool {
		return slices.ContainsFunc(configured, func(o *offer.Offer) bool { return o.ID == id })
	})
	if len(forgotten) > 0 {
		app.logger.Warn("the ledger holds money of offers that this configuration does not have: did base_url change? "+
			"then give the offer its old 'id'; offers of other instances may be meant", zap.Strings("offers", forgotten))
	}
	return nil
}
