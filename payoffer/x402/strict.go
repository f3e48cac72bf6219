package x402

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
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
// was checked here, not another. Its time grows with the length alone.
func checkJSON(data []byte) error {
	if !json.Valid(data) {
		return errors.New("it is not one valid JSON value")
	}
	w := walker{data: data}
	return w.value(0, false)
}

// walker goes through valid JSON once and copies nothing but member names.
type walker struct {
	data []byte
	at   int
}

// value passes over one value. foreign is true inside of extensions, whose
// members are not ours to name.
func (w *walker) value(depth int, foreign bool) error {
	w.space()
	switch w.data[w.at] {
	case '{', '[':
		if depth == maxDepth {
			return fmt.Errorf("it is nested deeper than %d levels", maxDepth)
		}
		return w.members(depth, foreign)
	case '"':
		w.text()
	default:
		for w.at < len(w.data) && bytes.IndexByte(endOfScalar, w.data[w.at]) < 0 {
			w.at++
		}
	}
	return nil
}

// endOfScalar are the bytes that may follow a number, true, false or null.
var endOfScalar = []byte(",]} \t\r\n")

// members passes over an object or an array.
func (w *walker) members(depth int, foreign bool) error {
	object := w.data[w.at] == '{'
	var seen map[string]bool
	for w.at++; ; {
		w.space()
		switch w.data[w.at] {
		case '}', ']':
			w.at++
			return nil
		case ',':
			w.at++
			continue
		}
		inside := foreign
		if object {
			if seen == nil {
				seen = make(map[string]bool)
			}
			name := w.name()
			if err := checkName(name, seen, foreign); err != nil {
				return err
			}
			inside = foreign || name == "extensions"
		}
		if err := w.value(depth+1, inside); err != nil {
			return err
		}
	}
}

// name reads a member's name and passes over its colon.
func (w *walker) name() (name string) {
	raw := w.text()
	if bytes.IndexFunc(raw, isEscape) < 0 {
		name = string(raw[1 : len(raw)-1])
	} else if err := json.Unmarshal(raw, &name); err != nil {
		panic("x402: read a member's name: " + err.Error()) // it is a string of valid JSON
	}
	w.space()
	w.at++
	return name
}

// isEscape reports whether a name must be decoded to be compared.
func isEscape(r rune) bool { return r == '\\' || r >= utf8.RuneSelf }

// text passes over a string and returns it as it stands there.
func (w *walker) text() []byte {
	start := w.at
	for w.at++; w.data[w.at] != '"'; w.at++ {
		if w.data[w.at] == '\\' {
			w.at++
		}
	}
	w.at++
	return w.data[start:w.at]
}

func (w *walker) space() {
	for w.data[w.at] == ' ' || w.data[w.at] == '\t' || w.data[w.at] == '\r' || w.data[w.at] == '\n' {
		w.at++
	}
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
