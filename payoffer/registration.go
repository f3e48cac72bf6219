package payoffer

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
)

// register returns the service of an offer. Handlers with the same settings, which Caddy makes for a site with several
// addresses, share it. Another offer with the same id or account is refused.
func (app *App) register(s *service.Settings, r *resolver, demo *Sandbox) (*service.Service, error) {
	for _, svc := range app.offers {
		if svc.Key == s.Key {
			return svc, nil
		}
	}
	if err := app.prepare(s.Offer.ID, demo); err != nil {
		return nil, err
	}
	if err := app.checkUnique(s); err != nil {
		return nil, err
	}
	svc, err := app.runtime.Prepare(s)
	if err != nil {
		return nil, err
	}
	app.offers = append(app.offers, svc)
	if err := app.checkDemoIsLocal(); err != nil {
		return nil, err
	}
	app.warn(s, r)
	return svc, nil
}

// checkUnique refuses an offer whose receipts could belong to another offer.
func (app *App) checkUnique(s *service.Settings) error {
	if slices.ContainsFunc(app.offers, func(svc *service.Service) bool { return svc.Offer.ID == s.Offer.ID }) {
		return fmt.Errorf("two offers have the id %q; give each its own base_url, or one of them another id, such as 'id second-offer'", s.Offer.ID)
	}
	for _, a := range s.Accounts() {
		if taken, twice := app.accounts[a.ID]; twice {
			return fmt.Errorf("the offers %q and %q both receive money at the account of %s; use another address for one of them",
				taken.Offer, s.Offer.ID, taken.Rail)
		}
		app.accounts[a.ID] = a
	}
	return nil
}

// Acquire connects the gates with their offers and makes the services, once. The first of
// Start and a request calls it, because Caddy may start the http app before this app, and
// the commands call it. An offer is served although a gate is wrong: until Caddy refuses
// the configuration, its listeners share the requests with those of the running one.
func (app *App) Acquire() error {
	app.acquiring.Do(func() { app.err = app.acquire() })
	return app.err
}

func (app *App) acquire() error {
	var errs []error
	fail := func(err error) { // an instance of a site with several addresses repeats its errors
		if err != nil && !slices.ContainsFunc(errs, func(other error) bool { return other.Error() == err.Error() }) {
			errs = append(errs, err)
		}
	}
	gates := make(map[*service.Service][]offer.Gate)
	for _, g := range app.gates {
		fail(g.connect(app.offers))
		gates[g.offer] = append(gates[g.offer], g.route)
	}
	var services []*service.Service
	for _, svc := range app.offers {
		if err := svc.Complete(withoutRepeats(gates[svc])...); err != nil {
			fail(fmt.Errorf("the offer %q cannot be served: %w", svc.Offer.ID, err))
			continue
		}
		services = append(services, svc)
		countFromZero(svc)
	}
	for _, g := range app.gates {
		if g.offer != nil && g.offer.Server != nil {
			g.gate = g.offer.Server.Gate(g.route)
		}
	}
	app.services.Store(&services)
	return errors.Join(errs...)
}

// unavailable answers a request of a configuration whose start fails.
func unavailable(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, "The server is being configured. Try again.", http.StatusServiceUnavailable)
}

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
	// A site_url takes no money. A public offer with demo values was refused.
	options := slices.DeleteFunc(demoOptions(s.Offer), func(option string) bool { return option == "site_url" })
	if len(options) > 0 && !publicHost(s.Offer.BaseURL) {
		warn("payments to the demo addresses are lost", "replace the values of these options by your own before you publish this offer", zap.Strings("options", options))
	}
	if len(r.secretsOff) > 0 {
		warn("the variables of secrets are not set", "set their variables and restart the server; until then these options are off", zap.Strings("options", r.secretsOff))
	}
	for _, option := range s.LeftOut {
		logger.Info("a rail without an address is left out", zap.String("option", option), zap.String("hint", "set its variable, or remove the option"))
	}
	if len(r.literalSecrets) > 0 {
		warn("secrets are in the configuration itself", literalSecretsHint, zap.Strings("options", r.literalSecrets))
	}
	if s.Offer.Amount != defaultAmount {
		warn("the amount is not 42", "clients that know the interface expect 42 USD; remove the option amount unless you need another price", zap.Stringer("amount", s.Offer.Amount))
	}
	if s.Offer.Card.Test() {
		warn("the card checkout is in test mode", "its payments are worth nothing, and the pages say so; before you sell, give card the address of a live "+
			"checkout, without test_mode", zap.String("host", offer.Host(s.Offer.Card.URL)))
	}
	for _, a := range s.Announce {
		if hook, is := a.(announce.Webhook); is && strings.Join(hook.Secrets, "") == "" {
			warn("webhooks are not signed", "their endpoint cannot detect forged ones; add 'secret {env.NAME}' to this announce option, and set the variable", zap.String("host", offer.Host(hook.URL)))
		}
	}
	s.Warn(app.ctx.Slogger().With("offer", s.Offer.ID))
}
