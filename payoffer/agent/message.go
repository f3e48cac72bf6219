package agent

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"

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
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return c, &fault{codeInvalidRequest, "the body is not one JSON-RPC message; send an object, batches are not supported"}
	}
	if id := members["id"]; id != nil {
		if !validID(id) {
			return c, &fault{codeInvalidRequest, "the id must be a string or an integer of at most 53 bits"}
		}
		c.id = id
	}
	if string(members["jsonrpc"]) != `"2.0"` {
		return c, &fault{codeInvalidRequest, `this is not JSON-RPC 2.0; set "jsonrpc" to "2.0"`}
	}
	if members["method"] == nil && (members["result"] != nil || members["error"] != nil) {
		return call{}, nil // a client's response
	}
	if json.Unmarshal(members["method"], &c.method) != nil || c.method == "" {
		return c, &fault{codeInvalidRequest, "the method must be a string that is not empty"}
	}
	if params := members["params"]; string(params) != "null" {
		c.params = params
	}
	c.meta = members["_meta"]
	return c, nil
}

// member is a member of a JSON object as it was written, nil when there is
// none. Its name is compared exactly.
func member(object json.RawMessage, name string) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(object, &members) != nil {
		return nil
	}
	return members[name]
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
