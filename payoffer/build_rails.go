package payoffer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/bitcoin"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
)

// bitcoinSettings say how the Bitcoin rail is observed.
type bitcoinSettings struct {
	// esplora are the endpoints, none when the chain is not read.
	esplora       []string
	confirmations int
}

// cardSettings say how the card rail is observed.
type cardSettings struct {
	paymentLink, secret, apiKey string
	testMode                    bool
}

// observed reports whether anything is told of payments.
func (c cardSettings) observed() bool { return c.secret != "" || c.apiKey != "" }

// storefrontSettings say how a storefront is observed.
type storefrontSettings struct {
	rail                           string
	seller, product, secret, token string
}

func (s storefrontSettings) observed() bool { return s.secret != "" || s.token != "" }

// announceSettings are an address to which receipts are announced.
type announceSettings struct{ url, secret string }

func (h *Handler) card(r *resolver, s *settings, amount offer.USD) *offer.Card {
	if h.Card == nil {
		r.fail("card", errors.New("is missing; write the address of the card checkout"))
		return nil
	}
	c := h.Card
	checkout := r.text("card", c.URL, "", checkURL)
	if checkout == "" {
		r.fail("card", errors.New("is empty; write the address of the card checkout, which every offer has"))
	}
	methods := r.texts("card methods", c.Methods, checkPaymentMethod)
	s.card = cardSettings{
		paymentLink: r.text("card payment_link", c.PaymentLink, "", checkPaymentLink),
		secret:      r.secret("card webhook_secret", c.WebhookSecret),
		apiKey:      r.secret("card api_key", c.APIKey),
		testMode:    c.TestMode,
	}
	if s.card.observed() && s.card.paymentLink == "" {
		r.errs = append(r.errs, errors.New(missingPaymentLink))
	}
	card, err := offer.NewCard(checkout, methods, amount)
	if err != nil {
		return nil // reported by checkURL
	}
	card.TestMode = c.TestMode
	return card
}

// otherRails makes the rails after USDC in the order of publication.
func (h *Handler) otherRails(r *resolver, s *settings, terms offer.Terms) []offer.Rail {
	var rails []offer.Rail
	if rail := h.bitcoin(r, s, terms); rail != nil {
		rails = append(rails, rail)
	}
	if rail := h.bankTransfer(r, terms); rail != nil {
		rails = append(rails, rail)
	}
	for _, c := range h.Storefronts {
		if rail := c.rail(r, s, terms.Amount); rail != nil {
			rails = append(rails, rail)
		}
	}
	return rails
}

func (h *Handler) bitcoin(r *resolver, s *settings, terms offer.Terms) offer.Rail {
	if h.Bitcoin == nil {
		return nil
	}
	b := h.Bitcoin
	account := r.text("bitcoin", b.Account, "", offer.CheckBitcoinAccount)
	if account == "" {
		return nil
	}
	s.rates = r.texts("bitcoin rates", b.Rates, checkRateSource)
	if b.Confirmations < 0 || b.Confirmations > maxConfirmations {
		r.fail("bitcoin confirmations", fmt.Errorf("%d is not a number from 1 to %d", b.Confirmations, maxConfirmations))
	}
	if _, err := rate.New(rate.Config{Sources: s.rates}); err != nil {
		r.fail("bitcoin rates", err)
	}
	rail, err := offer.NewBitcoin(account, terms.Name, terms.Amount)
	if err != nil {
		return nil // reported by its check
	}
	s.bitcoin = bitcoinSettings{b.endpoints(r, rail), cmp.Or(b.Confirmations, defaultConfirmations)}
	return rail
}

// endpoints are those that are given, or public ones.
func (b *BitcoinConfig) endpoints(r *resolver, rail *offer.Bitcoin) []string {
	given := r.texts("bitcoin esplora", b.Esplora, checkUpstreamOrOff)
	switch {
	case len(given) == 0:
		return bitcoin.DefaultEndpoints(rail)
	case slices.Contains(given, upstreamOff):
		if len(given) > 1 {
			r.errs = append(r.errs, errors.New(esploraOffAlone))
		}
		return nil
	}
	return given
}

// esploraOffAlone is the mistake of an endpoint beside "off".
const esploraOffAlone = "esplora: 'off' stands alone; give endpoints or 'off'"

func (h *Handler) bankTransfer(r *resolver, terms offer.Terms) offer.Rail {
	if h.BankTransfer == nil {
		return nil
	}
	b := h.BankTransfer
	inbox := r.text("bank_transfer", b.Inbox, "", checkMailbox)
	if inbox == "" {
		return nil
	}
	name := r.text("bank_transfer", b.Name, defaultTransfer, offer.CheckRailName)
	memo := r.text("bank_transfer memo", b.Memo, terms.Name+" "+terms.Amount.String(), checkMemo)
	rail, err := offer.NewTransfer(name, inbox, memo, terms.Operator, terms.Amount)
	if err != nil {
		return nil // reported by its check
	}
	return rail
}

func (c *StorefrontConfig) rail(r *resolver, s *settings, amount offer.USD) offer.Rail {
	name := r.text("storefront", c.Name, "", offer.CheckRailName)
	if name == "" {
		r.fail("storefront", errors.New("the name is empty"))
		return nil
	}
	option := "storefront " + name
	checkout := r.text(option, c.URL, "", checkURL)
	if checkout == "" {
		return nil
	}
	observed := storefrontSettings{
		rail:    name,
		seller:  r.text(option+" seller", c.Seller, "", checkShopID),
		product: r.text(option+" product", c.Product, "", checkShopID),
		secret:  r.secret(option+" hook_secret", c.HookSecret),
		token:   r.secret(option+" token", c.Token),
	}
	if observed.observed() && observed.product == "" {
		r.fail(option, errors.New(missingProduct))
	}
	s.storefronts = append(s.storefronts, observed)
	rail, err := offer.NewStorefront(name, checkout, amount)
	if err != nil {
		return nil // reported by its check
	}
	return rail
}
