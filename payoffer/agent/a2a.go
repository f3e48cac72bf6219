package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// Error codes of A2A 0.3.0 section 8.2 and A2A 1.0 section 5.4.
const (
	codeTaskNotFound         = -32001
	codePushNotSupported     = -32003
	codeUnsupportedOperation = -32004
	codeNoExtendedCard       = -32007
)

// a2aMethod answers the parameters of a request.
type a2aMethod func(*Endpoint, *http.Request, json.RawMessage) (any, *fault)

// a2aMethods are the methods of A2A 0.3 and 1.0. The agent answers at once: it
// keeps no tasks, streams nothing and pushes nothing, as its card says.
var a2aMethods = map[string]a2aMethod{
	"message/send": send("user", (*reply).in03),
	"SendMessage":  send("ROLE_USER", (*reply).in10),

	"message/stream":       refuse(noStream),
	"tasks/resubscribe":    refuse(noStream),
	"SendStreamingMessage": refuse(noStream),
	"SubscribeToTask":      refuse(noStream),

	"tasks/get":    noTask,
	"tasks/cancel": noTask,
	"GetTask":      noTask,
	"CancelTask":   noTask,
	"ListTasks":    refuse(noList),

	"tasks/pushNotificationConfig/set":    refuse(noPush),
	"tasks/pushNotificationConfig/get":    refuse(noPush),
	"tasks/pushNotificationConfig/list":   refuse(noPush),
	"tasks/pushNotificationConfig/delete": refuse(noPush),
	"CreateTaskPushNotificationConfig":    refuse(noPush),
	"GetTaskPushNotificationConfig":       refuse(noPush),
	"ListTaskPushNotificationConfigs":     refuse(noPush),
	"DeleteTaskPushNotificationConfig":    refuse(noPush),

	"agent/getAuthenticatedExtendedCard": refuse(noExtendedCard),
	"GetExtendedAgentCard":               refuse(noExtendedCards),
}

// serveA2A answers a request. The extensions that are in use are named in the
// header in which the client asked for them.
func (e *Endpoint) serveA2A(w http.ResponseWriter, r *http.Request, c call, method a2aMethod) {
	if header := e.activated(r); header != "" {
		w.Header().Set(header, x402Extension)
	}
	result, problem := method(e, r, c.params)
	if problem != nil {
		writeFault(w, http.StatusOK, c.id, problem)
		return
	}
	write(w, http.StatusOK, response{ID: c.id, Result: result})
}

// send is the method that sends a message. role is what the version calls the
// sender, in how it writes the result.
func send(role string, in func(*reply) any) a2aMethod {
	return func(e *Endpoint, r *http.Request, params json.RawMessage) (any, *fault) {
		answer, problem := e.send(r, params, role)
		if problem != nil {
			return nil, problem
		}
		return in(answer), nil
	}
}

// send answers a message by the offer, or by what became of the payment in it.
func (e *Endpoint) send(r *http.Request, params json.RawMessage, role string) (*reply, *fault) {
	var p sendParams
	if json.Unmarshal(params, &p) != nil {
		return nil, &fault{codeInvalidParams, "params must hold a message"}
	}
	if problem := p.check(role); problem != nil {
		return nil, problem
	}
	if answer, problem := e.answerPayment(r, &p.Message); answer != nil || problem != nil {
		return answer, problem
	}
	if p.Message.TaskID != "" {
		return nil, taskNotFound
	}
	q := e.quote()
	if q.required != nil && e.activated(r) != "" {
		metadata := map[string]any{metadataStatus: statusRequired, metadataRequired: q.required}
		return p.Message.reply("input-required", q.text, q.data, metadata), nil
	}
	return &reply{messageID: derive("message", p.Message.MessageID), contextID: p.Message.ContextID, text: q.text, data: q.data}, nil
}

// noTask is for what asks for a task by its id.
func noTask(_ *Endpoint, _ *http.Request, params json.RawMessage) (any, *fault) {
	var task struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(params, &task) != nil || task.ID == "" {
		return nil, &fault{codeInvalidParams, "params.id must name a task"}
	}
	return nil, taskNotFound
}

// refuse is a method that always has the same fault.
func refuse(problem *fault) a2aMethod {
	return func(*Endpoint, *http.Request, json.RawMessage) (any, *fault) { return nil, problem }
}

var (
	taskNotFound = &fault{codeTaskNotFound,
		"there is no such task: this agent answers every message at once and keeps none. A payment that was sent before may have " +
			"been taken: send that same payment again to learn of it, and sign no new one. Without one, send a message without taskId"}
	noStream       = &fault{codeUnsupportedOperation, "this agent does not stream; use message/send or SendMessage"}
	noList         = &fault{codeUnsupportedOperation, "this agent keeps no tasks"}
	noPush         = &fault{codePushNotSupported, "this agent sends no push notifications; ask /v1/received for payments"}
	noExtendedCard = &fault{codeNoExtendedCard, "there is no extended agent card; the public one is complete"}
	// noExtendedCards is for A2A 1.0, where the code above is for agents that
	// announce such a card (section 3.1.11).
	noExtendedCards = &fault{codeUnsupportedOperation, noExtendedCard.Message}
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
