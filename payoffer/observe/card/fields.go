package card

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// maxNumber is the largest whole number that JSON carries everywhere.
const maxNumber = 1 << 53

// idForm is the form of the processor's ids.
var idForm = regexp.MustCompile(`^[A-Za-z0-9_]{1,255}$`)

// fields reads the members of a JSON object by their exact names, which
// encoding/json would take in any case. The first failure stays in err, and
// names a member of ours, never a value.
type fields struct {
	members map[string]json.RawMessage
	err     error
}

// parseFields refuses two members of one name, at any depth: their reader and
// their signer might mean different ones. Text that is not Unicode is taken, for
// it may stand in a name that a payer typed.
func parseFields(raw []byte) *fields {
	f := &fields{members: map[string]json.RawMessage{}}
	unambiguous := jsontext.Value(raw).IsValid(jsontext.AllowInvalidUTF8(true))
	if !unambiguous || json.Unmarshal(raw, &f.members) != nil || f.members == nil { // which null makes it
		f.err = errors.New("it is not one valid JSON object, or one has two members of one name")
	}
	return f
}

func (f *fields) fail(name, problem string) {
	if f.err == nil {
		f.err = fmt.Errorf("%s %s", name, problem)
	}
}

// object is a member that is an object.
func (f *fields) object(name string) *fields {
	inner := parseFields(f.members[name])
	if inner.err != nil {
		f.fail(name, "is not one valid object")
	}
	return inner
}

// list is a member that is an array.
func (f *fields) list(name string) []json.RawMessage {
	var items []json.RawMessage
	if raw := f.members[name]; len(raw) == 0 || raw[0] != '[' || json.Unmarshal(raw, &items) != nil {
		f.fail(name, "is not a list")
	}
	return items
}

func (f *fields) required(name, text string) string {
	if text == "" {
		f.fail(name, "is missing")
	}
	return text
}

// text is a string.
func (f *fields) text(name string) string {
	return f.required(name, f.optional(name))
}

// optional is a string, and empty when it is absent or null.
func (f *fields) optional(name string) string {
	raw, present := f.members[name]
	if !present || string(raw) == "null" {
		return ""
	}
	var s string
	if raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		f.fail(name, "is not a text")
	}
	return s
}

// id is an id that starts with prefix.
func (f *fields) id(name, prefix string) string {
	return f.required(name, f.optionalID(name, prefix))
}

// optionalID is an id, and empty when it is absent or null.
func (f *fields) optionalID(name, prefix string) string {
	s := f.optional(name)
	if s == "" || strings.HasPrefix(s, prefix) && idForm.MatchString(s) {
		return s
	}
	f.fail(name, "is not an id")
	return ""
}

// number is a whole number from -2^53 to 2^53, written without fraction and
// exponent.
func (f *fields) number(name string) int64 {
	n, err := strconv.ParseInt(string(f.members[name]), 10, 64)
	if err != nil || n > maxNumber || n < -maxNumber {
		f.fail(name, "is not a whole number that is exact")
		return 0
	}
	return n
}

// amount is a whole number from 0, in the currency's smallest unit.
func (f *fields) amount(name string) int64 {
	n := f.number(name)
	if n < 0 {
		f.fail(name, "is negative")
	}
	return n
}

// time is one that the processor can mean, in Unix seconds.
func (f *fields) time(name string, now time.Time) int64 {
	at := f.number(name)
	if !observe.Plausible(at, now) {
		f.fail(name, "is no time between 2000 and now")
	}
	return at
}

// currency is a code of three lower-case letters (ISO 4217).
func (f *fields) currency(name string) string {
	s := f.text(name)
	if len(s) != 3 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz") != "" {
		f.fail(name, "is not a code of three lower-case letters")
	}
	return s
}

// optionalCurrency is the currency of the object's amounts, as receipts write it;
// empty where none is named.
func (f *fields) optionalCurrency() string {
	if f.optional("currency") == "" {
		return ""
	}
	return strings.ToUpper(f.currency("currency"))
}

func (f *fields) flag(name string) bool {
	raw := string(f.members[name])
	if raw != "true" && raw != "false" {
		f.fail(name, "is not true or false")
	}
	return raw == "true"
}
