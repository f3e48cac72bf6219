// Package text says everything on the pages for people in their language: one
// catalogue a language, a JSON file, of which nothing is in memory before somebody
// asks for it.
//
// To add a language, copy en.json under the language's tag, translate what stands
// to the right of the colons, and add a line to Languages below; there is no other
// place. A {name} stands for a value and stays as it is, at the place where the
// language wants it. A text that holds {n} may have a second one for the singular,
// under the same key and ".one". Speak to payers as the payment pages do that they
// know, politely, and with the apostrophes, quotation marks and spaces of print.
// "go test ./payoffer/..." names every text that is missing or that nobody says,
// and every page that grew too large.
package text

import (
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

//go:embed *.json
var files embed.FS

// Language is a language of the pages. It is safe for concurrent use.
type Language struct {
	Tag  string // BCP 47, as in "de"
	Name string // in the language itself
	// one reports whether a number takes the singular (CLDR plural rules).
	one  func(n int64) bool
	load func() catalogue
}

// Languages are those that there are. The first is the default.
var Languages = []*Language{
	newLanguage(files.ReadFile, "en", "English", exactlyOne),
	newLanguage(files.ReadFile, "de", "Deutsch", exactlyOne),
	newLanguage(files.ReadFile, "fr", "Français", func(n int64) bool { return n == 0 || n == 1 }),
	newLanguage(files.ReadFile, "es", "Español", exactlyOne),
}

func exactlyOne(n int64) bool { return n == 1 }

// Choose is the language that is asked for: by a tag, or else by the lines of an
// Accept-Language header (RFC 9110 section 12.5.4). None stands here in two forms,
// so that the first subtag decides (lookup by RFC 4647 section 3.4), and what cannot
// be read of a header is left out.
func Choose(tag string, accept []string) (l *Language, byTag bool) {
	if l := find(tag); l != nil {
		return l, true
	}
	chosen, best := Languages[0], 0.0
	for _, line := range accept {
		for item := range strings.SplitSeq(line, ",") {
			wanted, parameter, _ := strings.Cut(item, ";")
			wanted = strings.TrimSpace(wanted)
			l := find(wanted)
			if wanted == "*" {
				l = Languages[0]
			}
			if l == nil {
				continue
			}
			if q := Quality(parameter); q > best {
				chosen, best = l, q
			}
		}
	}
	return chosen, false
}

// find is the language of a tag, in any case and of any region, or nil.
func find(tag string) *Language {
	primary, _, _ := strings.Cut(tag, "-")
	for _, l := range Languages {
		if strings.EqualFold(l.Tag, primary) {
			return l
		}
	}
	return nil
}

// Quality reads a parameter such as "q=0.8" of an Accept header: 1 for an empty one, 0
// for an invalid one (RFC 9110 section 12.4.2).
func Quality(parameter string) float64 {
	name, value, found := strings.Cut(strings.TrimSpace(parameter), "=")
	if !found && name == "" {
		return 1
	}
	q, err := strconv.ParseFloat(value, 64)
	if err != nil || !strings.EqualFold(name, "q") || !(q >= 0 && q <= 1) {
		return 0
	}
	return q
}

// catalogue is what a language says, by key: "pay.title". A text that depends on a
// number has a second one for the singular, under the same key and ".one".
type catalogue map[string]string

// newLanguage is a language whose file read finds.
func newLanguage(read func(file string) ([]byte, error), tag, name string, one func(int64) bool) *Language {
	return &Language{Tag: tag, Name: name, one: one, load: sync.OnceValue(func() catalogue {
		data, err := read(tag + ".json")
		if err != nil {
			panic(err) // the file is embedded
		}
		c, err := parse(data)
		if err != nil {
			panic(fmt.Sprintf("text: %s.json: %v", tag, err)) // every file is tested
		}
		return c
	})}
}

// parse reads a catalogue: texts in groups.
func parse(data []byte) (catalogue, error) {
	var groups map[string]json.RawMessage
	if err := json.Unmarshal(data, &groups); err != nil {
		return nil, err
	}
	all := make(catalogue)
	for name, value := range groups {
		var said string
		if json.Unmarshal(value, &said) == nil {
			all[name] = said
			continue
		}
		group, err := parse(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for key, said := range group {
			all[name+"."+key] = said
		}
	}
	return all, nil
}

// Say is a phrase in the language.
func (l *Language) Say(p offer.Phrase) string {
	if p.Key == "" {
		return p.Text
	}
	return l.text(p.Key, p.With)
}

// Text is the text of a key, filled with pairs of a name and a value: those of
// offer.With. The value of "n" is the number that chooses between singular and
// plural.
func (l *Language) Text(key string, pairs ...any) string {
	with := make(offer.With, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		with[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return l.text(key, with)
}

func (l *Language) text(key string, with offer.With) string {
	said := l.said(key)
	if n, counted := whole(with["n"]); counted && l.one(n) {
		said = cmp.Or(l.load()[key+".one"], said)
	}
	var out strings.Builder
	for {
		before, rest, _ := strings.Cut(said, "{")
		out.WriteString(before)
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			return out.String()
		}
		if value, given := with[name]; given {
			out.WriteString(l.value(value))
		} else {
			out.WriteString("{" + name + "}")
		}
		said = after
	}
}

// said is the text of a key. One that is missing fails a test; a payer still sees
// the page, with the default language's text or the key in its place.
func (l *Language) said(key string) string {
	if said := l.load()[key]; said != "" {
		return said
	}
	if l != Languages[0] {
		return Languages[0].said(key)
	}
	return key
}

// value is a value as the language writes it.
func (l *Language) value(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case offer.Phrase:
		return l.Say(v)
	case offer.USD:
		return l.Number(v.String())
	case offer.EUR:
		return l.Number(v.String())
	}
	if n, ok := whole(v); ok {
		return l.Number(strconv.FormatInt(n, 10))
	}
	return fmt.Sprint(v)
}

// whole is a value that is a whole number.
func whole(v any) (int64, bool) {
	switch v := v.(type) {
	case int:
		return int64(v), true
	case int64:
		return v, true
	}
	return 0, false
}

// Number writes a decimal number, as in "-1234.50", in the language's form.
func (l *Language) Number(decimal string) string {
	digits, negative := strings.CutPrefix(decimal, "-")
	integer, fraction, hasFraction := strings.Cut(digits, ".")
	if len(integer) > len(l.said("language.ungrouped")) {
		for i := len(integer) - 3; i > 0; i -= 3 {
			integer = integer[:i] + l.said("language.group") + integer[i:]
		}
	}
	if hasFraction {
		integer += l.said("language.decimal") + fraction
	}
	if negative {
		return "-" + integer
	}
	return integer
}

// Date writes the day of a time, in UTC.
func (l *Language) Date(t time.Time) string {
	t = t.UTC()
	day := strconv.Itoa(t.Day())
	if t.Day() == 1 {
		day = l.said("language.first")
	}
	months := strings.Fields(l.said("language.months"))
	return l.Text("language.date", "day", day, "month", months[t.Month()-1], "year", strconv.Itoa(t.Year()))
}

// Moment writes a time with its minute, in UTC.
func (l *Language) Moment(t time.Time) string {
	return l.Text("language.moment", "date", l.Date(t), "time", t.UTC().Format("15:04 UTC"))
}

// Group is all texts whose key begins with name and a dot, without it: what a
// script says.
func (l *Language) Group(name string) map[string]string {
	group := make(map[string]string)
	for key, said := range maps.All(l.load()) {
		if rest, in := strings.CutPrefix(key, name+"."); in {
			group[rest] = said
		}
	}
	return group
}
