package card

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// CheckPrices reads the prices of the payment link with APIKey, which must not be empty.
func CheckPrices(ctx context.Context, c Config) error {
	o, err := New(c)
	if err == nil {
		_, err = o.provider.prices(ctx, c.PaymentLink)
	}
	return err
}

// prices reads how the prices of a payment link are set, by currencies in upper case. A price is
// fixed if that of each of its items is.
func (p *provider) prices(ctx context.Context, link string) (map[string]ledger.CheckoutPrice, error) {
	found := make(map[string]ledger.CheckoutPrice)
	add := func(currency string, price *fields) {
		currency = strings.ToUpper(currency)
		custom, chosen := price.members["custom_unit_amount"]
		if chosen = chosen && string(custom) != "null"; chosen {
			found[currency] = ledger.PriceChosen
		} else if found[currency] == "" && price.optionalAmount("unit_amount") > 0 {
			found[currency] = ledger.PriceFixed
		}
	}
	query := url.Values{"expand[]": {"data.price.currency_options"}}
	err := p.each(ctx, "/v1/payment_links/"+link+"/line_items", query, func(items []json.RawMessage, _ int64) error {
		for _, item := range items {
			price := parseFields(item).object("price")
			add(price.text("currency"), price)
			for currency, option := range parseFields(price.members["currency_options"]).members {
				add(currency, parseFields(option))
			}
			if price.err != nil {
				return p.fail(observe.ErrBadAnswer)
			}
		}
		return nil
	})
	return found, err
}
