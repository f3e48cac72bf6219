package agent

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// Faults of A2A (0.3.0 section 8.2, 1.0 section 5.4). The agent answers at once, as its card says.
var (
	taskNotFound = &fault{-32001, "unknown task: this agent answers every message at once and stores no tasks. Send a message without taskId. " +
		"If you have paid before, send the same payment again to learn its outcome; do not sign a new one"}
	noPush         = &fault{-32003, "this agent sends no push notifications; send the payment again to learn its outcome, not a new one"}
	noStream       = &fault{-32004, "this agent does not stream; use message/send (A2A 0.3) or SendMessage (1.0)"}
	noList         = &fault{-32004, "this agent stores no tasks; send a message with message/send or SendMessage"}
	noExtendedCard = &fault{-32007, "there is no extended agent card; use the public one at " + offer.PathAgentCard}
	// A2A 1.0 has another code for agents that do not announce such a card (section 3.1.11).
	noExtendedCard10 = &fault{-32004, noExtendedCard.Message}
)

type a2aMethod struct {
	problem *fault
	version string
}

var a2aMethods = map[string]a2aMethod{
	"message/send": {version: "0.3"}, "SendMessage": {version: "1.0"},

	"tasks/get": {problem: taskNotFound}, "tasks/cancel": {problem: taskNotFound},
	"GetTask": {problem: taskNotFound}, "CancelTask": {problem: taskNotFound}, "ListTasks": {problem: noList},

	"message/stream": {problem: noStream}, "tasks/resubscribe": {problem: noStream},
	"SendStreamingMessage": {problem: noStream}, "SubscribeToTask": {problem: noStream},

	"tasks/pushNotificationConfig/set": {problem: noPush}, "tasks/pushNotificationConfig/get": {problem: noPush},
	"tasks/pushNotificationConfig/list": {problem: noPush}, "tasks/pushNotificationConfig/delete": {problem: noPush},
	"CreateTaskPushNotificationConfig": {problem: noPush}, "GetTaskPushNotificationConfig": {problem: noPush},
	"ListTaskPushNotificationConfigs": {problem: noPush}, "DeleteTaskPushNotificationConfig": {problem: noPush},

	"agent/getAuthenticatedExtendedCard": {problem: noExtendedCard}, "GetExtendedAgentCard": {problem: noExtendedCard10},
}

// Members of a message's metadata.
const (
	metadataStatus   = "x402.payment.status"
	metadataRequired = "x402.payment.required" // a PaymentRequired
	metadataPayload  = "x402.payment.payload"  // a PaymentPayload
	metadataReceipts = "x402.payment.receipts" // SettleResponses
	metadataError    = "x402.payment.error"    // a code of section 9.1 of the extension
)

// serveA2A answers a request. Its answer names the activated extension in the header in which the client asked for it.
func (e *Endpoint) serveA2A(w http.ResponseWriter, r *http.Request, c call, method a2aMethod) {
	header, extension := e.activatedExtension(r)
	if header != "" {
		w.Header().Set(header, extension)
	}
	problem := method.problem
	if version := r.Header.Get("A2A-Version"); !a2aVersion.MatchString(version) {
		problem = &fault{-32009, fmt.Sprintf("A2A-Version %.20q is not supported, so the message was not read; send 0.3 or 1.0", version)}
	}
	if problem != nil {
		writeFault(w, http.StatusOK, c.ID, problem)
		return
	}
	var p sendParams
	var answer *reply
	problem = &fault{codeInvalidParams, "params.message is missing or has a member of the wrong type; send messageId, role and parts"}
	ends := new(x402.Response)
	ends.Serve(w, func() bool {
		if json.Unmarshal(c.Params, &p) == nil {
			answer, problem = e.send(r, ends, &p, method.version, extension)
		}
		if problem != nil {
			writeFault(w, http.StatusOK, c.ID, problem)
		} else {
			write(w, http.StatusOK, response{ID: c.ID, Result: answer.result(method.version)})
		}
		return true
	})
}

// a2aVersion are the supported versions: a client without the header has 0.3 (A2A 1.0, section 3.6.2). A patch number does not matter.
var a2aVersion = regexp.MustCompile(`^(|0\.3(\.\d+)?|1\.0(\.\d+)?)$`)

// activatedExtension returns the header in which a client asked for the payment extension, and the newest version that it asked
// for. Both are empty without one, or without a USDC rail.
func (e *Endpoint) activatedExtension(r *http.Request) (header, extension string) {
	for _, header := range []string{"A2A-Extensions", "X-A2A-Extensions"} { // 1.0 and 0.3
		uris := strings.Split(strings.Join(r.Header.Values(header), ","), ",")
		for _, known := range slices.Backward(document.A2APayments) {
			if len(e.Payments.Accepts()) > 0 && slices.ContainsFunc(uris, func(uri string) bool { return strings.TrimSpace(uri) == known }) {
				return header, known
			}
		}
	}
	return "", ""
}

// sendParams are the members of a message that are read. The answer is always the offer, whatever the parts say.
type sendParams struct {
	Message struct {
		MessageID string                       `json:"messageId"`
		ContextID string                       `json:"contextId"`
		TaskID    string                       `json:"taskId"`
		Role      string                       `json:"role"`
		Parts     []map[string]json.RawMessage `json:"parts"`
		Metadata  map[string]json.RawMessage   `json:"metadata"`
	} `json:"message"`
	Configuration struct {
		Push   any `json:"pushNotificationConfig"`     // 0.3
		Push10 any `json:"taskPushNotificationConfig"` // 1.0
	} `json:"configuration"`
}

// send answers a message with the offer, or with the outcome of its payment.
func (e *Endpoint) send(r *http.Request, ends *x402.Response, p *sendParams, version, extension string) (*reply, *fault) {
	m := &p.Message
	role := map[string]string{"0.3": "user", "1.0": "ROLE_USER"}[version]
	payload := m.Metadata[metadataPayload]
	pays := payload != nil && string(payload) != "null"
	var status string
	if raw := m.Metadata[metadataStatus]; raw != nil && json.Unmarshal(raw, &status) != nil {
		return nil, &fault{codeInvalidParams, metadataStatus + " must be a string, such as payment-submitted; no payment was sent"}
	}
	switch {
	case len(m.Parts) == 0 || slices.ContainsFunc(m.Parts, func(part map[string]json.RawMessage) bool { return part == nil }):
		return nil, &fault{codeInvalidParams, `message.parts must be a list of objects, such as [{"kind": "text", "text": "pay"}]`}
	case m.MessageID == "" || m.Role != role:
		return nil, &fault{codeInvalidParams, "messageId is missing, or the role is not " + role + "; send both"}
	case p.Configuration.Push != nil || p.Configuration.Push10 != nil:
		return nil, noPush
	case pays && status != "" && status != "payment-submitted":
		return nil, &fault{codeInvalidParams, "a message with " + metadataPayload + " needs " + metadataStatus + " payment-submitted; no payment was sent"}
	case !pays && status == "payment-submitted":
		return nil, &fault{codeInvalidParams, metadataPayload + " is missing; put the PaymentPayload that you signed into message.metadata"}
	}
	// No task is stored: a payment and its repetitions derive the same one.
	taskID := cmp.Or(m.TaskID, derive("task", m.MessageID))
	answer := &reply{extension: cmp.Or(extension, document.A2APayments[0]), messageID: derive("message", m.MessageID), taskID: taskID, contextID: cmp.Or(m.ContextID, derive("context", taskID))}
	q := e.quote()
	switch {
	case pays:
		e.settle(answer, e.Payments.Pay(r.Context(), x402.Attempt{Payload: payload, Client: e.ClientIP(r), Response: ends}))
	case status == "payment-rejected":
		answer.state, answer.text, answer.data = "failed", "You declined to pay. This does not undo a payment that you sent before.", q.data
		answer.metadata = map[string]any{metadataStatus: status}
	case m.TaskID != "":
		return nil, taskNotFound
	case q.required != nil && extension != "":
		answer.state, answer.text, answer.data = "input-required", q.text, q.data
		answer.metadata = map[string]any{metadataStatus: "payment-required", metadataRequired: q.required}
	default:
		answer = &reply{messageID: answer.messageID, contextID: m.ContextID, text: q.text, data: q.data}
	}
	return answer, nil
}

func derive(kind, id string) string {
	sum := sha256.Sum256([]byte(kind + " for " + id))
	return hex.EncodeToString(sum[:16])
}

// settle answers a payment by a task, which ends only when the outcome is known.
func (e *Endpoint) settle(answer *reply, o x402.Outcome) {
	if isRejected(o) {
		answer.state, answer.text = "failed", rejection(o)
		answer.data = e.render(e.Live(), answer.text).data
		receipt := cmp.Or(o.Response, &x402.SettleResponse{ErrorReason: o.Reason})
		answer.metadata = map[string]any{
			metadataStatus: "payment-failed", metadataError: failureCode(o.Reason), metadataReceipts: []*x402.SettleResponse{receipt},
		}
		return
	}
	described := e.report(o)
	answer.state, answer.text, answer.data = "input-required", described.Detail, document.Line(described)
	answer.metadata = map[string]any{metadataStatus: "payment-submitted"}
	switch o.Status {
	case x402.Settled:
		answer.state = "completed"
		answer.metadata = map[string]any{metadataStatus: "payment-completed", metadataReceipts: []*x402.SettleResponse{o.Response}}
	case x402.Conflict: // the payment that was sent first may be taken, so nothing failed
		answer.metadata[metadataError] = "DUPLICATE_NONCE"
	case x402.Limited, x402.Unavailable: // nothing was sent, so the client still has to pay
	default:
		answer.state = "working"
	}
}

func failureCode(reason string) string {
	for _, known := range [][2]string{
		{"insufficient", "INSUFFICIENT_FUNDS"}, {"signature", "INVALID_SIGNATURE"}, {"valid_before", "EXPIRED_PAYMENT"},
		{"expired", "EXPIRED_PAYMENT"}, {"nonce", "DUPLICATE_NONCE"}, {"network", "NETWORK_MISMATCH"}, {"value", "INVALID_AMOUNT"},
		{"amount", "INVALID_AMOUNT"},
	} {
		if strings.Contains(reason, known[0]) {
			return known[1]
		}
	}
	return "SETTLEMENT_FAILED"
}

// reply is an answer: a message, or a task with a message if it has a state.
type reply struct {
	extension                    string // the version of the payment extension
	messageID, contextID, taskID string
	state                        string // of A2A 0.3, such as "input-required"
	text                         string
	data                         json.RawMessage
	metadata                     map[string]any
}

func (r *reply) result(version string) any {
	text, data := map[string]any{"text": r.text}, map[string]any{"data": r.data}
	m := map[string]any{"messageId": r.messageID, "parts": []any{text, data}}
	if r.contextID != "" {
		m["contextId"] = r.contextID
	}
	if r.state != "" {
		m["taskId"], m["metadata"], m["extensions"] = r.taskID, r.metadata, []string{r.extension}
	}
	status := map[string]any{"state": r.state, "message": m}
	task := map[string]any{"id": r.taskID, "contextId": r.contextID, "status": status}
	if version == "0.3" {
		m["role"], m["kind"], text["kind"], data["kind"], task["kind"] = "agent", "message", "text", "data", "task"
		if r.state == "" {
			return m
		}
		return task
	}
	m["role"], text["mediaType"], data["mediaType"] = "ROLE_AGENT", "text/plain", typeJSON
	if r.state == "" {
		return map[string]any{"message": m}
	}
	status["state"] = "TASK_STATE_" + strings.ToUpper(strings.ReplaceAll(r.state, "-", "_"))
	return map[string]any{"task": task}
}
