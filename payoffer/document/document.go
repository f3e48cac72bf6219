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

// member is one member of an object.
type member struct {
	name  string
	value any
}

// object is a JSON object whose members keep their order, for readers follow
// an API description from top to bottom.
type object []member

// MarshalJSON writes the members in their order.
func (o object) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := o.write(&out, e); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// write writes the object by an encoder into out, and objects in it the same way: the
// encoder would check and copy each of them once more.
func (o object) write(out *bytes.Buffer, e *json.Encoder) error {
	out.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			out.WriteByte(',')
		}
		if err := e.Encode(m.name); err != nil {
			return err
		}
		out.WriteByte(':')
		if held, is := m.value.(object); is {
			if err := held.write(out, e); err != nil {
				return err
			}
		} else if err := e.Encode(m.value); err != nil {
			return err
		}
	}
	out.WriteByte('}')
	return nil
}
