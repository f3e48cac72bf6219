package document

import (
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Tags group the operations.
const (
	tagPayment   = "payment"
	tagRails     = "rails"
	tagReceipts  = "receipts"
	tagHooks     = "hooks"
	tagAgents    = "agents"
	tagDiscovery = "discovery"
)

// OpenAPI is the OpenAPI 3.1.0 description of every path of the service host,
// with x-payment (specification section 2.1), and with x-payment-info and
// x-service-info in the forms that payment directories read. HEAD and OPTIONS,
// which every public path answers, are not described.
func OpenAPI(o *offer.Offer, served Served) Document {
	checkout := fixed(o, o.Card).Title
	tags := []object{
		{{"name", tagPayment}, {"description", "Quotes and the checkout."}},
		{{"name", tagRails}, {"description", "Each way to pay as a URI and a QR code."}},
		{{"name", tagReceipts}, {"description", "Received money."}},
	}
	if len(served.Hooks) > 0 {
		tags = append(tags, object{{"name", tagHooks}, {"description", "Webhooks of providers, and of nobody else."}})
	}
	tags = append(tags,
		object{{"name", tagAgents}, {"description", "The agent endpoint and its descriptions."}},
		object{{"name", tagDiscovery}, {"description", "Documents that lead to the payment."}})
	return JSON(typeJSON, object{
		{"openapi", "3.1.0"},
		{"info", object{
			{"title", o.Name},
			{"version", Version},
			{"description", markdown(o.Description)},
			{"contact", contact(o)},
			{"license", object{{"name", "Apache License 2.0"}, {"identifier", "Apache-2.0"}}},
			{"x-guidance", "One fixed payment of " + price(o) + ". A person must have authorised it. " +
				"A 402 answer or a 200 invoice is a quote, not a payment."},
		}},
		{"servers", []object{
			{{"url", o.BaseURL}, {"description", "The service."}},
			{{"url", o.SiteURL}, {"description", "The site with the page for people."}},
		}},
		{"externalDocs", object{{"description", checkout}, {"url", o.Card.URL}}},
		{"x-payment", payment(o)},
		{"security", []object{}},
		{"x-service-info", object{
			{"categories", []string{"payments"}},
			{"docs", object{
				{"homepage", o.SitePage()},
				{"apiReference", o.URL(offer.PathOpenAPI)},
				{"llms", o.URL(offer.PathLLMs)},
			}},
		}},
		{"tags", tags},
		{"paths", paths(o, served.Hooks)},
		{"components", append(object{
			{"responses", sharedResponses(o)},
			{"schemas", schemas(o, served)},
		}, securitySchemes(served.Hooks)...)},
	})
}

// paths groups the operations, of which those of one path follow each other.
func paths(o *offer.Offer, hooks []string) object {
	var items object
	for _, op := range operations(o, hooks) {
		if len(items) == 0 || items[len(items)-1].name != op.path {
			items = append(items, member{op.path, object(nil)})
		}
		item := &items[len(items)-1]
		item.value = append(item.value.(object), member{op.method, op})
	}
	return items
}

// contact is who answers for the interface; directories verify the owner of an
// origin by the e-mail address.
func contact(o *offer.Offer) object {
	out := object{{"name", o.Operator}, {"url", o.SiteURL}}
	if o.Contact != "" {
		out = append(out, member{"email", o.Contact})
	}
	return out
}

// payment is the card checkout as x-payment has it. Clients of this interface
// read it at the root, where its url is that of externalDocs.
func payment(o *offer.Offer) object {
	return object{{"scheme", offer.SchemeCard}, {"amountUsd", o.Amount}, {"url", o.Card.URL}}
}

// Names of the Payment scheme for how it is paid here (draft-evm-charge).
const (
	challengeMethod = "evm"
	challengeIntent = "charge"
)

// paymentInfo holds the price in the two forms in use: offers, in atomic units
// (draft-payment-discovery), and price with protocols, in dollars. Each of the
// offers has a challenge at run time, which the card checkout has not. Only an
// operation that takes the payment carries it: a directory lists what it finds
// it on as something to be paid there.
func paymentInfo(o *offer.Offer) (info object) {
	protocols := []object{{{"x402", object{}}}}
	if o.Challenges() {
		var offers []object
		for _, u := range o.USDC() {
			offers = append(offers, object{
				{"intent", challengeIntent},
				{"method", challengeMethod},
				{"amount", u.AmountAtomic()},
				{"currency", u.Network.USDC},
				{"description", fixed(o, u).Title},
			})
		}
		info = object{{"offers", offers}}
		protocols = append(protocols, object{{"mpp", object{
			{"method", challengeMethod}, {"intent", challengeIntent}, {"currency", o.USDC()[0].Network.USDC},
		}}})
	}
	return append(info,
		member{"price", object{{"mode", "fixed"}, {"amount", o.Amount.Decimal()}, {"currency", "USD"}}},
		member{"protocols", protocols})
}
