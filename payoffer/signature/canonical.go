// Package signature signs statements of a domain, and checks them from the
// domain alone: Ed25519 signatures as JWS (RFC 7515, RFC 8037) over canonical
// JSON (RFC 8785), by keys that the domain's did:web document lists.
package signature

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds the nesting of JSON that is made canonical.
const maxDepth = 32

// Canonical is the canonical form of a JSON text (RFC 8785). It refuses what
// two parsers may read differently: an object with two members of one name,
// text that is not UTF-8, and halves of surrogate pairs, with which it refuses
// U+FFFD, into which they are decoded.
func Canonical(text []byte) ([]byte, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("it is not UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	c := canonical{decoder: decoder}
	if err := c.value(0); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON value")
	}
	return c.out, nil
}

// canonical writes what it reads in canonical form.
type canonical struct {
	decoder *json.Decoder
	out     []byte
}

func (c *canonical) value(depth int) error {
	token, err := c.decoder.Token()
	if err != nil {
		return errors.New("it is not JSON")
	}
	switch token := token.(type) {
	case json.Delim:
		switch {
		case depth == maxDepth:
			return fmt.Errorf("it is nested deeper than %d levels", maxDepth)
		case token == '{':
			return c.object(depth + 1)
		default:
			return c.array(depth + 1)
		}
	case string:
		return c.text(token)
	case json.Number:
		return c.number(token)
	case bool:
		c.out = fmt.Appendf(c.out, "%t", token)
	default:
		c.out = append(c.out, "null"...)
	}
	return nil
}

func (c *canonical) array(depth int) error {
	c.out = append(c.out, '[')
	for n := 0; c.decoder.More(); n++ {
		if n > 0 {
			c.out = append(c.out, ',')
		}
		if err := c.value(depth); err != nil {
			return err
		}
	}
	return c.end(']')
}

// object sorts the members by the UTF-16 code units of their names (RFC 8785
// section 3.2.3).
func (c *canonical) object(depth int) error {
	type member struct {
		name  []uint16
		bytes []byte
	}
	var members []member
	start := len(c.out)
	for c.decoder.More() {
		token, err := c.decoder.Token()
		if err != nil {
			return errors.New("it is not JSON")
		}
		name := token.(string) // the decoder takes no other
		if err := c.text(name); err != nil {
			return err
		}
		c.out = append(c.out, ':')
		if err := c.value(depth); err != nil {
			return err
		}
		members = append(members, member{utf16.Encode([]rune(name)), bytes.Clone(c.out[start:])})
		c.out = c.out[:start]
	}
	slices.SortFunc(members, func(a, b member) int { return slices.Compare(a.name, b.name) })
	c.out = append(c.out, '{')
	for n, m := range members {
		if n > 0 {
			if slices.Equal(members[n-1].name, m.name) {
				return errors.New("an object has two members of one name")
			}
			c.out = append(c.out, ',')
		}
		c.out = append(c.out, m.bytes...)
	}
	return c.end('}')
}

// end passes over the delimiter that ends an array or an object.
func (c *canonical) end(delimiter byte) error {
	if _, err := c.decoder.Token(); err != nil {
		return errors.New("it is not JSON")
	}
	c.out = append(c.out, delimiter)
	return nil
}

// number writes a number as ECMAScript does (RFC 8785 section 3.2.2.3), which
// is how encoding/json writes a float64, but for the negative zero.
func (c *canonical) number(n json.Number) error {
	f, err := n.Float64()
	if err != nil {
		return errors.New("a number is out of range")
	}
	if f == 0 {
		f = 0 // and not -0
	}
	encoded, err := json.Marshal(f)
	c.out = append(c.out, encoded...)
	return err
}

// escapes are the characters that have a short escape of their own.
const escapes = "\b\t\n\f\r\"\\"

// text writes a string with the escapes that it needs and no other (RFC 8785
// section 3.2.2.2).
func (c *canonical) text(s string) error {
	if strings.ContainsRune(s, utf8.RuneError) {
		return errors.New("a string has half a surrogate pair, or U+FFFD in place of one")
	}
	c.out = append(c.out, '"')
	for i := range len(s) {
		switch b := s[i]; {
		case strings.IndexByte(escapes, b) >= 0:
			c.out = append(c.out, '\\', `btnfr"\`[strings.IndexByte(escapes, b)])
		case b < ' ':
			c.out = fmt.Appendf(c.out, `\u%04x`, b)
		default:
			c.out = append(c.out, b)
		}
	}
	c.out = append(c.out, '"')
	return nil
}
