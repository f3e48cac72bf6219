package payoffertest

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Form is the body of a notice as the shop sends it by default: values are
// escaped, and of the names only the brackets, so that a name from the
// product's query can hold a "&".
func (sale StorefrontSale) Form(resource string) (contentType string, body []byte) {
	var pairs []string
	add := func(name string, value any) {
		pairs = append(pairs, name+"="+strings.ReplaceAll(url.QueryEscape(fmt.Sprint(value)), "+", "%20"))
	}
	for _, field := range sale.notice(resource) {
		nested, ok := field.value.([][2]string)
		if !ok {
			add(escapeBrackets(field.name), field.value)
			continue
		}
		for _, pair := range nested {
			add(escapeBrackets(field.name)+"["+escapeBrackets(pair[0])+"]", pair[1])
		}
	}
	return "application/x-www-form-urlencoded", []byte(strings.Join(pairs, "&"))
}

func escapeBrackets(name string) string {
	return strings.NewReplacer("[", "%5B", "]", "%5D").Replace(name)
}

// JSON is the body of a notice as the shop sends it to sellers who chose so.
func (sale StorefrontSale) JSON(resource string) (contentType string, body []byte) {
	object := map[string]any{}
	for _, field := range sale.notice(resource) {
		if nested, ok := field.value.([][2]string); ok {
			inner := map[string]string{}
			for _, pair := range nested {
				inner[pair[0]] = pair[1]
			}
			field.value = inner
		}
		object[field.name] = field.value
	}
	body, err := json.Marshal(object)
	if err != nil {
		panic("payoffertest: encode a notice: " + err.Error()) // texts, numbers and booleans
	}
	return "application/json", body
}

type storefrontField struct {
	name  string
	value any
}

// notice has the fields in the shop's order. A custom field takes the place of
// a field before it that bears its name.
func (sale StorefrontSale) notice(resource string) []storefrontField {
	fields := []storefrontField{
		{"seller_id", sale.Seller}, {"product_id", sale.Product}, {"product_name", "One payment"},
		{"permalink", sale.ShortProduct}, {"product_permalink", "https://shop.example/l/" + sale.ShortProduct},
		{"short_product_id", sale.ShortProduct}, {"email", "buyer@example.com"}, {"price", sale.Price},
		{"gumroad_fee", sale.Price / 10}, {"currency", sale.Currency}, {"quantity", 1}, {"discover_fee_charged", false},
		{"can_contact", true}, {"referrer", "direct"}, {"card", [][2]string{{"visual", ""}, {"type", ""}}},
		{"order_number", sale.Order}, {"sale_id", sale.ID}, {"sale_timestamp", sale.CreatedAt.UTC().Format(time.RFC3339)},
	}
	add := func(name string, value any, present bool) {
		if !present {
			return
		}
		at := slices.IndexFunc(fields, func(f storefrontField) bool { return f.name == name })
		if at >= 0 {
			fields[at].value = value
			return
		}
		fields = append(fields, storefrontField{name, value})
	}
	add("url_params", sale.URLParams, len(sale.URLParams) > 0)
	add("test", true, sale.Test)
	add("is_recurring_charge", true, sale.Recurring)
	add("is_preorder_authorization", true, sale.Preorder)
	for _, custom := range sale.CustomFields {
		add(custom[0], custom[1], true)
	}
	add("custom_fields", sale.CustomFields, len(sale.CustomFields) > 0)
	add("ip_country", "United States", true)
	add("is_gift_receiver_purchase", sale.GiftReceiver, true)
	add("refunded", sale.refunded(), true)
	add("resource_name", resource, resource != "")
	add("disputed", sale.Disputed, true)
	add("dispute_won", sale.DisputeWon, true)
	return fields
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
