package payoffer

import (
	"strings"

	"go.uber.org/zap"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
)

// literalSecretsHint explains the warning about secrets in the configuration.
const literalSecretsHint = "'caddy adapt', the admin API and the saved configuration show them; write {env.NAME} or {file.PATH}"

// warn logs settings that are allowed and probably a mistake, one line each.
func (app *App) warn(s *service.Settings, r *resolver) {
	logger := app.logger.With(zap.String("offer", s.Offer.ID))
	warn := func(message, hint string, fields ...zap.Field) {
		logger.Warn(message, append(fields, zap.String("hint", hint))...)
	}
	if s.Offer.Demo {
		warn("this is a demo", "its checkout, its facilitator and its money are fake and end with the server", zap.String("checkout", s.Offer.Card.URL))
		return
	}
	if options := demoOptions(s.Offer); len(options) > 0 && !publicHost(s.Offer.BaseURL) { // else they were refused
		warn("payments to the demo addresses are lost", "replace the values of these options by your own before you publish this offer", zap.Strings("options", options))
	}
	if len(r.secretsOff) > 0 {
		warn("the variables of secrets are not set", "these options are off until you set their variables and restart the server", zap.Strings("options", r.secretsOff))
	}
	if len(r.withoutAddress) > 0 {
		warn("rails without an address are left out", "set the variables of these options, or remove the options", zap.Strings("options", r.withoutAddress))
	}
	if len(r.literalSecrets) > 0 {
		warn("secrets are in the configuration itself", literalSecretsHint, zap.Strings("options", r.literalSecrets))
	}
	if s.Offer.Amount != defaultAmount {
		warn("the amount is not 42", "clients that know the interface expect 42 USD; remove the option amount unless you need another price", zap.Stringer("amount", s.Offer.Amount))
	}
	if s.Offer.Card.Test() {
		warn("the card checkout is in test mode", "its payments are worth nothing, and the pages say so; before you sell, give card the address of a live "+
			"checkout and remove test_mode", zap.String("host", offer.Host(s.Offer.Card.URL)))
	}
	for _, a := range s.Announce {
		if hook, is := a.(announce.Webhook); is && strings.Join(hook.Secrets, "") == "" {
			warn("webhooks are not signed", "their endpoint cannot detect forged ones; add 'secret {env.NAME}' to this announce option", zap.String("host", offer.Host(hook.URL)))
		}
	}
	s.Warn(app.ctx.Slogger().With("offer", s.Offer.ID))
}
