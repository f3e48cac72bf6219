package agent

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
)

// Error codes of JSON-RPC 2.0 section 5.1.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeMethodNotFound = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603
)

const maxInteger = 1<<53 - 1 // which every JSON parser keeps exactly (RFC 7493 section 2.2)

type call struct {
	ID      jsontext.Value `json:"id"` // nil if the message wants no answer
	Params  jsontext.Value `json:"params"`
	Meta    jsontext.Value `json:"_meta"` // of the message itself
	Version any            `json:"jsonrpc"`
	Method  any            `json:"method"`
	Result  jsontext.Value `json:"result"`
	Error   jsontext.Value `json:"error"`

	body   []byte
	method string
}

type fault struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// response is a JSON-RPC response. A nil ID is encoded as null.
type response struct {
	Version string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id"`
	Result  any            `json:"result,omitempty"`
	Error   *fault         `json:"error,omitempty"`
}

// parse parses one message. It compares member names exactly and rejects duplicates, so that a proxy in front of this
// server reads the same payment in it. With a fault, the call has its ID if that is valid.
func parse(body []byte) (call, *fault) {
	c := call{body: body}
	err := json.Unmarshal(body, &c)
	c.method, _ = c.Method.(string)
	switch {
	case errors.As(err, new(*json.SemanticError)):
		return c, &fault{codeInvalidRequest, "the body is not one JSON-RPC message; send a single object, not a batch"}
	case err != nil:
		return call{}, &fault{codeParse, "the body is not JSON in UTF-8 with unique member names, and no payment was sent; correct it and send it again"}
	case !validID(c.ID):
		return call{}, &fault{codeInvalidRequest, "the id must be a string or an integer of at most 53 bits, such as 1"}
	case c.Version != "2.0":
		return c, &fault{codeInvalidRequest, `this is not JSON-RPC 2.0; set "jsonrpc" to "2.0"`}
	case c.Method == nil && (c.Result != nil || c.Error != nil):
		return call{}, nil // a response
	case c.method == "":
		return c, &fault{codeInvalidRequest, "the method is missing or is not a string; send one, such as tools/call"}
	}
	if c.Params != nil && c.Params.Kind() == 'n' {
		c.Params = nil
	}
	return c, nil
}

// validID accepts what all protocols can return unchanged: a string, an integer, and null.
func validID(id jsontext.Value) bool {
	if id == nil || id[0] == '"' || string(id) == "null" {
		return true
	}
	n, err := strconv.ParseInt(string(id), 10, 64)
	return err == nil && -maxInteger <= n && n <= maxInteger
}

func writeFault(w http.ResponseWriter, status int, id jsontext.Value, problem *fault) {
	write(w, status, response{ID: id, Error: problem})
}

// write writes a response, which no cache may store because quotes follow the rate.
func write(w http.ResponseWriter, status int, r response) {
	r.Version = "2.0"
	body := document.Line(r)
	w.Header().Set("Content-Type", typeJSON)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
