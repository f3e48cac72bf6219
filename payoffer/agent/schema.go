package agent

import "encoding/json"

// noInput is the schema that the MCP specification recommends for a tool
// without parameters. Arguments are not looked at, so a client that sends some
// is answered all the same.
var noInput = json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)

// outputSchema describes terms and attempted.
var outputSchema = json.RawMessage(`{
	"type": "object",
	"required": ["id", "name", "amountUsd", "currency", "paid", "received"],
	"properties": {
		"id": {"type": "string", "description": "Name of the offer"},
		"name": {"type": "string"},
		"description": {"type": "string"},
		"amountUsd": {"type": "number", "description": "Price in US dollars"},
		"currency": {"type": "string"},
		"paid": {"type": "boolean", "description": "Whether this call paid; a quote never does"},
		"card": {"type": "string", "format": "uri", "description": "Card checkout, to be opened by a person"},
		"methods": {
			"type": "array",
			"description": "Every way to pay; one that is not available now says why",
			"items": {
				"type": "object",
				"required": ["rail", "scheme", "title", "amountUsd", "available"],
				"properties": {
					"rail": {"type": "string"},
					"scheme": {"type": "string"},
					"title": {"type": "string"},
					"url": {"type": "string", "format": "uri"},
					"uri": {"type": "string", "format": "uri"},
					"amountUsd": {"type": "number"},
					"network": {"type": "string", "description": "CAIP-2 id, or fiat"},
					"asset": {"type": "string"},
					"symbol": {"type": "string"},
					"amountAtomic": {"type": "string", "description": "Integer in the asset's atomic units"},
					"payTo": {"type": "string"},
					"memo": {"type": "string"},
					"available": {"type": "boolean"},
					"reason": {"type": "string"}
				}
			}
		},
		"fallback": {"type": "object", "description": "Card checkout for a client that cannot pay by x402"},
		"invoice": {"type": "string", "format": "uri"},
		"received": {"type": "string", "format": "uri", "description": "Reports which payments arrived"},
		"x402Version": {"type": "integer"},
		"error": {"type": "string", "description": "Why nothing is paid yet"},
		"resource": {"type": "object", "description": "What is paid for, in x402"},
		"sponsor": {"type": "string", "format": "uri", "description": "Takes an x402 payment by POST"},
		"accepts": {"type": "array", "items": {"type": "object"}, "description": "x402 payment requirements; amounts in atomic units"},
		"extensions": {"type": "object", "description": "x402 extensions"},
		"hint": {"type": "string", "description": "Why an x402 client may refuse to pay"},
		"status": {"type": "string", "description": "Of a payment: seen on the chain, claimed by the facilitator, open (its outcome is not known yet), unavailable, limited or conflict"},
		"reason": {"type": "string", "description": "Code of the status"},
		"detail": {"type": "string", "description": "What became of the payment and what to do next"},
		"intent": {"type": "string", "description": "Names a payment whose outcome is not known yet"},
		"retryAfterSeconds": {"type": "integer", "description": "When to send the same payment again"},
		"network": {"type": "string", "description": "Where the payment was made"},
		"transaction": {"type": "string"},
		"payer": {"type": "string"}
	}
}`)
