package document

import (
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// operation is an Operation Object and where it stands.
type operation struct {
	method, path string

	ID          string   `json:"operationId"`
	Summary     string   `json:"summary"`
	Tags        []string `json:"tags"`
	Description string   `json:"description,omitempty"`
	Parameters  []object `json:"parameters,omitempty"`
	Body        object   `json:"requestBody,omitempty"`
	// Security is empty and never null: directories want it said of every
	// operation that it is public.
	Security []object `json:"security"`
	// Payment marks an operation that leads to the payment, PaymentInfo the one
	// that takes it.
	Payment     object `json:"x-payment,omitempty"`
	PaymentInfo object `json:"x-payment-info,omitempty"`
	Responses   object `json:"responses"`
}

func get(tag, id, path, summary string, responses object) operation {
	return operation{
		method: "get", path: path, ID: id, Summary: summary, Tags: []string{tag}, Security: []object{}, Responses: responses,
	}
}

func post(tag, id, path, summary string, body, responses object) operation {
	op := get(tag, id, path, summary, responses)
	op.method, op.Body = "post", body
	return op
}

// operations are all rows: what is not configured has none.
func operations(o *offer.Offer, hooks []string) []operation {
	return slices.Concat(paymentOperations(o), []operation{receivedOperation(), thanksOperation()}, receiptOperations(), railOperations(o), hookOperations(hooks),
		[]operation{agentOperation()}, discoveryOperations(o))
}

func paymentOperations(o *offer.Offer) []operation {
	quoteGET := answers(redirect("The client prefers HTML: the card checkout."), member{"402", quoteRef})
	quotePOST, alias := answers(member{"402", quoteRef}), ", alias of "+offer.PathOffer
	leading := []operation{
		get(tagPayment, "pay", offer.PathPay, "Open the card checkout", answers(redirect("The card checkout."))),
		get(tagPayment, "getOffer", offer.PathOffer, "Quote the payment", quoteGET),
		post(tagPayment, "postOffer", offer.PathOffer, "Quote the payment; the body is ignored", ignoredBody, quotePOST),
		get(tagPayment, "getQuote", offer.PathQuote, "Quote the payment"+alias, quoteGET),
		post(tagPayment, "postQuote", offer.PathQuote, "Quote the payment"+alias+"; the body is ignored", ignoredBody, quotePOST),
		sponsorOperation(o),
	}
	for i := range leading {
		leading[i].Payment = payment(o)
	}
	terms := get(tagPayment, "getSponsor", offer.PathSponsor, "How to pay",
		answers(ok("The terms, without a demand to pay.", page, media(typeJSON, ref("Terms")))))
	invoice := get(tagPayment, "getInvoice", offer.PathInvoice, "Every way to pay now",
		answers(ok("The invoice.", media(typeJSON, ref("Invoice")), media(typeURIList, text), page)))
	invoice.Description = "An invoice is a quote, not a payment."
	return append(slices.Insert(leading, len(leading)-1, terms), invoice)
}

// sponsorOperation is the one operation that takes a payment by a program.
// Without a USDC rail it can only quote.
func sponsorOperation(o *offer.Offer) operation {
	op := post(tagPayment, "postSponsor", offer.PathSponsor, "Quote the payment; the body is ignored", ignoredBody,
		answers(member{"402", quoteRef}))
	if len(o.USDC()) == 0 {
		return op
	}
	op.PaymentInfo = paymentInfo(o)
	op.Summary = "Pay by the x402 protocol; the body is ignored"
	op.Description = "Without a payment header the answer is the quote. " +
		"After a 503 send the identical payment again later, and after a 409 the one that it names: a new signature could pay twice."
	op.Parameters = []object{
		parameter("header", "PAYMENT-SIGNATURE", "The payment, x402 version 2: base64 of the JSON payload.", text),
		parameter("header", "X-PAYMENT", "The payment, x402 version 1: base64 of the JSON payload.", text),
	}
	settled := contents("The payment was settled; PAYMENT-RESPONSE (X-PAYMENT-RESPONSE in version 1) holds the settlement.", media(typeJSON, ref("Settlement")))
	op.Responses = answers(member{"200", settled}, member{"402", quoteRef}, member{"429", laterRef}, later)
	if o.Challenges() {
		challenging(o, &op, settled)
	}
	return op
}

// challenging adds to the operation that takes the payment what is of the Payment
// scheme. Its credential is described in words: it may be left out, which a
// security scheme may not, and a parameter cannot be named Authorization.
func challenging(o *offer.Offer, op *operation, settled object) {
	op.Summary = "Pay by x402 or by the Payment scheme (MPP); the body is ignored"
	op.Description += " A 402 also challenges by the Payment HTTP authentication scheme, method " + challengeMethod + ", intent " + challengeIntent +
		", once for each chain: answer one challenge in the request header " + o.MPP + "."
	if o.MPP != "Authorization" {
		op.Parameters = append(op.Parameters, parameter("header", o.MPP, "The credential of the Payment scheme: Payment and base64url of the JSON.", text))
	}
	quote := contents("The quote, which is not a payment; or why a credential was refused.", media(typeJSON, ref("Quote")), media(typeProblem, ref("RefusedCredential")))
	op.Responses = answers(
		member{"200", with(settled, sometimes("Payment-Receipt", "Of a credential that paid: base64url of the receipt in JSON."))},
		member{"400", contents("The payment or the credential cannot be taken, and was not sent.",
			media(typeProblem, object{{"oneOf", []any{ref("Problem"), ref("RefusedCredential")}}}), page)},
		member{"402", with(quote, quoteHeader, sometimes("WWW-Authenticate", "The challenges of the Payment scheme, new in each answer."))},
		member{"429", laterRef}, later)
}

// receivedOperation is the report and the feed, which differ by parameters.
func receivedOperation() operation {
	op := get(tagReceipts, "getReceived", offer.PathReceived,
		"Received payments and the evidence for them, or every change of them in order",
		answers(ok("The report, or the feed.", media(typeJSON, object{{"oneOf", []any{ref("Received"), ref("Feed")}}}), page), later))
	op.Description = "Without `after`: the report. Receipts come newest first, and what is not known of a rail reads null, never 0. " +
		"With `after`: the feed. Changes come in the order in which they were recorded; a reader that keeps `cursor` together with what it did, " +
		"and asks for `next` again and again, misses none and sees none twice. 410 tells it that an older copy of the ledger was put back, or that " +
		"the cursor is another ledger's: read all again from 0 on, and let that replace all that was read before. Until then a payment is the same " +
		"where rail and number are, also where its receipt has another id since."
	op.Parameters = []object{
		parameter("query", "before", "Receipts older than the one with this number. Not together with after.",
			object{{"type", "integer"}, {"format", "int64"}, {"minimum", 1}}),
		parameter("query", "after", "Changes recorded after the one with this cursor; 0 begins at the start. The seq alone is taken too.",
			object{{"type", "string"}, {"pattern", `^[0-9]+(\.[0-9a-f]{16})?$`}}),
		parameter("query", "limit", "How many to list: 20 receipts or 100 changes if left out.",
			object{{"type", "integer"}, {"minimum", 1}, {"maximum", 100}}),
	}
	return op
}

// receiptOperations are the page of one payment and what is signed of it.
func receiptOperations() []operation {
	page := get(tagReceipts, "getReceipt", offer.PathReceipt+"/{id}", "One payment, for who made it",
		answers(ok("The payment and what became of it.", media(typeJSON, ref("Payment")), page), later))
	page.Description = "The address is a secret of the payer: it stands in the answer to the payment. It is the same on every server of the offer and " +
		"for as long as the payment has the same evidence. An address that names nothing is 404, whyever it does not."
	signed := get(tagReceipts, "getSignedReceipt", offer.PathReceipt+"/{id}/receipt.jws", "What the service signed of a payment",
		answers(ok("A compact JWS (RFC 7515) by a key of the DID document.", media("application/jose", text)), later))
	signed.Description = "404 for a payment of which nothing is signed: one whose payer has no address, or that did not arrive."
	ops := []operation{page, signed}
	for i := range ops {
		ops[i].Parameters = []object{required(parameter("path", "id", "Names the payment, with its authentication code.", text))}
	}
	return ops
}

// thanksOperation is what the return address of a checkout tells.
func thanksOperation() operation {
	op := get(tagReceipts, "getThanks", offer.PathThanks, "What became of the payment of a checkout, or whether any payment came just now",
		answers(ok("What is known of it.", page, media(typeJSON, ref("Arrival"))), later))
	op.Parameters = []object{
		parameter("query", "session_id", "The checkout session, as the card processor fills it in; without it nothing is told of whose payment it is.",
			object{{"type", "string"}, {"pattern", `^cs_[A-Za-z0-9_]{1,252}$`}}),
	}
	return op
}

// railOperations are two for every rail, the page of the bank transfer and the
// images. A rail without a fixed address depends on the exchange rate, which
// may be missing.
func railOperations(o *offer.Offer) []operation {
	all := answers(ok("All rails.", page, media(typeJSON, ref("Invoice"))))
	ops := []operation{get(tagRails, "getMethods", offer.PathMethods, "Every way to pay: a page with QR codes, or the invoice for programs", all)}
	// Rail names hold no underscore, so no two ids meet.
	id := func(prefix string, r offer.Rail) string { return prefix + strings.ReplaceAll(r.Name(), "-", "_") }
	for _, r := range o.Rails {
		m, list := fixed(o, r), answers(ok("One URI, or its terms.", media(typeURIList, text), media(typeJSON, ref("Method"))))
		if m.Link() == "" {
			list = append(list, later)
		}
		ops = append(ops,
			get(tagRails, id("uri_", r), offer.URIPath(r.Name()), "Payment URI: "+m.Title, list),
			get(tagRails, id("png_", r), offer.PNGPath(r.Name()), "QR code: "+m.Title, answers(redirect("The QR image."), later)))
	}
	if t := o.Transfer(); t != nil {
		ops = append(ops, get(tagRails, id("page_", t), offer.PagePath(t.Name()), "Payee, amount and memo: "+fixed(o, t).Title,
			answers(ok("The terms.", page, media(typeJSON, ref("Transfer"))))))
	}
	image := get(tagRails, "getQR", offer.PathQR+"/{rail}/{image}", "A QR image",
		answers(ok("The image.", media("image/png", object{{"type", "string"}, {"contentMediaType", "image/png"}}))))
	image.Description = "Addresses of images come from the redirects of the .png paths; any other is refused."
	image.Parameters = []object{
		required(parameter("path", "rail", "The rail's name.", object{{"type", "string"}, {"enum", railNames(o)}})),
		required(parameter("path", "image", "What rebuilds the URI, and its authentication code.", text)),
	}
	return append(ops, image)
}

// securitySignature is the name of the security scheme of signed webhooks.
const securitySignature = "StripeSignature"

// securitySchemes are those of the hooks; the rest of the service is public.
// The specification has none for a secret in a path, which is a parameter.
func securitySchemes(hooks []string) []member {
	if !slices.Contains(hooks, offer.RailCard) {
		return nil
	}
	return []member{{"securitySchemes", object{{securitySignature, object{
		{"type", "apiKey"}, {"in", "header"}, {"name", "Stripe-Signature"},
		{"description", "t=<Unix seconds>,v1=<hexadecimal HMAC-SHA256 of \"<t>.<body>\" with the webhook's secret>, not older than 5 minutes."},
	}}}}}
}

// hookOperations are the webhooks of the rails that take them.
func hookOperations(hooks []string) (ops []operation) {
	body := func(types ...member) object {
		return object{{"description", "The delivery, at most 256 KiB."}, {"required", true}, {"content", object(types)}}
	}
	recorded := object{ok("The delivery was recorded, or is none of this offer's.", media(typeJSON, ref("Delivery"))), {"503", notNow()}, {"4XX", refused()}}
	isCard := func(rail string) bool { return rail == offer.RailCard }
	if slices.ContainsFunc(hooks, isCard) {
		card := post(tagHooks, "postHookCard", offer.PathHookCard, "Take an event of the card processor", body(anyJSON), recorded)
		card.Description = "A snapshot event as the processor signs and sends it. Events of other payments are accepted and ignored."
		card.Security = []object{{{securitySignature, []string{}}}}
		ops = append(ops, card)
	}
	storefronts := slices.DeleteFunc(slices.Clone(hooks), isCard)
	if len(storefronts) == 0 {
		return ops
	}
	shop := post(tagHooks, "postHookStorefront", offer.PathHook+"/{storefront}/{secret}", "Take a notice of a storefront",
		body(media("application/x-www-form-urlencoded", object{{"type", "object"}}), anyJSON), recorded)
	shop.Description = "A notice is not signed. It only has the sales read from the storefront."
	shop.Parameters = []object{
		required(parameter("path", "storefront", "The rail's name.", object{{"type", "string"}, {"enum", storefronts}})),
		required(parameter("path", "secret", "What the operator and the storefront alone know; one segment.",
			object{{"type", "string"}, {"format", "password"}, {"minLength", 1}})),
	}
	return append(ops, shop)
}

func agentOperation() operation {
	answer := media(typeJSON, ref("JSONRPCResponse"))
	op := post(tagAgents, "postMCP", offer.PathMCP, "Agent endpoint: MCP and A2A by JSON-RPC 2.0",
		object{{"required", true}, {"content", object{media(typeJSON, ref("JSONRPCRequest"))}}},
		object{
			ok("The JSON-RPC response.", answer),
			{"202", object{{"description", "A notification was accepted."}}},
			{"4XX", contents("Refused, with the JSON-RPC error.", answer)},
			{"5XX", contents("Failed, with the JSON-RPC error.", answer)},
		})
	op.Description = "Call the method tools/call with the tool `" + ToolName + "` for every way to pay. Where the result demands a " +
		"payment, the same call with the signed payment in its _meta settles it. A2A clients send message/send or SendMessage."
	return op
}

// discoveryOperations are the documents of this package.
func discoveryOperations(o *offer.Offer) []operation {
	document := func(id, path, summary string, types ...member) operation {
		return get(tagDiscovery, id, path, summary, answers(ok("The document.", types...)))
	}
	jrd, plain := media(typeJRD, ref("JRD")), media(typeText, text)
	did, agentCard := media("application/did+json", ref("DIDDocument")), media(typeJSON, ref("AgentCard"))
	finger := document("getWebFinger", offer.PathWebFinger, "WebFinger of the pay account (RFC 7033)", jrd)
	finger.Parameters = []object{
		required(parameter("query", "resource", "The account, as in "+o.Acct()+".", text)),
		parameter("query", "rel", "Relations to list; may be repeated.", object{{"type", "array"}, {"items", text}}),
	}
	ops := []operation{
		document("getHostMeta", offer.PathHostMeta, "Host metadata as XRD, or as JSON on request (RFC 6415)",
			media("application/xrd+xml", text), jrd),
		document("getHostMetaJSON", offer.PathHostMetaJSON, "Host metadata as JSON (RFC 6415)", jrd),
		finger,
		document("getDID", offer.PathDID, "DID document (did:web)", did),
		document("getDIDRoot", offer.PathDIDRoot, "DID document, second address", did),
		document("getNodeInfoIndex", offer.PathNodeInfo, "NodeInfo discovery", media(typeJSON, ref("JRD"))),
		document("getNodeInfo", offer.PathNodeInfo21, "NodeInfo 2.1 with payment metadata", media(typeJSON, ref("NodeInfo"))),
		document("getHumans", offer.PathHumans, "The operator and every rail (humans.txt)", plain),
		document("getSecurity", offer.PathSecurity, "Contacts (security.txt, RFC 9116)", plain),
		get(tagDiscovery, "getSecurityRoot", offer.PathSecurityRoot, "Leads to security.txt",
			answers(redirect("The address of security.txt."))),
		document("getPackage", offer.PathPackage, "Package document with funding addresses (npm)", media(typeJSON, ref("PackageDocument"))),
		document("getSkill", offer.PathSkill, "Agent skill: how to pay", media("text/markdown", text)),
		document("getAgentCard", offer.PathAgentCard, "Agent card (A2A 0.3.0)", agentCard),
		document("getAgentCardOld", offer.PathAgentCardOld, "Agent card, older address", agentCard),
		document("getOpenAPI", offer.PathOpenAPI, "This description", anyJSON),
		document("getLLMs", offer.PathLLMs, "Summary for language models (llms.txt)", plain),
		document("getAPICatalog", offer.PathAPICatalog, "API catalog (RFC 9727)", media("application/linkset+json", ref("Linkset"))),
		document("getIcon", offer.PathIcon, "The icon", media("image/svg+xml", text)),
	}
	if len(o.USDC()) > 0 {
		resources := media(typeJSON, ref("X402Resources"))
		ops = append(ops,
			document("getX402", offer.PathX402, "Payable resources for x402 directories", resources),
			document("getX402JSON", offer.PathX402JSON, "Payable resources for x402 directories, second address", resources))
	}
	return ops
}
