package payoffer

import (
	"strings"

	"go.uber.org/zap"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/bitcoin"
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
	for _, u := range s.USDC {
		if len(u.RPC) == 0 && !u.Rail.Network.Test {
			logger.Warn("rpc is off on a main network: settlements stay claims of the facilitator and count in no sum",
				zap.String("network", u.Rail.Network.Name))
		}
	}
	if hosts := bitcoin.Hosts(s.Bitcoin.Esplora); len(hosts) == 1 {
		logger.Warn("one index is believed on its word alone, and the bitcoin rail stays partial; give esplora endpoints of two hosts: "+
			"a payment counts when both show it", zap.String("host", hosts[0]))
	}
	if b := s.Offer.Bitcoin(); b != nil && b.Extended() {
		logger.Info("compare these with the first two receiving addresses in the wallet of the extended key: if they differ, it will not show what is paid",
			zap.Strings("addresses", b.FirstAddresses()))
	}
	for _, shop := range s.Storefronts {
		if shop.HookSecret != "" && shop.Token == "" {
			logger.Warn("the storefront is not monitored without a token: its notices prove nothing; give it one, or enter its sales with "+
				"'caddy pay-offer record'", zap.String("rail", shop.Rail.Name()))
		}
	}
	if options := unreadSince(s.Settings); len(options) > 0 {
		logger.Warn("since has nothing to read the money with: what came before the first start stays unknown; add the api_key, token or esplora of the rail",
			zap.Strings("options", options))
	}
	if size := s.LargestHead(); size > web.MaxHead {
		logger.Warn("the headers of a quote are larger than a proxy in front takes by default: nginx reads them into a buffer of 4 KB and answers "+
			"502 above that; write 'proxy_buffer_size 8k;' there, or shorten card or base_url or take a usdc line out", zap.Int("bytes", size))
	}
}

// unreadSince names the options that begin earlier than anything is read.
func unreadSince(s *service.Settings) (options []string) {
	if s.Card.Since > 0 && s.Card.APIKey == "" {
		options = append(options, "card since")
	}
	if s.Bitcoin.Since > 0 && len(s.Bitcoin.Esplora) == 0 {
		options = append(options, "bitcoin since")
	}
	for _, shop := range s.Storefronts {
		if shop.Since > 0 && shop.Token == "" {
			options = append(options, "storefront "+shop.Rail.Name()+" since")
		}
	}
	return options
}
