package payoffertest

import (
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Form is the body of a notice: unsigned, with the whole sale in it.
func (sale StorefrontSale) Form(resource string) (contentType string, body []byte) {
	return "application/x-www-form-urlencoded", []byte(url.Values{
		"resource_name": {resource}, "seller_id": {sale.Seller}, "product_id": {sale.Product}, "email": {"buyer@example.com"},
		"price": {fmt.Sprint(sale.Price)}, "order_number": {fmt.Sprint(sale.Order)}, "sale_id": {sale.ID},
		"sale_timestamp": {sale.CreatedAt.UTC().Format(time.RFC3339)}, "refunded": {fmt.Sprint(sale.refunded())},
	}.Encode())
}

func (sale *StorefrontSale) refunded() bool {
	return sale.RefundedCents > 0 && sale.RefundedCents == sale.Price
}

// listed is the sale as the API lists it.
func (sale *StorefrontSale) listed() map[string]any {
	left := sale.Price - sale.RefundedCents
	refundable := fmt.Sprintf("%d.%02d", left/100, left%100)
	listed := map[string]any{
		"id": sale.ID, "email": "buyer@example.com", "seller_id": sale.Seller, "timestamp": "about 1 month ago",
		"created_at": sale.CreatedAt.UTC().Format(time.RFC3339), "product_name": "One payment", "price": sale.Price,
		"gumroad_fee": sale.Price / 10, "currency_symbol": map[string]string{"usd": "$", "eur": "€"}[sale.Currency],
		"amount_refundable_in_currency": strings.TrimSuffix(refundable, ".00"),
		"product_id":                    sale.Product, "product_permalink": sale.ShortProduct,
		"refunded": sale.refunded(), "partially_refunded": sale.RefundedCents > 0 && !sale.refunded(),
		"chargedback": sale.Disputed && !sale.DisputeWon, "disputed": sale.Disputed, "dispute_won": sale.DisputeWon,
		"purchase_email": "buyer@example.com", "paid": sale.Price != 0, "order_id": sale.Order, "custom_fields": map[string]string{},
		"is_gift_sender_purchase": false, "is_gift_receiver_purchase": sale.GiftReceiver, "quantity": 1,
	}
	if sale.FreeTrial || sale.Recurring {
		listed["recurring_charge"] = sale.Recurring
		listed["free_trial_ended"] = sale.Recurring
		listed["free_trial_ends_on"] = "Jan 5, 2027"
	}
	return listed
}
