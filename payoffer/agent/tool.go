package agent

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/mpp"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// Members of _meta (x402 version 2, MCP transport).
const (
	metaPayment  = "x402/payment"          // a call's PaymentPayload
	metaResponse = "x402/payment-response" // a result's SettleResponse
	// metaRequired repeats the PaymentRequired of a result for clients that
	// look for it there only, as those of Cloudflare's agents do.
	metaRequired = "x402/error"
)

// Members of _meta of the Payment scheme (draft-payment-transport-mcp).
const (
	metaCredential = "org.paymentauth/credential"       // a call's
	metaReceipt    = "org.paymentauth/receipt"          // a result's
	metaChallenges = "org.paymentauth/payment-required" // those of a result
)

// tool describes the tool to a model: when to use it, what it costs, and who
// decides. No text of the operator stands here, where a model would read it as
// an instruction. A call without payment changes nothing and a payment settles
// once however often it is sent, but a paid call does move money, by parties
// elsewhere.
func (e *Endpoint) tool() *mcp.Tool {
	amount, pays, destructive := e.Offer.Amount.String(), len(e.Payments.Accepts()) > 0, false
	description := "Quotes one fixed payment of " + amount + " US dollars and lists every way to pay it now, with addresses and exact amounts. " +
		"Use it when a person wants to pay, sponsor or support this service, or asks for an invoice. " +
		"The call is free and moves no money: its result is a quote, not a payment. " +
		"Paying costs " + amount + " US dollars and needs the approval of a person who has seen the amount and the payee."
	if pays {
		description += " The quote is marked as an error that says payment required, as x402 clients expect it. " +
			"Such a client may then send the call again with a payment that the person has approved in _meta; a payment is charged once, also when it is sent again. While its outcome is not known, send the same payment again and sign no new one."
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

// paymentKey is the context key of the payment of a call: the SDK hands its
// handlers neither the client's address nor the payment as it was written.
type paymentKey struct{}

// withPayment puts the payment of a tools/call, if it has one, into the
// context that the SDK hands to the tool.
func (e *Endpoint) withPayment(r *http.Request, c call) context.Context {
	if c.method != "tools/call" {
		return r.Context()
	}
	if paid := e.payment(c, e.ClientIP(r)); paid != nil {
		return context.WithValue(r.Context(), paymentKey{}, paid)
	}
	return r.Context()
}

// callTool answers a call without payment by the quote, and one with a payment
// by what became of it. The structured content stands in the text too, for
// clients that know only that.
func (e *Endpoint) callTool(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	paid, pays := ctx.Value(paymentKey{}).(*payment)
	if !pays {
		q := e.quote()
		answer := e.demanded(q, nil)
		if rec, records := ctx.Value(recordingKey{}).(*recording); records {
			rec.of = q
			if _, rec.challenged = answer.Meta[metaChallenges]; rec.challenged {
				answer.Meta[metaChallenges] = rec.challenges
			}
		}
		return answer, nil
	}
	outcome, problem := paid.pay(ctx, e.Payments)
	var answer *mcp.CallToolResult
	if refused(outcome) {
		answer = e.demanded(e.demand(e.Live(), refusal(outcome)), problem)
		answer.IsError = true
	} else {
		answer = result(encode(e.attempted(outcome)), outcome.Status != x402.Settled)
	}
	if paid.credential != nil && outcome.Status == x402.Settled {
		answer.Meta[metaReceipt] = paid.credential.Receipt(outcome)
	} else if outcome.Response != nil {
		answer.Meta[metaResponse] = outcome.Response
	}
	return answer, nil
}

// demanded is a quote as the tool-result binding writes a demand for payment:
// an error whose structured content is the PaymentRequired, beside which the
// client is challenged by the Payment scheme; problem says why its credential was
// refused. An offer that takes no x402 payment demands none.
func (e *Endpoint) demanded(q *quote, problem *mpp.Problem) *mcp.CallToolResult {
	answer := result(q.data, q.required != nil)
	if q.required != nil {
		answer.Meta[metaRequired] = q.required
	}
	if required := e.Challenges.Required(problem); required != nil {
		answer.Meta[metaChallenges] = required
	}
	return answer
}

func result(data json.RawMessage, failed bool) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		Meta:              mcp.Meta{},
		Content:           []mcp.Content{&mcp.TextContent{Text: string(data)}},
		StructuredContent: data,
		IsError:           failed,
	}
}

// paymentExtension is the MCP extension by which a client says, with each call,
// that it knows demands for payment (x402 version 2, MCP transport, extension
// binding). It needs the MCP revision newestMCP.
const paymentExtension = "org.x402/payment"

// bindPayment writes demands for payment by the extension binding for clients
// that know it, and leaves them in the tool-result binding for all others.
func bindPayment(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, request)
		called, ok := result.(*mcp.CallToolResult)
		if err != nil || !ok || called.Meta[metaRequired] == nil || !knowsDemands(request.GetParams().GetMeta()) {
			return result, err
		}
		return &paymentRequired{called}, nil
	}
}

// knowsDemands reads the _meta of a request.
func knowsDemands(meta map[string]any) bool {
	version, _ := meta[mcp.MetaKeyProtocolVersion].(string)
	capabilities, _ := meta[mcp.MetaKeyClientCapabilities].(map[string]any)
	extensions, _ := capabilities["extensions"].(map[string]any)
	_, known := extensions[paymentExtension]
	return known && version >= newestMCP
}

// paymentRequired is a demand for payment as a result type of its own.
type paymentRequired struct{ *mcp.CallToolResult }

// MarshalJSON writes the demand's structured content as paymentRequired, and
// what else stands in _meta.
func (p *paymentRequired) MarshalJSON() ([]byte, error) {
	meta := maps.Clone(p.Meta)
	delete(meta, metaRequired)
	return json.Marshal(map[string]any{"resultType": "payment_required", "paymentRequired": p.StructuredContent, "_meta": meta})
}
