// Package signature signs statements of a domain, and checks them from the
// domain alone: Ed25519 signatures as JWS (RFC 7515, RFC 8037) over canonical
// JSON (RFC 8785), by keys that the domain's did:web document lists.
package signature

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth bounds the nesting of JSON that is made canonical.
const maxDepth = 32

// Canonical is the canonical form of a JSON text (RFC 8785). It refuses what
// two parsers may read differently: an object with two members of one name,
// text that is not UTF-8, halves of surrogate pairs, and numbers beyond those
// of double precision.
func Canonical(text []byte) ([]byte, error) {
	if err := checkBounds(text); err != nil {
		return nil, err
	}
	value := jsontext.Value(bytes.Clone(text))
	err := value.Canonicalize()
	return value, err
}

// checkBounds refuses what Canonicalize takes: deep nesting, and a number out
// of range, which it would replace by the largest.
func checkBounds(text []byte) error {
	decoder := jsontext.NewDecoder(bytes.NewBuffer(text))
	for {
		token, err := decoder.ReadToken()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case decoder.StackDepth() > maxDepth:
			return fmt.Errorf("it is nested deeper than %d levels", maxDepth)
		case token.Kind() == '0':
			if _, err := strconv.ParseFloat(token.String(), 64); err != nil {
				return errors.New("a number is out of range")
			}
		}
	}
}
