package x402

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth bounds the nesting of a payment payload.
const maxDepth = 32

// memberNames are the members that are read outside of extensions.
var memberNames = []string{"x402Version", "scheme", "network", "accepted", "payload", "extensions", "signature",
	"authorization", "from", "to", "value", "validAfter", "validBefore", "nonce", "amount", "asset", "payTo"}

// checkJSON refuses JSON that two parsers may read differently: text that is
// not UTF-8, members whose names are equal but for case, known names in another
// case, nesting without end, bytes after the value. A facilitator must see the
// authorization that was checked here, not another. Its time grows with the
// length alone.
func checkJSON(data []byte) error {
	// The names are compared below, and more strictly.
	decoder := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true))
	if err := checkValue(decoder, false); err != nil {
		return err
	}
	if _, err := decoder.ReadToken(); err != io.EOF {
		return errNoJSON
	}
	return nil
}

var errNoJSON = errors.New("it is not one valid JSON value")

// checkValue passes over one value. foreign is true inside of extensions, whose
// members are not ours to name.
func checkValue(decoder *jsontext.Decoder, foreign bool) error {
	opening, err := decoder.ReadToken()
	if err != nil {
		return errNoJSON
	}
	object := opening.Kind() == '{'
	if !object && opening.Kind() != '[' {
		return nil
	}
	if decoder.StackDepth() > maxDepth {
		return fmt.Errorf("it is nested deeper than %d levels", maxDepth)
	}
	seen := make(map[string]bool)
	for kind := decoder.PeekKind(); kind != '}' && kind != ']'; kind = decoder.PeekKind() {
		inside := foreign
		if object {
			token, err := decoder.ReadToken()
			if err != nil {
				return errNoJSON
			}
			name := token.String()
			if err := checkName(name, seen, foreign); err != nil {
				return err
			}
			inside = foreign || name == "extensions"
		}
		if err := checkValue(decoder, inside); err != nil {
			return err
		}
	}
	if _, err := decoder.ReadToken(); err != nil {
		return errNoJSON
	}
	return nil
}

func checkName(name string, seen map[string]bool, foreign bool) error {
	folded := fold(name)
	if seen[folded] {
		return errors.New("an object has two members of one name")
	}
	seen[folded] = true
	for _, known := range memberNames {
		if !foreign && known != name && strings.EqualFold(known, name) {
			return fmt.Errorf("a member must be written %q", known)
		}
	}
	return nil
}

// fold makes one name of all that encoding/json takes for the same: it
// compares by Unicode's simple folding, so that "\u017fignature" is read as
// "signature".
func fold(name string) string { return strings.ToLower(strings.ToUpper(name)) }
