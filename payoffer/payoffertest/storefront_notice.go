package payoffertest

import (
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Form is the body of a notice: unsigned, with the whole sale in it.
func (s StorefrontSale) Form(resource string) (contentType string, body []byte) {
	return "application/x-www-form-urlencoded", []byte(url.Values{
		"resource_name": {resource}, "seller_id": {s.Seller}, "product_id": {s.Product}, "email": {"buyer@example.com"},
		"price": {fmt.Sprint(s.Price)}, "order_number": {fmt.Sprint(s.Order)}, "sale_id": {s.ID},
		"sale_timestamp": {s.CreatedAt.UTC().Format(time.RFC3339)}, "refunded": {fmt.Sprint(s.refunded())},
	}.Encode())
}

func (s *StorefrontSale) refunded() bool {
	return s.RefundedCents > 0 && s.RefundedCents == s.Price
}

// listed is the sale as the API lists it.
func (s *StorefrontSale) listed() map[string]any {
	left := s.Price - s.RefundedCents
	refundable := fmt.Sprintf("%d.%02d", left/100, left%100)
	listed := map[string]any{
		"id": s.ID, "email": "buyer@example.com", "seller_id": s.Seller, "timestamp": "about 1 month ago",
		"created_at": s.CreatedAt.UTC().Format(time.RFC3339), "product_name": "One payment", "price": s.Price,
		"gumroad_fee": s.Price / 10, "currency_symbol": map[string]string{"usd": "$", "eur": "€"}[s.Currency],
		"amount_refundable_in_currency": strings.TrimSuffix(refundable, ".00"),
		"product_id":                    s.Product, "product_permalink": s.ShortProduct,
		"refunded": s.refunded(), "partially_refunded": s.RefundedCents > 0 && !s.refunded(),
		"chargedback": s.Disputed && !s.DisputeWon, "disputed": s.Disputed, "dispute_won": s.DisputeWon,
		"purchase_email": "buyer@example.com", "paid": s.Price != 0, "order_id": s.Order, "custom_fields": map[string]string{},
		"is_gift_sender_purchase": false, "is_gift_receiver_purchase": s.GiftReceiver, "quantity": 1,
	}
	if s.FreeTrial || s.Recurring {
		listed["recurring_charge"] = s.Recurring
		listed["free_trial_ended"] = s.Recurring
		listed["free_trial_ends_on"] = "Jan 5, 2027"
	}
	return listed
}
