package x402

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// maxDepth bounds the nesting of a payment payload.
const maxDepth = 32

// memberNames are the members that are read outside of extensions, by their
// folded names.
var memberNames = foldAll("x402Version", "scheme", "network", "accepted", "payload", "extensions", "signature",
	"authorization", "from", "to", "value", "validAfter", "validBefore", "nonce", "amount", "asset", "payTo")

// checkJSON refuses JSON that two parsers may read differently: members whose
// names are equal but for case, known names in another case, nesting without
// end, bytes after the value. A facilitator must see the authorization that
// was checked here, not another.
func checkJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := checkValue(d, 0, false); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the JSON value")
	}
	return nil
}

// checkValue reads one value. foreign is true inside of extensions, whose
// members are not ours to name.
func checkValue(d *json.Decoder, depth int, foreign bool) error {
	token, err := d.Token()
	if err != nil {
		return errors.New("it is not valid JSON")
	}
	delim, isDelim := token.(json.Delim)
	if !isDelim {
		return nil
	}
	if depth == maxDepth {
		return fmt.Errorf("it is nested deeper than %d levels", maxDepth)
	}
	seen := make(map[string]bool)
	for d.More() {
		inside := foreign
		if delim == '{' {
			token, err := d.Token()
			name, isName := token.(string)
			if err != nil || !isName {
				return errors.New("it is not valid JSON")
			}
			if err := checkName(name, seen, foreign); err != nil {
				return err
			}
			inside = foreign || name == "extensions"
		}
		if err := checkValue(d, depth+1, inside); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return errors.New("it is not valid JSON")
	}
	return nil
}

func checkName(name string, seen map[string]bool, foreign bool) error {
	folded := fold(name)
	if seen[folded] {
		return errors.New("an object has two members of one name")
	}
	seen[folded] = true
	if known, ok := memberNames[folded]; ok && known != name && !foreign {
		return fmt.Errorf("a member must be written %q", known)
	}
	return nil
}

// fold makes one name of all that encoding/json takes for the same: it
// compares by Unicode's simple folding, so that "\u017fignature" is read as
// "signature".
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		for {
			next := unicode.SimpleFold(r)
			if next <= r {
				return next
			}
			r = next
		}
	}, name)
}

func foldAll(names ...string) map[string]string {
	folded := make(map[string]string, len(names))
	for _, name := range names {
		folded[fold(name)] = name
	}
	return folded
}
