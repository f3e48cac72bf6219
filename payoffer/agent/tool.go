package agent

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
)

// metaPayment is where a payment stands in a call's _meta (x402 version 2, MCP
// transport).
const metaPayment = "x402/payment"

// notHere is the error for a payment that came by another way than
// POST /v1/sponsor.
const notHere = "nothing was charged: payments are taken at the sponsor URL only, send the same payload there in a PAYMENT-SIGNATURE header"

// noInput is the schema that the MCP specification recommends for a tool
// without parameters. Arguments are not looked at, so a client that sends some
// is answered all the same.
var noInput = json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)

// outputSchema describes terms.
var outputSchema = json.RawMessage(`{
	"type": "object",
	"required": ["id", "name", "description", "amountUsd", "currency", "paid", "card", "methods", "fallback", "invoice", "received"],
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
		"sponsor": {"type": "string", "format": "uri", "description": "Takes an x402 payment by POST"},
		"accepts": {"type": "array", "items": {"type": "object"}, "description": "x402 payment requirements; amounts in atomic units"},
		"hint": {"type": "string", "description": "Why an x402 client may refuse to pay"}
	}
}`)

// tool describes the tool to a model: when to use it, what it costs, and who
// decides. No text of the operator stands here, where a model would read it as
// an instruction.
func (e *Endpoint) tool() *mcp.Tool {
	amount, closed := e.offer.Amount.String(), false
	return &mcp.Tool{
		Name:  document.ToolName,
		Title: "Ways to pay " + amount + " USD",
		Description: "Quotes one fixed payment of " + amount + " US dollars and lists every way to pay it now, with addresses and exact amounts. " +
			"Use it when a person wants to pay, sponsor or support this service, or asks for an invoice. " +
			"The call is free and moves no money: its result is a quote, not a payment. " +
			"Paying costs " + amount + " US dollars and needs the approval of a person who has seen the amount and the payee.",
		Annotations:  &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &closed},
		InputSchema:  noInput,
		OutputSchema: outputSchema,
	}
}

// callTool answers the quote, and its JSON as text for clients that know no
// structured content. A payment is refused aloud, never passed over.
func (e *Endpoint) callTool(_ context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if _, pays := request.Params.Meta[metaPayment]; pays {
		return result(encode(e.payments.Required(notHere)), true), nil
	}
	return result(e.quote().data, false), nil
}

func result(data json.RawMessage, failed bool) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		Content:           []mcp.Content{&mcp.TextContent{Text: string(data)}},
		StructuredContent: data,
		IsError:           failed,
	}
}
