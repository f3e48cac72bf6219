package card

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// maxNumber is the largest integer that JSON carries exactly everywhere.
const maxNumber = 1 << 53

var idForm = regexp.MustCompile(`^[A-Za-z0-9_]{1,255}$`)

// fields reads the members of a JSON object by their exact names; encoding/json would match them in any case. The first
// failure stays in err, which names a member of ours, never a value.
type fields struct {
	members map[string]json.RawMessage
	err     error
}

func parseFields(raw []byte) *fields {
	f := &fields{members: map[string]json.RawMessage{}}
	if json.Unmarshal(raw, &f.members) != nil || f.members == nil { // null makes it nil
		f.err = errors.New("it is not a JSON object")
	}
	return f
}

func (f *fields) fail(name, problem string) {
	if f.err == nil {
		f.err = fmt.Errorf("%s %s", name, problem)
	}
}

func (f *fields) object(name string) *fields {
	inner := parseFields(f.members[name])
	if inner.err != nil {
		f.fail(name, "is missing or is not a JSON object")
	}
	return inner
}

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

func (f *fields) text(name string) string { return f.required(name, f.optional(name)) }

// optional reads a string, empty if absent or null.
func (f *fields) optional(name string) string {
	raw, present := f.members[name]
	if !present || string(raw) == "null" {
		return ""
	}
	var s string
	if raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		f.fail(name, "is not a string")
	}
	return s
}

func (f *fields) id(name, prefix string) string { return f.required(name, f.optionalID(name, prefix)) }

// optionalID reads an id with a prefix, empty if absent or null.
func (f *fields) optionalID(name, prefix string) string {
	s := f.optional(name)
	if s == "" || strings.HasPrefix(s, prefix) && idForm.MatchString(s) {
		return s
	}
	f.fail(name, "is not an id of the expected kind")
	return ""
}

// number reads an integer from -2^53 to 2^53, without fraction or exponent.
func (f *fields) number(name string) int64 {
	n, err := strconv.ParseInt(string(f.members[name]), 10, 64)
	if err != nil || n > maxNumber || n < -maxNumber {
		f.fail(name, "is not an exact integer")
		return 0
	}
	return n
}

// amount reads an amount in the currency's smallest unit.
func (f *fields) amount(name string) int64 {
	n := f.number(name)
	if n < 0 {
		f.fail(name, "is negative")
	}
	return n
}

// optionalAmount reads an amount, 0 if absent or null.
func (f *fields) optionalAmount(name string) int64 {
	if raw, present := f.members[name]; !present || string(raw) == "null" {
		return 0
	}
	return f.amount(name)
}

// time reads a plausible time in Unix seconds.
func (f *fields) time(name string, now time.Time) int64 {
	at := f.number(name)
	if !observe.Plausible(at, now) {
		f.fail(name, "is not a Unix time between 2000 and now")
	}
	return at
}

// currency reads the object's currency, three lower-case letters (ISO 4217), in upper case; empty if absent.
func (f *fields) currency() string {
	s := f.optional("currency")
	if s != "" && (len(s) != 3 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz") != "") {
		f.fail("currency", "is not a code of three lower-case letters")
	}
	return strings.ToUpper(s)
}

func (f *fields) flag(name string) bool {
	raw := string(f.members[name])
	if raw != "true" && raw != "false" {
		f.fail(name, "is not true or false")
	}
	return raw == "true"
}
