package payoffer

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/certmagic"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/pool"
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
func (c *RateLimitConfig) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	var attempts, window string
	if err := arguments(d, "rate_limit <attempts> <window>", &attempts, &window); err != nil {
		return err
	}
	var err error
	if c.Attempts, err = strconv.Atoi(attempts); err != nil || c.Attempts < 1 {
		return d.Err("rate_limit: the attempts are not a whole number; write for example 'rate_limit 10 1m'")
	}
	return parseDuration(d, "rate_limit", window, &c.Window)
}

const (
	defaultAttempts = 10
	defaultWindow   = time.Minute
	maxAttempts     = 10_000

	// defaultAmount is the price that the interface fixes.
	defaultAmount    offer.USD = 4200
	defaultSourceURL           = "https://github.com/payoffer/caddy-pay-offer"
)

// settings resolves and checks all options. The options themselves stay as they are, so
// that no exported field contains a secret. Each error names its option.
func (h *Handler) settings(r *resolver, today time.Time) (*service.Settings, error) {
	s := h.build(r, today, h.rails())
	if err := errors.Join(r.errs...); err != nil {
		return nil, err
	}
	var err error
	if h.demo, err = stageDemo(r, s.Offer); err != nil {
		return nil, err
	}
	if h.demo != nil {
		s, r = h.play(r, s.Offer, today)
		r.hooksOff = nil
	} else if err := checkDemoValues(s.Offer, h.Testnet, h.Card.TestMode); err != nil {
		return nil, err
	}
	s.HooksOff = r.hooksOff
	s.Key = pool.KeyOf("service", h, r.values, s.HooksOff)
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
	for _, a := range withoutNil(h.Announce) {
		if sink := a.provision(r); sink != nil {
			s.Announce = append(s.Announce, sink)
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

var (
	offerID  = regexp.MustCompile(`^[A-Za-z0-9._:\[\]-]{1,100}$`)
	railName = regexp.MustCompile(`^[a-z0-9-]{1,80}$`)
	// tag is the form of a tag in facilitators and directories (x402, Bazaar).
	tag = regexp.MustCompile(`^[!-~]([ -~]{0,30}[!-~])?$`)
	// mppHeaders are the request headers of the Payment scheme, by the option's value.
	mppHeaders = map[string]string{"authorization": "Authorization", "header": "Payment-Authorization", off: ""}
)

const maxTags = 5

// terms resolves the options that belong to no rail.
func (h *Handler) terms(r *resolver, today time.Time) offer.Terms {
	t := offer.Terms{
		BaseURL:   resolve(r, "base_url", h.BaseURL, offer.ParseOrigin),
		Name:      cmp.Or(r.text("name", h.Name, 80), "Payment offer"),
		Contact:   resolve(r, "contact", h.Contact, offer.ParseMailbox),
		SourceURL: cmp.Or(resolve(r, "source_url", h.SourceURL, parseURL), defaultSourceURL),
		Account:   cmp.Or(resolve(r, "account", h.Account, func(s string) (string, error) { return s, offer.CheckAccount(s) }), "pay"),
		Amount:    cmp.Or(resolve(r, "amount", h.Amount, offer.ParseUSD), defaultAmount),
		Goal:      resolve(r, "goal", h.Goal, offer.ParseUSD),
		Recommend: r.word("recommend", h.Recommend, railName, "the name of a rail, such as usdc"),
		Thanks:    r.text("thanks", h.Thanks, 500),
		Refunds:   r.text("refunds", h.Refunds, 500),
		Updated:   today.UTC().Format(time.DateOnly),
	}
	if t.BaseURL == "" && r.replace(h.BaseURL) == "" {
		r.fail("base_url", errors.New("the origin is missing; write the address at which payers reach this offer, such as https://pay.example.org"))
	}
	t.SiteURL = cmp.Or(resolve(r, "site_url", h.SiteURL, offer.ParseOrigin), t.BaseURL)
	t.ID = cmp.Or(r.word("id", h.ID, offerID, "an id; use at most 100 letters, digits, dots, colons, hyphens and underscores"), offer.Host(t.BaseURL))
	t.Operator = cmp.Or(r.text("operator", h.Operator, 80), offer.Host(t.SiteURL))
	t.Description = cmp.Or(r.text("description", h.Description, 500), "One fixed payment of "+t.Amount.String()+" USD.")
	for _, line := range h.Legal {
		if line = r.text("legal", line, 140); line != "" {
			t.Legal = append(t.Legal, line)
		}
	}
	t.Tags = resolveAll(r, "tags", h.Tags, func(s string) (string, error) {
		if !tag.MatchString(s) {
			return "", fmt.Errorf("%q is not a tag; use at most 32 printable ASCII characters", s)
		}
		return s, nil
	})
	if len(t.Tags) > maxTags {
		r.fail("tags", fmt.Errorf("there are %d; directories accept at most %d", len(t.Tags), maxTags))
	}
	t.MPP = mppHeaders["authorization"]
	resolve(r, "mpp", h.MPP, func(s string) (known bool, err error) {
		if t.MPP, known = mppHeaders[s]; !known {
			err = fmt.Errorf("%q is not one of: authorization, header, off", s)
		}
		return known, err
	})
	t.Logo = resolve(r, "logo", h.Logo, func(s string) (string, error) {
		if strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "//") {
			s = t.BaseURL + s
		}
		if _, err := offer.ParseURL(s); err != nil || !strings.HasPrefix(s, t.BaseURL+"/") {
			return "", errors.New("this is not an image on the host of base_url, from which pages load everything; write its path, such as /logo.svg")
		}
		return s, nil
	})
	return t
}

func parseURL(s string) (string, error) {
	_, err := offer.ParseURL(s)
	return s, err
}

// publicHost reports whether others than this machine reach an address.
func publicHost(address string) bool { return !offer.IsLoopback(offer.Hostname(address)) }
