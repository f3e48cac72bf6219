package agent

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Error codes of JSON-RPC 2.0 section 5.1.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeMethodNotFound = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603
)

// maxInteger is the largest integer that every JSON parser keeps exact
// (RFC 7493 section 2.2).
const maxInteger = 1<<53 - 1

// call is one JSON-RPC 2.0 message of a client.
type call struct {
	// id is the JSON of the id, nil for a message that wants no answer.
	id     json.RawMessage
	method string
	// params is their JSON, nil when there were none, and so is meta: that of the
	// message itself.
	params, meta json.RawMessage
}

// fault is a JSON-RPC error object.
type fault struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// response is a JSON-RPC response. A nil ID is written as null.
type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *fault          `json:"error,omitempty"`
}

// parse reads one message. Member names are compared exactly, as MCP and A2A
// peers do. With a fault, the call holds the id as far as it could be read.
func parse(body []byte) (call, *fault) {
	var c call
	// Whoever reads a call in front of this server must read the same payment in it.
	if !jsontext.Value(body).IsValid() {
		return c, &fault{codeParse, "the body is not JSON, or has one with a member that stands twice or with text that is not UTF-8"}
	}
	var id, version, method, outcome json.RawMessage
	isObject := members(body, func(name string, value json.RawMessage) {
		switch name {
		case "jsonrpc":
			version = value
		case "id":
			id = value
		case "method":
			method = value
		case "params":
			c.params = value
		case "_meta":
			c.meta = value
		case "result", "error":
			outcome = value
		}
	})
	if !isObject {
		return c, &fault{codeInvalidRequest, "the body is not one JSON-RPC message; send an object, batches are not supported"}
	}
	if id != nil {
		if !validID(id) {
			return c, &fault{codeInvalidRequest, "the id must be a string or an integer of at most 53 bits"}
		}
		c.id = id
	}
	if string(version) != `"2.0"` {
		return c, &fault{codeInvalidRequest, `this is not JSON-RPC 2.0; set "jsonrpc" to "2.0"`}
	}
	if method == nil && outcome != nil {
		return call{}, nil // a client's response
	}
	if json.Unmarshal(method, &c.method) != nil || c.method == "" {
		return c, &fault{codeInvalidRequest, "the method must be a string that is not empty"}
	}
	if string(c.params) == "null" {
		c.params = nil
	}
	return c, nil
}

// members shows each member of a JSON object, with its value as it was written. It
// returns false for what is no object.
func members(object []byte, visit func(name string, value json.RawMessage)) bool {
	d := decoders.Get().(*jsontext.Decoder)
	defer decoders.Put(d)
	d.Reset(bytes.NewBuffer(object))
	if start, err := d.ReadToken(); err != nil || start.Kind() != '{' {
		return false
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return false
		}
		of := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return false
		}
		end := d.InputOffset()
		visit(of, object[end-int64(len(value)):end])
	}
	_, err := d.ReadToken()
	return err == nil
}

// decoders read objects.
var decoders = sync.Pool{New: func() any { return jsontext.NewDecoder(new(bytes.Buffer)) }}

// member is a member of a JSON object as it was written, nil when there is
// none. Its name is compared exactly.
func member(object json.RawMessage, name string) json.RawMessage {
	var found json.RawMessage
	if !members(object, func(member string, value json.RawMessage) {
		if member == name {
			found = value
		}
	}) {
		return nil
	}
	return found
}

// validID accepts what JSON-RPC, MCP and A2A can all echo unchanged: a string,
// an exact integer, and null.
func validID(id json.RawMessage) bool {
	if id[0] == '"' || string(id) == "null" {
		return true
	}
	n, err := strconv.ParseInt(string(id), 10, 64)
	return err == nil && -maxInteger <= n && n <= maxInteger
}

func writeFault(w http.ResponseWriter, status int, id json.RawMessage, problem *fault) {
	write(w, status, response{ID: id, Error: problem})
}

func write(w http.ResponseWriter, status int, r response) {
	r.Version = "2.0"
	writeBody(w, status, "application/json", encode(r))
}

// writeBody writes an answer. Nothing on this endpoint may be stored: quotes
// follow the rate.
func writeBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have gone
}

// encode renders JSON without escaping &, < and >: the text is read by language
// models and people, and never inside HTML.
func encode(v any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic("agent: " + err.Error()) // the types of this package always marshal
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
