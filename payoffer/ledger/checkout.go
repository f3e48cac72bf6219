package ledger

import (
	"encoding/json"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Checkout is the evidence of a payment by card. SessionReceipt finds it by its beginning. Of two
// equal reports the one with the later text stays, so a known Price replaces an unknown one.
type Checkout struct {
	Session string `json:"session"`
	// Price is what the seller asks for in another currency than US dollars; empty if not known.
	Price CheckoutPrice `json:"price"`
	// Subtotal is what was asked for before discounts and taxes, in US cents; 0 in another currency.
	Subtotal int64  `json:"subtotal,omitempty"`
	Event    string `json:"event,omitempty"`
}

// CheckoutPrice is how a price is set.
type CheckoutPrice string

// How the price of a checkout is set in a currency.
const (
	PriceChosen CheckoutPrice = "chosen" // by the payer
	PriceFixed  CheckoutPrice = "fixed"  // by the seller
)

// CheckoutOf returns the checkout of a payment by card, or the zero Checkout.
func CheckoutOf(r Receipt) (c Checkout) {
	if r.Rail != offer.RailCard || json.Unmarshal(r.Evidence, &c) != nil {
		return Checkout{}
	}
	return c
}
