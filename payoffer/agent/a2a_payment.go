package agent

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// x402Extension names the A2A extension for payments, version 0.1.
const x402Extension = document.A2APayments

// Members of a message's metadata.
const (
	metadataStatus   = "x402.payment.status"
	metadataRequired = "x402.payment.required" // a PaymentRequired
	metadataPayload  = "x402.payment.payload"  // a PaymentPayload
	metadataReceipts = "x402.payment.receipts" // SettleResponses
	metadataError    = "x402.payment.error"    // a code of section 9.1
)

// Values of metadataStatus.
const (
	statusRequired  = "payment-required"
	statusRejected  = "payment-rejected"
	statusSubmitted = "payment-submitted"
	statusCompleted = "payment-completed"
	statusFailed    = "payment-failed"
)

// activated is the header in which a client asked for the payment extension,
// empty when it did not or the offer has no use for it.
func (e *Endpoint) activated(r *http.Request) string {
	if len(e.Payments.Accepts()) == 0 {
		return ""
	}
	for _, header := range []string{"A2A-Extensions", "X-A2A-Extensions"} { // 1.0 and 0.3
		uris := strings.Split(strings.Join(r.Header.Values(header), ","), ",")
		if slices.ContainsFunc(uris, func(uri string) bool { return strings.TrimSpace(uri) == x402Extension }) {
			return header
		}
	}
	return ""
}

// answerPayment answers a message that pays, or that declines to. It returns
// nothing for any other.
func (e *Endpoint) answerPayment(r *http.Request, m *incoming) (*reply, *fault) {
	payload, pays := m.Metadata[metadataPayload]
	var status string
	if raw := m.Metadata[metadataStatus]; isSet(raw) && json.Unmarshal(raw, &status) != nil {
		return nil, &fault{codeInvalidParams, metadataStatus + " must be a string; this message was not taken for a payment"}
	}
	switch {
	case pays && (status == statusSubmitted || status == ""):
		return e.settleTask(m, e.Payments.Pay(r.Context(), x402.Attempt{Payload: payload, Client: e.ClientIP(r)})), nil
	case pays:
		return nil, &fault{codeInvalidParams, "a message with " + metadataPayload + " has the status " + statusSubmitted + "; this message was not taken for a payment"}
	case status == statusSubmitted:
		return nil, &fault{codeInvalidParams, metadataPayload + " is missing; send the payment that you signed"}
	case status == statusRejected:
		data := e.quote().data
		return m.reply("failed", "You declined to pay. A payment that you sent before stands.", data, map[string]any{metadataStatus: statusRejected}), nil
	}
	return nil, nil
}

// settleTask is the task of a payment. It ends only when the outcome is
// definite: until then the client must send the same payment again.
func (e *Endpoint) settleTask(m *incoming, o x402.Outcome) *reply {
	if refused(o) {
		reason, receipt := refusal(o), cmp.Or(o.Response, &x402.SettleResponse{ErrorReason: o.Reason})
		return m.reply("failed", reason, e.demand(e.Live(), reason).data, map[string]any{
			metadataStatus: statusFailed, metadataError: failureCode(o), metadataReceipts: []*x402.SettleResponse{receipt},
		})
	}
	a := e.attempted(o)
	answer := m.reply("input-required", a.Detail, encode(a), map[string]any{metadataStatus: statusSubmitted})
	switch o.Status {
	case x402.Settled:
		answer.state = "completed"
		answer.metadata = map[string]any{metadataStatus: statusCompleted, metadataReceipts: []*x402.SettleResponse{o.Response}}
	case x402.Conflict:
		// The payment that was sent first may be taken: nothing failed.
		answer.metadata[metadataError] = failureCode(o)
	case x402.Limited, x402.Unavailable:
		// Nothing was sent: the payment that the client has is still to come.
	default:
		answer.state = "working"
	}
	return answer
}

// failureCode is the extension's code for a reason. Facilitators word their
// reasons as they like, and the exact one stands in the receipt.
func failureCode(o x402.Outcome) string {
	if o.Status == x402.Conflict {
		return "DUPLICATE_NONCE"
	}
	for _, known := range []struct{ part, code string }{
		{"insufficient", "INSUFFICIENT_FUNDS"},
		{"signature", "INVALID_SIGNATURE"},
		{"valid_before", "EXPIRED_PAYMENT"},
		{"expired", "EXPIRED_PAYMENT"},
		{"nonce", "DUPLICATE_NONCE"},
		{"network", "NETWORK_MISMATCH"},
		{"value", "INVALID_AMOUNT"},
		{"amount", "INVALID_AMOUNT"},
	} {
		if strings.Contains(o.Reason, known.part) {
			return known.code
		}
	}
	return "SETTLEMENT_FAILED"
}

// reply is a task that answers the message.
func (m *incoming) reply(state, text string, data json.RawMessage, metadata map[string]any) *reply {
	answer := &reply{
		messageID: derive("message", m.MessageID), contextID: m.ContextID, taskID: m.task(),
		state: state, text: text, data: data, metadata: metadata,
	}
	if answer.contextID == "" {
		answer.contextID = derive("context", answer.taskID)
	}
	return answer
}
