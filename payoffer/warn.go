package payoffer

import (
	"strings"

	"go.uber.org/zap"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
	"github.com/payoffer/caddy-pay-offer/payoffer/web"
)

// literalSecrets is logged with the names of the options.
const literalSecrets = "secrets stand in the configuration itself, where 'caddy adapt', the admin API, Caddy's saved configuration and, at level DEBUG, " +
	"its log show them; write {env.NAME} or {file.PATH}"

// warn logs, one line each, what is allowed and yet likely a mistake, and what the
// operator alone can compare.
func (app *App) warn(s *service.Service, r *resolver) {
	logger := app.logger.With(zap.String("offer", s.Offer.ID))
	if s.Offer.Demo {
		logger.Warn("this is a demo: its checkout, its facilitator and its money are pretend, and forgotten when the server stops",
			zap.String("checkout", s.Offer.Card.URL))
		return
	}
	// A public offer with demo addresses is refused.
	if options := demoOptions(s.Offer); len(options) > 0 && !publicHost(s.Offer.BaseURL) {
		logger.Warn("demo addresses are in use: nobody receives what is paid to them; set your own before you show this to anyone",
			zap.Strings("options", options))
	}
	if len(r.secretsOff) > 0 {
		logger.Warn("secrets without a value: their features are off", zap.Strings("options", r.secretsOff))
	}
	if len(r.literalSecrets) > 0 {
		logger.Warn(literalSecrets, zap.Strings("options", r.literalSecrets))
	}
	if s.Offer.Amount != defaultAmount {
		logger.Warn("the amount is not 42: clients that know the interface expect 42 USD", zap.Stringer("amount", s.Offer.Amount))
	}
	if s.Offer.Card.Test() {
		logger.Warn("the card checkout is in test mode: whoever pays there pays nothing, and the pages say so; before you sell, give card the address of "+
			"a live one, without test_mode", zap.String("host", offer.Host(s.Offer.Card.URL)))
	}
	for _, a := range s.Announce {
		if hook, is := a.(announce.Webhook); is && strings.Join(hook.Secrets, "") == "" {
			logger.Warn("announcements are not signed: their receiver cannot tell them from forged ones; give announce a secret",
				zap.String("host", offer.Host(hook.URL)))
		}
	}
	s.Warn(app.ctx.Slogger().With("offer", s.Offer.ID))
	if size := s.Server.LargestHead(); size > web.MaxHead {
		logger.Warn("the headers of a quote are larger than a proxy in front takes by default: nginx reads them into a buffer of 4 KB and answers "+
			"502 above that; write 'proxy_buffer_size 8k;' there, or shorten card or base_url or take a usdc line out", zap.Int("bytes", size))
	}
}
