package document

import (
	"net/http"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// operation is one row of the API description.
type operation struct {
	method, path, id, tag string
	summary, description  string
	parameters            []object
	// body describes the request's body; nil for none.
	body any
	// security is the scheme that a request must satisfy, empty for none.
	security string
	// payment marks an operation that leads to the payment (x-payment), payable
	// the one that takes it (x-payment-info).
	payment, payable bool

	responses object
}

// operations are all rows: what is not configured has none.
func operations(o *offer.Offer, hooks []string) []operation {
	all := append(paymentOperations(o), receivedOperation())
	all = append(all, railOperations(o)...)
	all = append(all, hookOperations(hooks)...)
	all = append(all, agentOperations()...)
	return append(all, discoveryOperations(o)...)
}

func paymentOperations(o *offer.Offer) []operation {
	html := redirect("The client prefers HTML: the card checkout.")
	quoteGET := answers(on("302", html), on("402", quoteRef))
	quotePOST := answers(on("402", quoteRef))
	return []operation{
		{
			method: http.MethodGet, path: offer.PathPay, id: "pay", tag: tagPayment, payment: true,
			summary:   "Open the card checkout",
			responses: answers(on("302", redirect("The card checkout."))),
		},
		{
			method: http.MethodGet, path: offer.PathOffer, id: "getOffer", tag: tagPayment, payment: true,
			summary: "Quote the payment", responses: quoteGET,
		},
		{
			method: http.MethodPost, path: offer.PathOffer, id: "postOffer", tag: tagPayment, payment: true,
			summary: "Quote the payment; the body is ignored", body: ignoredBody(), responses: quotePOST,
		},
		{
			method: http.MethodGet, path: offer.PathQuote, id: "getQuote", tag: tagPayment, payment: true,
			summary: "Quote the payment, alias of " + offer.PathOffer, responses: quoteGET,
		},
		{
			method: http.MethodPost, path: offer.PathQuote, id: "postQuote", tag: tagPayment, payment: true,
			summary: "Quote the payment, alias of " + offer.PathOffer + "; the body is ignored",
			body:    ignoredBody(), responses: quotePOST,
		},
		{
			method: http.MethodGet, path: offer.PathSponsor, id: "getSponsor", tag: tagPayment,
			summary:   "How to pay",
			responses: answers(on("200", content("The terms, without a demand to pay.", typeJSON, ref("Terms")))),
		},
		sponsorOperation(o),
		{
			method: http.MethodGet, path: offer.PathInvoice, id: "getInvoice", tag: tagPayment,
			summary: "Every way to pay now", description: "An invoice is a quote, not a payment.",
			responses: answers(on("200", contents("The invoice.",
				media(typeJSON, ref("Invoice")), media(typeURIList, text()), media(typeHTML, text())))),
		},
	}
}

// sponsorOperation is the one operation that takes a payment by a program.
// Without a USDC rail it can only quote.
func sponsorOperation(o *offer.Offer) operation {
	op := operation{
		method: http.MethodPost, path: offer.PathSponsor, id: "postSponsor", tag: tagPayment, payment: true,
		summary: "Quote the payment; the body is ignored", body: ignoredBody(),
		responses: answers(on("402", quoteRef)),
	}
	if len(o.USDC()) == 0 {
		return op
	}
	op.payable = true
	op.summary = "Pay by the x402 protocol; the body is ignored"
	op.description = "Without a payment header the answer is the quote. " +
		"After a 503 send the identical payment again later: a new signature could pay twice."
	op.parameters = []object{
		parameter("header", "PAYMENT-SIGNATURE", "The payment, x402 version 2: base64 of the JSON payload.", text()),
		parameter("header", "X-PAYMENT", "The payment, x402 version 1: base64 of the JSON payload.", text()),
	}
	op.responses = answers(
		on("200", content("The payment was settled; PAYMENT-RESPONSE (X-PAYMENT-RESPONSE in version 1) holds the settlement.", typeJSON, ref("Settlement"))),
		on("402", quoteRef),
		on("429", laterRef),
		on("503", laterRef),
	)
	return op
}

func railOperations(o *offer.Offer) []operation {
	ops := []operation{{
		method: http.MethodGet, path: offer.PathMethods, id: "getMethods", tag: tagRails,
		summary: "Every way to pay: a page with QR codes, or the invoice for programs",
		responses: answers(on("200", contents("All rails.",
			media(typeHTML, text()), media(typeJSON, ref("Invoice"))))),
	}}
	for _, r := range o.Rails {
		ops = append(ops, railPair(o, r)...)
	}
	if t := o.Transfer(); t != nil {
		ops = append(ops, operation{
			method: http.MethodGet, path: offer.PagePath(t.Name()), id: "page_" + idPart(t.Name()), tag: tagRails,
			summary: "Payee, amount and memo: " + fixed(o, t).Title,
			responses: answers(on("200", contents("The terms.",
				media(typeHTML, text()), media(typeJSON, ref("Transfer"))))),
		})
	}
	return append(ops, operation{
		method: http.MethodGet, path: offer.PathQR + "/{rail}/{image}", id: "getQR", tag: tagRails,
		summary:     "A QR image",
		description: "Addresses of images come from the redirects of the .png paths; any other is refused.",
		parameters: []object{
			required(parameter("path", "rail", "The rail's name.", object{{"type", "string"}, {"enum", railNames(o)}})),
			required(parameter("path", "image", "What rebuilds the URI, and its authentication code.", text())),
		},
		responses: answers(on("200", content("The image.", "image/png", object{{"type", "string"}, {"contentMediaType", "image/png"}}))),
	})
}

// railPair are the two operations that every rail has. A rail without a fixed
// address depends on the exchange rate, which may be missing.
func railPair(o *offer.Offer, r offer.Rail) []operation {
	m, name := fixed(o, r), r.Name()
	list := answers(on("200", content("One URI.", typeURIList, text())))
	if m.Link() == "" {
		list = append(list, on("503", laterRef))
	}
	return []operation{
		{
			method: http.MethodGet, path: offer.URIPath(name), id: "uri_" + idPart(name), tag: tagRails,
			summary: "Payment URI: " + m.Title, responses: list,
		},
		{
			method: http.MethodGet, path: offer.PNGPath(name), id: "png_" + idPart(name), tag: tagRails,
			summary:   "QR code: " + m.Title,
			responses: answers(on("302", redirect("The QR image.")), on("503", laterRef)),
		},
	}
}
