package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Error codes of A2A 0.3.0 section 8.2.
const (
	codeTaskNotFound         = -32001
	codePushNotSupported     = -32003
	codeUnsupportedOperation = -32004
	codeNoExtendedCard       = -32007
)

// metadataPayload is where a payment stands in a message's metadata (A2A x402
// extension, version 0.1).
const metadataPayload = "x402.payment.payload"

// a2aMethods are the methods of A2A 0.3 and 1.0. The agent answers at once: it
// keeps no tasks, streams nothing and pushes nothing, as its card says.
var a2aMethods = map[string]func(*Endpoint, json.RawMessage) (any, *fault){
	"message/send": (*Endpoint).send03,
	"SendMessage":  (*Endpoint).send10,

	"message/stream":       noStream,
	"tasks/resubscribe":    noStream,
	"SendStreamingMessage": noStream,
	"SubscribeToTask":      noStream,

	"tasks/get":    noTask,
	"tasks/cancel": noTask,
	"GetTask":      noTask,
	"CancelTask":   noTask,
	"ListTasks":    noList,

	"tasks/pushNotificationConfig/set":    noPush,
	"tasks/pushNotificationConfig/get":    noPush,
	"tasks/pushNotificationConfig/list":   noPush,
	"tasks/pushNotificationConfig/delete": noPush,
	"CreateTaskPushNotificationConfig":    noPush,
	"GetTaskPushNotificationConfig":       noPush,
	"ListTaskPushNotificationConfigs":     noPush,
	"DeleteTaskPushNotificationConfig":    noPush,

	"agent/getAuthenticatedExtendedCard": noExtendedCard,
	"GetExtendedAgentCard":               noExtendedCard,
}

func noStream(*Endpoint, json.RawMessage) (any, *fault) {
	return nil, &fault{codeUnsupportedOperation, "this agent does not stream; use message/send or SendMessage"}
}

func noTask(_ *Endpoint, params json.RawMessage) (any, *fault) {
	var task struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(params, &task) != nil || task.ID == "" {
		return nil, &fault{codeInvalidParams, "params.id must name a task"}
	}
	return nil, &fault{codeTaskNotFound, "there is no such task: this agent answers every message at once; nothing was charged"}
}

func noList(*Endpoint, json.RawMessage) (any, *fault) {
	return nil, &fault{codeUnsupportedOperation, "this agent keeps no tasks"}
}

func noPush(*Endpoint, json.RawMessage) (any, *fault) {
	return nil, &fault{codePushNotSupported, "this agent sends no push notifications; ask /v1/received for payments"}
}

func noExtendedCard(*Endpoint, json.RawMessage) (any, *fault) {
	return nil, &fault{codeNoExtendedCard, "there is no extended agent card; the public one is complete"}
}

// message is an A2A message: 0.3 when Kind is set, else 1.0.
type message struct {
	Kind      string         `json:"kind,omitempty"`
	MessageID string         `json:"messageId"`
	ContextID string         `json:"contextId,omitempty"`
	Role      string         `json:"role"`
	Parts     []part         `json:"parts"`
	Metadata  map[string]any `json:"metadata,omitempty"`
}

// part is a part of a message: 0.3 when Kind is set, else 1.0.
type part struct {
	Kind      string          `json:"kind,omitempty"`
	Text      string          `json:"text,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
	MediaType string          `json:"mediaType,omitempty"`
}

// sendParams is what is read of a sent message. What its parts say does not
// matter, for the answer is always the offer.
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
		Push   json.RawMessage `json:"pushNotificationConfig"`     // 0.3
		Push10 json.RawMessage `json:"taskPushNotificationConfig"` // 1.0
	} `json:"configuration"`
}

// send03 is message/send of A2A 0.3.
func (e *Endpoint) send03(params json.RawMessage) (any, *fault) {
	m, problem := e.answer(params, "user")
	if problem != nil {
		return nil, problem
	}
	m.Kind, m.Role = "message", "agent"
	m.Parts[0].Kind, m.Parts[1].Kind = "text", "data"
	return m, nil
}

// send10 is SendMessage of A2A 1.0.
func (e *Endpoint) send10(params json.RawMessage) (any, *fault) {
	m, problem := e.answer(params, "ROLE_USER")
	if problem != nil {
		return nil, problem
	}
	m.Role = "ROLE_AGENT"
	m.Parts[0].MediaType, m.Parts[1].MediaType = "text/plain", "application/json"
	return map[string]any{"message": m}, nil
}

// answer is the offer as a text part and a data part, without the marks of a
// version. role is what the version calls the sender.
func (e *Endpoint) answer(params json.RawMessage, role string) (*message, *fault) {
	var p sendParams
	if json.Unmarshal(params, &p) != nil {
		return nil, &fault{codeInvalidParams, "params must hold a message"}
	}
	if problem := p.check(role); problem != nil {
		return nil, problem
	}
	q := e.quote()
	m := &message{
		MessageID: answerID(p.Message.MessageID), ContextID: p.Message.ContextID,
		Parts: []part{{Text: q.text}, {Data: q.data}},
	}
	if _, pays := p.Message.Metadata[metadataPayload]; pays {
		m.Parts[0].Text = notHere + "\n\n" + q.text
		m.Metadata = map[string]any{"x402.payment.status": "payment-rejected", "x402.payment.required": e.payments.Required(notHere)}
	}
	return m, nil
}

func (p *sendParams) check(role string) *fault {
	m := p.Message
	for _, part := range m.Parts {
		if part == nil {
			return &fault{codeInvalidParams, "message.parts must hold objects"}
		}
	}
	switch {
	case m.MessageID == "":
		return &fault{codeInvalidParams, "message.messageId is missing"}
	case m.Role != role:
		return &fault{codeInvalidParams, "message.role must be " + role}
	case len(m.Parts) == 0:
		return &fault{codeInvalidParams, "message.parts is empty"}
	case m.TaskID != "":
		_, problem := noTask(nil, encode(map[string]string{"id": m.TaskID}))
		return problem
	case isSet(p.Configuration.Push) || isSet(p.Configuration.Push10):
		_, problem := noPush(nil, nil)
		return problem
	}
	return nil
}

func isSet(v json.RawMessage) bool { return v != nil && string(v) != "null" }

// answerID names the answer to a message. The same message has the same
// answer, also when it is sent again.
func answerID(messageID string) string {
	sum := sha256.Sum256([]byte("answer to " + messageID))
	return hex.EncodeToString(sum[:16])
}
