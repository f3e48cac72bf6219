package payoffer

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
)

// CardConfig is the hosted card checkout.
type CardConfig struct {
	// The address of the checkout, such as a Stripe payment link. Required.
	URL string `json:"url,omitempty"`

	// The payment methods that the checkout offers, as the documents publish them. Default:
	// card, us_bank_account, cashapp, link, klarna, afterpay_clearpay and affirm.
	Methods []string `json:"methods,omitempty"`

	// The id of the payment link (plink_…). Required with webhook_secret or api_key: payments
	// for other products are not counted.
	PaymentLink string `json:"payment_link,omitempty"`

	// The signing secret of the webhook endpoint (whsec_…). Default: none.
	WebhookSecret secret `json:"webhook_secret,omitempty"`

	// A restricted API key (rk_…), which reads payments that no webhook reported. Default: none.
	APIKey secret `json:"api_key,omitempty"`

	// Whether the checkout is in test mode, whose payments never count. Default: on for a test
	// link (https://buy.stripe.com/test_…), which a public offer refuses without this option
	// or testnet.
	TestMode bool `json:"test_mode,omitempty"`

	// The time from which payments count. An earlier one is read again with api_key. Default:
	// the first start.
	Since string `json:"since,omitempty"`
}

// UnmarshalCaddyfile reads 'card <url> { ... }'.
func (c *CardConfig) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	if err := arguments(d, "card <url> { ... }", &c.URL); err != nil {
		return err
	}
	seen, err := c.options().unmarshalBlock(d, "card")
	if (seen["webhook_secret"] || seen["api_key"]) && !seen["payment_link"] {
		err = d.WrapErr(errNoPaymentLink)
	}
	return err
}

var errNoPaymentLink = errors.New("card: webhook_secret and api_key also need payment_link, so that payments for your other products are not counted; " +
	"add 'payment_link plink_…'")

func (c *CardConfig) options() options {
	return options{
		"methods": &c.Methods, "payment_link": &c.PaymentLink, "webhook_secret": &c.WebhookSecret, "api_key": &c.APIKey,
		"test_mode": &c.TestMode, "since": &c.Since,
	}
}

var (
	paymentLink   = regexp.MustCompile(`^plink_[A-Za-z0-9_]+$`)
	paymentMethod = regexp.MustCompile(`^[a-z0-9_]{1,40}$`)
)

// provision makes the card rail.
func (c *CardConfig) provision(r *resolver, t offer.Terms, s *service.Settings) offer.Rail {
	link := r.word("card payment_link", c.PaymentLink, paymentLink, "the id of a payment link; it starts with plink_")
	methods := resolveAll(r, "card methods", c.Methods, func(s string) (string, error) {
		if !paymentMethod.MatchString(s) {
			return "", fmt.Errorf("%q is not the identifier of a payment method; write lower-case letters, such as us_bank_account", s)
		}
		return s, nil
	})
	observed := service.Card{
		WebhookSecret: r.hookSecret(offer.RailCard, "card webhook_secret", c.WebhookSecret),
		APIKey:        r.secret("card api_key", c.APIKey), Since: r.since("card since", c.Since),
	}
	r.customized = r.customized || observed != (service.Card{}) || link != "" || c.TestMode
	switch {
	case link == offer.DemoLink && !r.inDemo:
		r.fail("card payment_link", fmt.Errorf("%s is the payment link of the demo; write the id of your own, such as plink_1Abc", link))
	case strings.HasPrefix(observed.APIKey, "sk_"):
		r.fail("card api_key", errors.New("this is a secret key (sk_…), which can move your money; at Stripe open API keys and create a restricted key (rk_…) that can read, as docs/guides/stripe says"))
	case observed.WebhookSecret+observed.APIKey != "" && link == "":
		r.errs = append(r.errs, errNoPaymentLink)
	}
	if r.replace(c.URL) == "" {
		r.fail("card", unset(c.URL, "the address is empty, and every offer needs a card checkout", "write for example 'card https://buy.stripe.com/YOUR_LINK'"))
		return nil
	}
	card := resolve(r, "card", c.URL, func(url string) (*offer.Card, error) { return offer.NewCard(url, methods, t.Amount) })
	if card == nil {
		return nil
	}
	card.PaymentLink, card.TestMode = link, card.TestMode || c.TestMode
	observed.Card = card
	s.Rails = append(s.Rails, observed)
	return card
}

// demoRail returns the checkout of a demo.
func (c *CardConfig) demoRail(sandbox *Sandbox) railConfig {
	return &CardConfig{URL: sandbox.Checkout, Methods: c.Methods, PaymentLink: offer.DemoLink, WebhookSecret: secret(sandbox.WebhookSecret), TestMode: true}
}
