package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
)

// sendParams is what is read of a sent message. What its parts say does not
// matter, for the answer is always the offer.
type sendParams struct {
	Message       incoming `json:"message"`
	Configuration struct {
		Push   json.RawMessage `json:"pushNotificationConfig"`     // 0.3
		Push10 json.RawMessage `json:"taskPushNotificationConfig"` // 1.0
	} `json:"configuration"`
}

// incoming is a message of a client.
type incoming struct {
	MessageID string                       `json:"messageId"`
	ContextID string                       `json:"contextId"`
	TaskID    string                       `json:"taskId"`
	Role      string                       `json:"role"`
	Parts     []map[string]json.RawMessage `json:"parts"`
	Metadata  map[string]json.RawMessage   `json:"metadata"`
}

func (p *sendParams) check(role string) *fault {
	m := p.Message
	switch {
	case slices.ContainsFunc(m.Parts, func(part map[string]json.RawMessage) bool { return part == nil }):
		return &fault{codeInvalidParams, "message.parts must hold objects"}
	case m.MessageID == "":
		return &fault{codeInvalidParams, "message.messageId is missing"}
	case m.Role != role:
		return &fault{codeInvalidParams, "message.role must be " + role}
	case len(m.Parts) == 0:
		return &fault{codeInvalidParams, "message.parts is empty"}
	case isSet(p.Configuration.Push) || isSet(p.Configuration.Push10):
		return noPush
	}
	return nil
}

func isSet(v json.RawMessage) bool { return v != nil && string(v) != "null" }

// task is the id of the task that a message is about. None is kept: the first
// message of a payment and its repetitions give the same one.
func (m *incoming) task() string {
	if m.TaskID != "" {
		return m.TaskID
	}
	return derive("task", m.MessageID)
}

// derive makes an id that is always the same for the same other id.
func derive(kind, id string) string {
	sum := sha256.Sum256([]byte(kind + " for " + id))
	return hex.EncodeToString(sum[:16])
}

// reply is an answer before a version of A2A gives it its marks: a message, or
// a task with a message when it has a state.
type reply struct {
	messageID, contextID, taskID string
	// state is a task state of A2A 0.3.
	state    string
	text     string
	data     json.RawMessage
	metadata map[string]any
}

// message is an A2A message: 0.3 when Kind is set, else 1.0.
type message struct {
	Kind       string         `json:"kind,omitempty"`
	MessageID  string         `json:"messageId"`
	ContextID  string         `json:"contextId,omitempty"`
	TaskID     string         `json:"taskId,omitempty"`
	Role       string         `json:"role"`
	Parts      []part         `json:"parts"`
	Metadata   map[string]any `json:"metadata,omitempty"`
	Extensions []string       `json:"extensions,omitempty"`
}

// part is a part of a message: 0.3 when Kind is set, else 1.0.
type part struct {
	Kind      string          `json:"kind,omitempty"`
	Text      string          `json:"text,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
	MediaType string          `json:"mediaType,omitempty"`
}

// task is an A2A task: 0.3 when Kind is set, else 1.0.
type task struct {
	Kind      string     `json:"kind,omitempty"`
	ID        string     `json:"id"`
	ContextID string     `json:"contextId"`
	Status    taskStatus `json:"status"`
}

type taskStatus struct {
	State   string   `json:"state"`
	Message *message `json:"message"`
}

// in03 is the result of message/send.
func (a *reply) in03() any {
	m := a.message()
	m.Kind, m.Role = "message", "agent"
	m.Parts[0].Kind, m.Parts[1].Kind = "text", "data"
	if a.state == "" {
		return m
	}
	return &task{Kind: "task", ID: a.taskID, ContextID: a.contextID, Status: taskStatus{a.state, m}}
}

// in10 is the result of SendMessage.
func (a *reply) in10() any {
	m := a.message()
	m.Role = "ROLE_AGENT"
	m.Parts[0].MediaType, m.Parts[1].MediaType = "text/plain", typeJSON
	if a.state == "" {
		return map[string]any{"message": m}
	}
	state := "TASK_STATE_" + strings.ToUpper(strings.ReplaceAll(a.state, "-", "_"))
	return map[string]any{"task": &task{ID: a.taskID, ContextID: a.contextID, Status: taskStatus{state, m}}}
}

func (a *reply) message() *message {
	m := &message{
		MessageID: a.messageID, ContextID: a.contextID, TaskID: a.taskID,
		Parts: []part{{Text: a.text}, {Data: a.data}}, Metadata: a.metadata,
	}
	if a.metadata != nil {
		m.Extensions = []string{x402Extension}
	}
	return m
}
