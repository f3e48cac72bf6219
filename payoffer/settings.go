package payoffer

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/certmagic"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// RateLimitConfig limits the payment attempts of one client address.
type RateLimitConfig struct {
	// The number of attempts in a window, at most 10000. Default: 10.
	Attempts int `json:"attempts,omitempty"`

	// The length of a window. Default: 1m.
	Window caddy.Duration `json:"window,omitempty"`
}

// UnmarshalCaddyfile reads 'rate_limit <attempts> <window>'.
func (r *RateLimitConfig) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	var attempts, window string
	if err := arguments(d, "rate_limit <attempts> <window>, such as rate_limit 10 1m", &attempts, &window); err != nil {
		return err
	}
	var err error
	if r.Attempts, err = strconv.Atoi(attempts); err != nil || r.Attempts < 1 {
		return d.Err("rate_limit: the attempts are not a whole number from 1 on; write for example 'rate_limit 10 1m'")
	}
	return parseDuration(d, "rate_limit", window, &r.Window)
}

const (
	defaultAttempts = 10
	defaultWindow   = time.Minute
	maxAttempts     = 10_000
)

// settings resolves and checks all options. The options themselves stay as they are, so
// that no exported field contains a secret. Each error names its option.
func (h *Handler) settings(r *resolver, today time.Time) (*service.Settings, error) {
	s := h.build(r, today, h.rails())
	if err := errors.Join(r.errs...); err != nil {
		return nil, err
	}
	var err error
	if h.demo, err = startDemo(r, s.Offer); err != nil {
		return nil, err
	}
	if h.demo != nil {
		s, r = h.demoSettings(r, s.Offer, today)
		r.hooksOff = nil
	} else if err := checkDemoValues(s.Offer, h.Testnet, h.Card.TestMode); err != nil {
		return nil, err
	}
	if s.Offer == nil {
		return nil, errors.Join(r.errs...)
	}
	s.HooksOff, s.LeftOut = r.hooksOff, r.withoutAddress
	s.Key = service.KeyOf("service", h, r.values, s.HooksOff)
	return s, errors.Join(append(r.errs, s.Check())...)
}

// build makes the settings of an offer with these rails. If the recommended rail is left
// out, the first rail is recommended.
func (h *Handler) build(r *resolver, today time.Time, rails []railConfig) *service.Settings {
	s := &service.Settings{Limit: x402.Limit{Attempts: defaultAttempts, Period: defaultWindow}}
	if limit := h.RateLimit; limit != nil {
		s.Limit.Attempts = cmp.Or(number(r, "rate_limit", limit.Attempts, maxAttempts), defaultAttempts)
		s.Limit.Period = cmp.Or(r.duration("rate_limit", limit.Window), defaultWindow)
	}
	s.OwnPayers = resolveAll(r, "ignore_payer", h.IgnorePayers, offer.ParseEVMAddress)
	for i, a := range withoutNil(h.Announce) {
		if endpoint := a.provision(r, entry("announce", i, len(h.Announce))); endpoint != nil {
			s.Announce = append(s.Announce, endpoint)
		}
	}
	terms := h.terms(r, today)
	var card *offer.Card
	var others []offer.Rail
	var names []string
	for _, config := range rails {
		switch rail := config.provision(r, terms, s).(type) {
		case nil:
		case *offer.Card:
			card = rail
		default:
			others, names = append(others, rail), append(names, rail.Name())
		}
	}
	if slices.Contains(r.leftOut, terms.Recommend) && !slices.Contains(names, terms.Recommend) {
		terms.Recommend = ""
	}
	s.KeysPath = "pay_offer/signing/" + certmagic.StorageKeys.Safe(offer.Host(terms.BaseURL)) + ".json"
	if len(r.errs) == 0 {
		var err error
		if s.Offer, err = offer.New(terms, card, others...); err != nil {
			r.errs = append(r.errs, redact(err))
		}
	}
	return s
}

// publicHost reports whether other machines can reach an address.
func publicHost(address string) bool { return !offer.IsLoopback(offer.Hostname(address)) }
