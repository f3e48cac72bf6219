package payoffer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/evm"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

const (
	defaultAccount       = "pay"
	defaultAmount        = "42"
	defaultAttempts      = 10
	defaultConfirmations = 2
	defaultName          = "Payment offer"
	defaultSourceURL     = "https://github.com/payoffer/caddy-pay-offer"
	defaultTransfer      = "transfer"
	defaultWindow        = time.Minute

	maxAttempts      = 10_000
	maxConfirmations = 100

	// upstreamOff is the word that turns the reading of a chain off.
	upstreamOff = "off"

	missingPaymentLink = "card: webhook_secret and api_key need payment_link, for other products of the same account are not this offer; add 'payment_link plink_…'"
	missingProduct     = "hook_secret and token need product, for other products of the same seller are not this offer; add 'product <id>'"
	halfAKey           = "facilitator: key_id and key_secret belong together; give both or none"
)

// settings are a handler's options in use. They hold secrets and are never
// logged.
type settings struct {
	offer *offer.Offer
	usdc  []usdcSettings
	// rates are the names of the price sources; none means all.
	rates       []string
	bitcoin     bitcoinSettings
	card        cardSettings
	storefronts []storefrontSettings
	announce    []announceSettings
	limit       x402.Limit
	// ownPayers are the operator's own addresses in EIP-55 form.
	ownPayers []string
}

// usdcSettings are the settings of one USDC rail.
type usdcSettings struct {
	rail         *offer.USDC
	facilitators []x402.FacilitatorConfig
	// rpc are the JSON-RPC endpoints, none when the chain is not read.
	rpc       []string
	confirm   evm.Level
	fromBlock uint64
}

// settings resolves and checks all options. Errors name the option.
func (h *Handler) settings(r *resolver, today time.Time) (*settings, error) {
	if slices.Contains(h.USDC, nil) || slices.Contains(h.Storefronts, nil) || slices.Contains(h.Announce, nil) {
		return nil, errors.New("a rail is null; leave it out")
	}
	s := new(settings)
	terms := h.terms(r, today)
	rails := h.usdcRails(r, s, terms.Amount)
	rails = append(rails, h.otherRails(r, s, terms)...)
	card := h.card(r, s, terms.Amount)
	s.limit = h.limit(r)
	for _, payer := range r.texts("ignore_payer", h.IgnorePayers, checkEVMAddress) {
		if address, err := offer.ParseEVMAddress(payer); err == nil {
			s.ownPayers = append(s.ownPayers, address)
		}
	}
	for _, a := range h.Announce {
		if address := r.text("announce", a.URL, "", checkUpstream); address != "" {
			s.announce = append(s.announce, announceSettings{address, r.secret("announce secret", a.Secret)})
		}
	}
	if len(r.errs) > 0 {
		return nil, errors.Join(r.errs...)
	}
	var err error
	if s.offer, err = offer.New(terms, card, rails...); err != nil {
		return nil, err
	}
	return s, s.checkAccounts()
}

func (h *Handler) terms(r *resolver, today time.Time) offer.Terms {
	t := offer.Terms{
		BaseURL:     r.text("base_url", h.BaseURL, "", checkOrigin),
		SiteURL:     r.text("site_url", h.SiteURL, "", checkOrigin),
		Name:        r.text("name", h.Name, defaultName, checkName),
		Operator:    r.text("operator", h.Operator, "", checkName),
		Description: r.text("description", h.Description, "", checkDescription),
		Contact:     r.text("contact", h.Contact, "", checkMailbox),
		SourceURL:   r.text("source_url", h.SourceURL, defaultSourceURL, checkURL),
		Account:     r.text("account", h.Account, defaultAccount, offer.CheckAccount),
		Updated:     today.UTC().Format(time.DateOnly),
	}
	if t.BaseURL == "" {
		r.fail("base_url", errors.New("is missing; write the address at which this offer is reached"))
	}
	// What cannot be parsed was reported by its check.
	if base, err := offer.ParseOrigin(t.BaseURL); err == nil {
		t.BaseURL = base
	}
	if site, err := offer.ParseOrigin(t.SiteURL); err == nil {
		t.SiteURL = site
	} else if t.SiteURL == "" {
		t.SiteURL = t.BaseURL
	}
	if u, err := offer.ParseUSD(r.text("amount", h.Amount, defaultAmount, checkAmount)); err == nil {
		t.Amount = u
	}
	t.ID = r.text("id", h.ID, offer.Host(t.BaseURL), checkID)
	if t.Operator == "" {
		t.Operator = offer.Host(t.SiteURL)
	}
	t.Funding = h.funding(r)
	if t.Description == "" {
		t.Description = "One fixed payment of " + t.Amount.String() + " USD."
	}
	return t
}

// funding is nil unless it is configured; the offer checks it as a whole.
func (h *Handler) funding(r *resolver) *offer.Funding {
	if h.Funding == nil {
		return nil
	}
	f := h.Funding
	return &offer.Funding{
		EntityType: r.text("funding", f.EntityType, "", checkName),
		EntityRole: r.text("funding", f.EntityRole, "", checkName),
		Repository: r.text("funding repository", f.Repository, "", checkURL),
		WellKnown:  r.text("funding repository", f.WellKnown, "", checkURL),
		Licenses:   r.texts("funding license", f.Licenses, checkName),
		Tags:       r.texts("funding tags", f.Tags, checkName),
	}
}

func (h *Handler) limit(r *resolver) x402.Limit {
	limit := x402.Limit{Attempts: defaultAttempts, Period: defaultWindow}
	if h.RateLimit == nil {
		return limit
	}
	if h.RateLimit.Attempts != 0 {
		limit.Attempts = h.RateLimit.Attempts
	}
	if h.RateLimit.Window != 0 {
		limit.Period = time.Duration(h.RateLimit.Window)
	}
	if limit.Attempts < 1 || limit.Attempts > maxAttempts || limit.Period < 0 {
		r.fail("rate_limit", fmt.Errorf("%d attempts in %s; write 1 to %d attempts and a positive window", limit.Attempts, limit.Period, maxAttempts))
	}
	return limit
}

func (b *BankTransferConfig) name() string {
	if b.Name == "" {
		return defaultTransfer
	}
	return b.Name
}

// publicHost reports whether an origin is meant for others than this machine.
func publicHost(origin string) bool {
	host := offer.Host(origin)
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host = host[:i]
	}
	return !offer.IsLoopback(host)
}
