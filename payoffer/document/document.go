// Package document renders every discovery document, the invoice and the URI lists as pure
// functions of an offer, one standard in a file. Documents that are rendered once contain
// no price that follows an exchange rate; they link to the rail's URI list instead.
package document

import (
	"bytes"
	"encoding/json"
)

// Version is the version of the interface that the documents describe
// (docs/developing/decisions.md).
const Version = "0.2.0"

// Identifiers that the interface fixes (docs/developing/decisions.md). They do not depend on the amount.
const (
	ToolName = "first_42_sponsor" // at the agent endpoint
	skillID  = "pay-42"           // in the agent card
)

const typeJSON = "application/json"

// Document is a rendered document. Callers must not change its body.
type Document struct {
	Type string // the whole value of Content-Type
	Body []byte
}

// JSON renders v as an indented JSON document.
func JSON(contentType string, v any) Document {
	return Document{Type: contentType, Body: encode(v, "  ")}
}

// Line renders v as JSON on one line, without its end.
func Line(v any) []byte { return bytes.TrimSuffix(encode(v, ""), []byte("\n")) }

// encode does not escape characters special to HTML, because people copy payment URIs with
// ampersands. It panics if v cannot be encoded.
func encode(v any, indent string) []byte {
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		panic("document: " + err.Error())
	}
	return bytes.Clone(body.Bytes()) // without the buffer's spare capacity
}
