package agent

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/mpp"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// Members of the _meta of a result.
const (
	metaResponse = "x402/payment-response" // a SettleResponse (x402 version 2, MCP transport)
	// metaRequired repeats the PaymentRequired for clients that look for it only there, such as Cloudflare's agents.
	metaRequired   = "x402/error"
	metaReceipt    = "org.paymentauth/receipt" // draft-payment-transport-mcp
	metaChallenges = "org.paymentauth/payment-required"
)

// tool describes the tool to a language model: when to use it, what it costs, and who decides. It contains no text of
// the operator, which a model would read as an instruction.
func (e *Endpoint) tool() *mcp.Tool {
	amount, pays, destructive := e.Offer.Amount.String(), len(e.Payments.Accepts()) > 0, false
	description := "Quotes one fixed payment of " + amount + " US dollars and lists every way to pay it now, with addresses and exact amounts. " +
		"Use it when a person wants to pay, sponsor or support this service, or asks for an invoice. " +
		"The call is free and moves no money: its result is a quote, not a payment. " +
		"Paying costs " + amount + " US dollars and needs the approval of a person who has seen the amount and the payee."
	if pays {
		description += " The quote is marked as an error that says payment required, as x402 clients expect it. " +
			"Such a client may then send the call again with a payment that the person has approved in _meta; a payment is charged once, " +
			"also when it is sent again. While its outcome is not known, send the same payment again and sign no new one."
	}
	return &mcp.Tool{
		Name:         document.ToolName,
		Title:        "Ways to pay " + amount + " USD",
		Description:  description,
		Annotations:  &mcp.ToolAnnotations{ReadOnlyHint: !pays, DestructiveHint: &destructive, IdempotentHint: true, OpenWorldHint: &pays},
		InputSchema:  noInput,
		OutputSchema: outputSchema,
	}
}

// callTool answers a call without payment by the quote, and a call with one by its outcome.
func (e *Endpoint) callTool(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	paid, pays := ctx.Value(paymentKey{}).(*payment)
	if !pays {
		return e.demand(e.quote(), nil), nil
	}
	outcome, problem := paid.pay(ctx, e.Payments)
	var answer *mcp.CallToolResult
	if isRejected(outcome) {
		answer = e.demand(e.render(e.Live(), rejection(outcome)), problem)
		answer.IsError = true
	} else {
		answer = result(document.Line(e.report(outcome)), outcome.Status != x402.Settled)
	}
	if paid.credential != nil && outcome.Status == x402.Settled {
		answer.Meta[metaReceipt] = paid.credential.Receipt(outcome)
	} else if outcome.Response != nil {
		answer.Meta[metaResponse] = outcome.Response
	}
	return answer, nil
}

// demand returns a quote as a demand for payment: an error whose structured content is the PaymentRequired, with MPP
// challenges in addition. problem says why a credential was rejected. An offer without a USDC rail demands nothing.
func (e *Endpoint) demand(q *quote, problem *mpp.Problem) *mcp.CallToolResult {
	answer := result(q.data, q.required != nil)
	if q.required != nil {
		answer.Meta[metaRequired] = q.required
	}
	if required := e.Challenges.Required(problem); required != nil {
		answer.Meta[metaChallenges] = required
	}
	return answer
}

// result repeats the structured content as text, for clients that read only text.
func result(data json.RawMessage, failed bool) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		Meta:              mcp.Meta{},
		Content:           []mcp.Content{&mcp.TextContent{Text: string(data)}},
		StructuredContent: data,
		IsError:           failed,
	}
}
