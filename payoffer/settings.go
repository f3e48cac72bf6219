package payoffer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/bitcoin"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/evm"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/pool"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

const (
	defaultAccount   = "pay"
	defaultAmount    = "42"
	defaultAttempts  = 10
	defaultMPP       = "authorization"
	defaultName      = "Payment offer"
	defaultTimeout   = 30 * time.Second
	defaultSourceURL = "https://github.com/payoffer/caddy-pay-offer"
	defaultTransfer  = "transfer"
	defaultWindow    = time.Minute

	maxAttempts      = 10_000
	maxConfirmations = 100
)

// settings resolves and checks all options, which it does on a copy: secrets
// never stand in the handler. Errors name the option.
func (h *Handler) settings(r *resolver, today time.Time) (*service.Settings, error) {
	configured, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	resolved := new(Handler)
	if err := json.Unmarshal(configured, resolved); err != nil {
		return nil, err
	}
	resolved.options().resolve(r, "")
	if resolved.BaseURL == "" {
		r.fail("base_url", errors.New("is missing; write the address at which this offer is reached"))
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	s, err := resolved.build(today, r.leftOut)
	if err != nil {
		return nil, err
	}
	switch stage, err := resolved.stage(s.Offer); {
	case err != nil:
		return nil, err
	case stage != nil:
		if s, err = resolved.play(stage, today, r.leftOut); err != nil {
			return nil, err
		}
		h.demo = stage
	default:
		s.HooksOff = r.hooksOff
	}
	s.Key = pool.KeyOf("service", resolved, s.HooksOff)
	return s, s.Check()
}

// build makes settings of options that are resolved and checked. leftOut are the
// names of rails without an address; one that is recommended gives way to the first
// that there is.
func (h *Handler) build(today time.Time, leftOut []string) (*service.Settings, error) {
	s := &service.Settings{Limit: x402.Limit{Attempts: defaultAttempts, Period: defaultWindow}}
	if h.RateLimit != nil {
		s.Limit.Attempts = cmp.Or(h.RateLimit.Attempts, defaultAttempts)
		s.Limit.Period = cmp.Or(time.Duration(h.RateLimit.Window), defaultWindow)
	}
	for _, payer := range h.IgnorePayers {
		address, err := offer.ParseEVMAddress(payer)
		if err != nil {
			return nil, err
		}
		s.OwnPayers = append(s.OwnPayers, address)
	}
	for _, a := range h.Announce {
		s.Announce = append(s.Announce, a.sink())
	}
	terms, err := h.terms(today)
	if err != nil {
		return nil, err
	}
	card, err := offer.NewCard(h.Card.URL, h.Card.Methods, terms.Amount)
	if err != nil {
		return nil, err
	}
	card.PaymentLink, card.TestMode = h.Card.PaymentLink, card.TestMode || h.Card.TestMode
	s.Rails = append(s.Rails, service.Card{Card: card, WebhookSecret: h.Card.WebhookSecret, APIKey: h.Card.APIKey, Since: unixSince(h.Card.Since)})
	rails, err := h.rails(s, terms)
	if err != nil {
		return nil, err
	}
	if slices.Contains(leftOut, terms.Recommend) && !slices.ContainsFunc(rails, func(rail offer.Rail) bool { return rail.Name() == terms.Recommend }) {
		terms.Recommend = ""
	}
	s.KeysPath = "pay_offer/signing/" + certmagic.StorageKeys.Safe(offer.Host(terms.BaseURL)) + ".json"
	s.Offer, err = offer.New(terms, card, rails...)
	return s, err
}

func (h *Handler) terms(today time.Time) (t offer.Terms, err error) {
	t = offer.Terms{
		Name: cmp.Or(h.Name, defaultName), Contact: h.Contact, SourceURL: cmp.Or(h.SourceURL, defaultSourceURL),
		Account: cmp.Or(h.Account, defaultAccount), Updated: today.UTC().Format(time.DateOnly),
	}
	if t.BaseURL, err = offer.ParseOrigin(h.BaseURL); err != nil {
		return t, err
	}
	if t.SiteURL, err = offer.ParseOrigin(cmp.Or(h.SiteURL, h.BaseURL)); err != nil {
		return t, err
	}
	if t.Amount, err = offer.ParseUSD(cmp.Or(h.Amount, defaultAmount)); err != nil {
		return t, err
	}
	t.ID = cmp.Or(h.ID, offer.Host(t.BaseURL))
	t.Operator = cmp.Or(h.Operator, offer.Host(t.SiteURL))
	t.Description = cmp.Or(h.Description, "One fixed payment of "+t.Amount.String()+" USD.")
	t.Recommend, t.Thanks, t.Refunds, t.Legal = h.Recommend, h.Thanks, h.Refunds, h.Legal
	if t.Tags = h.Tags; len(t.Tags) > maxTags {
		return t, fmt.Errorf("tags: there are %d; directories take at most %d", len(t.Tags), maxTags)
	}
	if t.MPP, err = parseMPP(cmp.Or(h.MPP, defaultMPP)); err != nil {
		return t, err
	}
	if h.Goal != "" {
		if t.Goal, err = offer.ParseUSD(h.Goal); err != nil {
			return t, err
		}
	}
	if t.Logo = h.Logo; strings.HasPrefix(t.Logo, "/") {
		t.Logo = t.BaseURL + t.Logo
	}
	if t.Logo != "" && !strings.HasPrefix(t.Logo, t.BaseURL+"/") {
		return t, errors.New("logo: the image is on another host than base_url, from which pages load nothing; put it on the host of base_url")
	}
	return t, nil
}

// rails makes the rails but for the card, in the order of publication, and
// their settings.
func (h *Handler) rails(s *service.Settings, terms offer.Terms) (rails []offer.Rail, err error) {
	for _, u := range h.USDC {
		usdc, err := u.settings(len(rails) == 0, terms.Amount)
		if err != nil {
			return nil, err
		}
		s.Rails = append(s.Rails, usdc)
		rails = append(rails, usdc.USDC)
	}
	if b := h.Bitcoin; b != nil {
		rail, err := offer.NewBitcoin(b.Account, terms.Name, terms.Amount)
		if err != nil {
			return nil, err
		}
		rail.Explorer = explorer(b.Explorer, rail.Explorer)
		s.Rails = append(s.Rails, service.Bitcoin{
			Bitcoin: rail, Rates: b.Rates,
			Esplora:       endpoints(b.Esplora, bitcoin.DefaultEndpoints(rail)),
			Confirmations: cmp.Or(b.Confirmations, bitcoin.DefaultConfirmations),
			Since:         unixSince(b.Since),
		})
		rails = append(rails, rail)
	}
	if b := h.BankTransfer; b != nil {
		memo := cmp.Or(b.Memo, terms.Name+" "+terms.Amount.String())
		rail, err := offer.NewTransfer(b.name(), b.Inbox, memo, terms.Operator, terms.Amount)
		if err != nil {
			return nil, err
		}
		if bank := b.bank(); bank != nil {
			if err := rail.Publish(*bank); err != nil {
				return nil, fmt.Errorf("bank_transfer: %w", err)
			}
		}
		s.Rails = append(s.Rails, service.Manual{Rail: rail})
		rails = append(rails, rail)
	}
	for _, c := range h.Storefronts {
		rail, err := offer.NewStorefront(c.Name, c.URL, terms.Amount)
		if err != nil {
			return nil, err
		}
		rail.Product = c.Product
		s.Rails = append(s.Rails, service.Storefront{
			Storefront: rail, Seller: c.Seller, HookSecret: c.HookSecret, Token: c.Token, Since: unixSince(c.Since),
		})
		rails = append(rails, rail)
	}
	return rails, nil
}

// firstUSDC is the name of the first USDC rail, and nextUSDC that of any other.
const firstUSDC = "usdc"

func nextUSDC(n offer.Network) string { return firstUSDC + "-" + strconv.FormatInt(n.ChainID, 10) }

// settings makes a USDC rail. The first is named usdc, the others after their
// chain.
func (u *USDCConfig) settings(first bool, amount offer.USD) (s service.USDC, err error) {
	network, err := offer.LookupNetwork(u.Network)
	if err != nil {
		return s, err
	}
	name := firstUSDC
	if !first {
		name = nextUSDC(network)
	}
	s = service.USDC{
		RPC: endpoints(u.RPC, []string{network.RPC}), Confirm: evm.Level(cmp.Or(u.Confirm, string(evm.Safe))), FromBlock: u.FromBlock,
	}
	for _, f := range u.Facilitators {
		s.Facilitators = append(s.Facilitators, x402.FacilitatorConfig{
			URL: f.URL, KeyID: f.KeyID, KeySecret: f.KeySecret, Header: f.Header, HeaderValue: f.HeaderValue,
			Timeout: cmp.Or(time.Duration(f.Timeout), defaultTimeout),
		})
	}
	if len(s.Facilitators) == 0 && network.Test {
		s.Facilitators = []x402.FacilitatorConfig{{URL: x402.DefaultTestFacilitator, Timeout: defaultTimeout}}
	}
	if s.USDC, err = offer.NewUSDC(name, network, u.Address, amount); err != nil {
		return s, err
	}
	s.Explorer = explorer(u.Explorer, s.Explorer)
	return s, nil
}

// explorer is a configured block explorer, or the default.
func explorer(configured, standard string) string {
	if configured == upstreamOff {
		return ""
	}
	return cmp.Or(configured, standard)
}

// unixSince is the beginning that an option names, in Unix seconds; 0 for none.
func unixSince(option string) int64 {
	if option == "" {
		return 0
	}
	begin, _ := parseSince(option) // it was checked
	return begin.Unix()
}

// endpoints are those that are given, or public ones, or none.
func endpoints(given, public []string) []string {
	switch {
	case len(given) == 0:
		return public
	case slices.Contains(given, upstreamOff):
		return nil
	}
	return given
}

func (b *BankTransferConfig) name() string { return cmp.Or(b.Name, defaultTransfer) }

// publicHost reports whether an origin is meant for others than this machine.
func publicHost(origin string) bool { return !offer.IsLoopback(offer.Hostname(origin)) }
