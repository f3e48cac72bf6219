package payoffer

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
)

// StorefrontConfig is a checkout at a shop.
type StorefrontConfig struct {
	// The rail's name in paths: lower-case letters, digits and hyphens. Required.
	Name string `json:"name,omitempty"`

	// The address of the checkout.
	URL string `json:"url,omitempty"`

	// The shop's name on pages, such as Ko-fi, at most 40 characters. Default: its host.
	Label string `json:"label,omitempty"`

	// The secret in the address that the shop calls after a sale, at least 16 characters.
	// Default: none; sales are read every 10 minutes.
	HookSecret secret `json:"hook_secret,omitempty"`

	// The seller's id at the shop. Default: none.
	Seller string `json:"seller,omitempty"`

	// The product's id at the shop. Required with hook_secret or token.
	Product string `json:"product,omitempty"`

	// The access token that reads sales from the shop. Default: none; the rail is not
	// monitored.
	Token secret `json:"token,omitempty"`

	// The time from which payments count. An earlier one is read again with token. Default: the
	// first start.
	Since string `json:"since,omitempty"`
}

// UnmarshalCaddyfile reads 'storefront <name> <url> { ... }'.
func (sc *StorefrontConfig) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	if err := arguments(d, "storefront <name> <url> { ... }", &sc.Name, &sc.URL); err != nil {
		return err
	}
	seen, err := sc.options().unmarshalBlock(d, "storefront")
	if (seen["hook_secret"] || seen["token"]) && !seen["product"] {
		err = d.WrapErr(fmt.Errorf("storefront: %w", errNoProduct))
	}
	return err
}

var errNoProduct = errors.New("hook_secret and token also need product, so that sales of your other products are not counted; add 'product <id>'")

func (sc *StorefrontConfig) options() options {
	return options{"label": &sc.Label, "hook_secret": &sc.HookSecret, "seller": &sc.Seller, "product": &sc.Product, "token": &sc.Token, "since": &sc.Since}
}

var shopID = regexp.MustCompile(`^[!-~]{1,200}$`)

// provision makes the rail of a shop.
func (sc *StorefrontConfig) provision(r *resolver, t offer.Terms, s *service.Settings) offer.Rail {
	name := resolve(r, "storefront", sc.Name, parseRailName)
	if r.replace(sc.URL) == "" {
		r.leaveOut("storefront "+name, name)
		return nil
	}
	if name == "" {
		if r.replace(sc.Name) == "" {
			r.fail("storefront", unset(sc.Name, "the name is empty", "write a name before the address, such as 'storefront tip-jar https://tip-jar.example/42'"))
		}
		return nil
	}
	option := "storefront " + name
	shop := service.Storefront{
		Storefront: resolve(r, option, sc.URL, func(url string) (*offer.Storefront, error) { return offer.NewStorefront(name, url, t.Amount) }),
		HookSecret: r.hookSecret(name, option+" hook_secret", sc.HookSecret),
		Seller:     r.word(option+" seller", sc.Seller, shopID, "an id of the shop; use printable characters without spaces"),
		Token:      r.secret(option+" token", sc.Token),
		Since:      r.since(option+" since", sc.Since),
	}
	product := r.word(option+" product", sc.Product, shopID, "an id of the shop; use printable characters without spaces")
	if shop.HookSecret+shop.Token != "" && product == "" {
		r.fail(option, errNoProduct)
	}
	r.customized = r.customized || shop.HookSecret+shop.Seller+shop.Token+product != "" || shop.Since != 0
	if shop.Storefront == nil {
		return nil
	}
	shop.Storefront.Product, shop.Storefront.Label = product, r.text(option+" label", sc.Label, 40)
	s.Rails = append(s.Rails, shop)
	return shop.Storefront
}
