package card

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// unitPrice is how a price is set in one currency.
type unitPrice struct {
	Amount *amount   `json:"unit_amount"`
	Custom *struct{} `json:"custom_unit_amount"` // the payer chooses the amount
}

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
	add := func(currency string, p unitPrice) {
		currency = strings.ToUpper(currency)
		if p.Custom != nil {
			found[currency] = ledger.PriceChosen
		} else if found[currency] == "" && p.Amount.value() > 0 {
			found[currency] = ledger.PriceFixed
		}
	}
	query := url.Values{"expand[]": {"data.price.currency_options"}}
	err := p.each(ctx, "/v1/payment_links/"+link+"/line_items", query, func(items []json.RawMessage, _ int64) error {
		for _, item := range items {
			var line struct {
				Price struct {
					unitPrice
					Currency string               `json:"currency"`
					Options  map[string]unitPrice `json:"currency_options"`
				} `json:"price"`
			}
			if decode(item, &line) != nil || line.Price.Currency == "" {
				return p.fail(observe.ErrBadAnswer)
			}
			add(line.Price.Currency, line.Price.unitPrice)
			for currency, option := range line.Price.Options {
				add(currency, option)
			}
		}
		return nil
	})
	return found, err
}
