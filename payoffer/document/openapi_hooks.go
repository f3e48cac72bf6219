package document

import (
	"net/http"
	"slices"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

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
func hookOperations(hooks []string) []operation {
	var ops []operation
	storefronts := slices.Clone(hooks)
	if i := slices.Index(storefronts, offer.RailCard); i >= 0 {
		storefronts = slices.Delete(storefronts, i, i+1)
		ops = append(ops, operation{
			method: http.MethodPost, path: offer.PathHookCard, id: "postHookCard", tag: tagHooks, security: securitySignature,
			summary:     "Take an event of the card processor",
			description: "A snapshot event as the processor signs and sends it. Events of other payments are accepted and ignored.",
			body:        delivery(media(typeJSON, object{{"type", "object"}})),
			responses:   deliveryAnswers(),
		})
	}
	if len(storefronts) == 0 {
		return ops
	}
	return append(ops, operation{
		method: http.MethodPost, path: offer.PathHook + "/{storefront}/{secret}", id: "postHookStorefront", tag: tagHooks,
		summary:     "Take a notice of a storefront",
		description: "A notice is not signed. It is asserted until the sale was read from the storefront.",
		parameters: []object{
			required(parameter("path", "storefront", "The rail's name.", object{{"type", "string"}, {"enum", storefronts}})),
			required(parameter("path", "secret", "What the operator and the storefront alone know; one segment.",
				object{{"type", "string"}, {"format", "password"}, {"minLength", 1}})),
		},
		body:      delivery(media("application/x-www-form-urlencoded", object{{"type", "object"}}), media(typeJSON, object{{"type", "object"}})),
		responses: deliveryAnswers(),
	})
}

func delivery(types ...member) object {
	return object{{"description", "The delivery, at most 256 KiB."}, {"required", true}, {"content", object(types)}}
}

func deliveryAnswers() object {
	return answers(
		on("200", content("The delivery was recorded, or is none of this offer's.", typeJSON, ref("Delivery"))),
		on("503", laterRef))
}
