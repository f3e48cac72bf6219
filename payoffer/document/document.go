// Package document renders every discovery document, the invoice and the URI
// lists as pure functions of an offer. One file holds one standard.
//
// A document that stays fixed while the configuration does never holds what
// follows the exchange rate: it links to the rail's URI list instead.
package document

import (
	"bytes"
	"encoding/json"
)

// Version is the version of the interface that the documents describe
// (specification section 9).
const Version = "0.2.0"

// Fixed identifiers of the interface. They keep their number when the operator
// sets another amount, for clients know them by name.
const (
	// ToolName is the name of the tool at the agent endpoint (specification
	// section 1.4).
	ToolName = "first_42_sponsor"
	// skillID is the id of the skill in the agent card (specification section
	// 2.2).
	skillID = "pay-42"
)

// typeJSON is the media type of JSON without a type of its own (RFC 8259).
const typeJSON = "application/json"

// Document is a rendered document.
type Document struct {
	// Type is the whole value of Content-Type.
	Type string
	// Body is the content; callers must not change it.
	Body []byte
}

// JSON renders v as an indented JSON document that ends with a line break.
// Characters special to HTML stand as they are, for payment URIs are full of
// ampersands and people copy them from here. It panics when v cannot be
// encoded, which is a mistake in the calling code and not in any input.
func JSON(contentType string, v any) Document {
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		panic("document: " + err.Error())
	}
	return Document{Type: contentType, Body: bytes.Clone(body.Bytes())} // many are kept, without the room that a buffer has to spare
}
