package document

import "github.com/payoffer/caddy-pay-offer/payoffer/offer"

// quoteResponse is the 402 answer.
func quoteResponse(o *offer.Offer) object {
	quote := content("The quote. It is not a payment.", typeJSON, ref("Quote"))
	if len(o.USDC()) == 0 {
		return quote
	}
	return with(quote, headerOf("PAYMENT-REQUIRED", "The quote in x402 version 2: base64 of the JSON.", text()))
}

func fallbackSchema(o *offer.Offer) object {
	return record(
		[]string{"scheme", "network", "amountUsd", "asset", "url", "methods"},
		member{"scheme", object{{"const", offer.SchemeCard}}},
		member{"network", object{{"const", "fiat"}}},
		member{"amountUsd", dollars()},
		member{"asset", object{{"const", "USD"}}},
		member{"url", uri("The card checkout.")},
		member{"methods", listOf(object{{"type", "string"}, {"enum", o.Card.PaymentMethods}})},
	)
}

// quoteSchema is the body of a 402.
func quoteSchema(o *offer.Offer) object {
	names, members := quoteMembers(o)
	return record(names, members...)
}

// termsSchema is the quote without a demand to pay.
func termsSchema(o *offer.Offer) object {
	names, members := quoteMembers(o)
	return record(append(names, "offer", "description", "howToPay", "method", "url", "amountUsd", "currency", "invoice"),
		append(members,
			member{"offer", described("string", "The offer's id.")},
			member{"description", text()},
			member{"howToPay", described("string", "What a client has to do.")},
			member{"method", object{{"const", "POST"}}},
			member{"url", uri("The payable URL.")},
			member{"amountUsd", dollars()},
			currencyMember(),
			member{"invoice", uri("Every way to pay.")},
		)...)
}

// quoteMembers are the required names and the members of a quote. The terms for
// programs are there when a rail for programs is.
func quoteMembers(o *offer.Offer) (required []string, members []member) {
	required = []string{"error", "fallback"}
	members = []member{{"error", text()}, {"fallback", ref("Fallback")}}
	if len(o.USDC()) == 0 {
		return required, members
	}
	return append(required, "x402Version", "accepts", "hint"), append(members,
		member{"x402Version", object{{"const", 1}}},
		member{"accepts", listOf(ref("Requirement"))},
		member{"hint", described("string", "Advice to the buyer.")})
}

// requirementSchema is one way to pay in x402 version 1.
func requirementSchema() object {
	return record(
		[]string{"scheme", "network", "maxAmountRequired", "asset", "payTo", "resource", "maxTimeoutSeconds"},
		member{"scheme", object{{"const", "exact"}}},
		member{"network", text()},
		member{"maxAmountRequired", described("string", "An integer in the token's atomic units.")},
		member{"asset", described("string", "The token contract.")},
		member{"payTo", described("string", "Where the money goes.")},
		member{"resource", uri("The payable URL.")},
		member{"description", text()},
		member{"mimeType", text()},
		member{"maxTimeoutSeconds", described("integer", "How long a signed payment is valid, in seconds.")},
		member{"extra", described("object", "Name and version of the token's EIP-712 domain.")},
	)
}

// settlementSchema is the body of a paid answer.
func settlementSchema() object {
	return record(
		[]string{"success", "status", "offer", "amountUsd", "currency", "network", "transaction", "payer", "receiptUrl", "description"},
		member{"success", object{{"const", true}}},
		member{"status", object{
			{"type", "string"}, {"enum", []string{"seen", "claimed"}},
			{"description", "Whether the payment was read on the chain or is the facilitator's word."},
		}},
		member{"offer", described("string", "The offer's id.")},
		member{"amountUsd", dollars()},
		currencyMember(),
		member{"network", described("string", "The chain, in the words of the version that the payment has.")},
		member{"transaction", described("string", "The transaction's hash.")},
		member{"payer", text()},
		member{"receiptUrl", uri("Where the receipt appears once it is confirmed.")},
		member{"description", described("string", "What the answer means.")},
	)
}

// x402Schema is the document for x402 directories; accepts are requirements in
// version 2.
func x402Schema() object {
	return whole(
		member{"version", object{{"const", 1}}},
		member{"x402Version", object{{"const", 2}}},
		member{"name", text()},
		member{"description", text()},
		member{"resources", listOf(uri("A payable URL."))},
		member{"instructions", described("string", "What a client has to do.")},
		member{"accepts", listOf(record(
			[]string{"scheme", "network", "amount", "asset", "payTo", "maxTimeoutSeconds"},
			member{"scheme", object{{"const", "exact"}}},
			member{"network", described("string", "The chain as a CAIP-2 id.")},
			member{"amount", atomic()},
			member{"asset", described("string", "The token contract.")},
			member{"payTo", described("string", "Where the money goes.")},
			member{"maxTimeoutSeconds", described("integer", "How long a signed payment is valid, in seconds.")},
			member{"extra", described("object", "Name and version of the token's EIP-712 domain.")},
		))},
	)
}
