// Package text says everything on the pages for people in their language: one
// catalogue a language, a JSON file, of which nothing is in memory before somebody
// asks for it. How to add a language: copy en.json, translate what stands to the
// right of the colons, and add the language to languages below; the tests name
// every text that is missing.
package text

import (
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/text/language"

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
	newLanguage("en", "English", exactlyOne),
	newLanguage("de", "Deutsch", exactlyOne),
	newLanguage("fr", "Français", func(n int64) bool { return n == 0 || n == 1 }),
	newLanguage("es", "Español", exactlyOne),
}

func exactlyOne(n int64) bool { return n == 1 }

// matcher finds the best of Languages (RFC 4647, with CLDR's distances).
var matcher = func() language.Matcher {
	tags := make([]language.Tag, len(Languages))
	for i, l := range Languages {
		tags[i] = language.MustParse(l.Tag)
	}
	return language.NewMatcher(tags)
}()

// Choose is the language that is asked for: by its tag, or else by the lines of
// an Accept-Language header (RFC 9110 section 12.5.4).
func Choose(tag string, accept []string) (l *Language, byTag bool) {
	for _, l := range Languages {
		if l.Tag == tag {
			return l, true
		}
	}
	wanted, _, err := language.ParseAcceptLanguage(strings.Join(accept, ","))
	if err != nil || len(wanted) == 0 {
		return Languages[0], false
	}
	_, index, _ := matcher.Match(wanted...)
	return Languages[index], false
}

// catalogue is what a language says, by key: "pay.title". A text that depends on a
// number has a second one for the singular, under the same key and ".one".
type catalogue map[string]string

func newLanguage(tag, name string, one func(int64) bool) *Language {
	return &Language{Tag: tag, Name: name, one: one, load: sync.OnceValue(func() catalogue {
		data, err := files.ReadFile(tag + ".json")
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
		with[pairs[i].(string)] = pairs[i+1]
	}
	return l.text(key, with)
}

func (l *Language) text(key string, with offer.With) string {
	said, found := l.load()[key]
	if n, counted := whole(with["n"]); counted && l.one(n) {
		if one, has := l.load()[key+".one"]; has {
			said, found = one, true
		}
	}
	if !found {
		panic("text: no text " + key) // the tests render every page in every language
	}
	if !strings.Contains(said, "{") {
		return said
	}
	var out strings.Builder
	for {
		before, rest, open := strings.Cut(said, "{")
		out.WriteString(before)
		name, after, closed := strings.Cut(rest, "}")
		if !open || !closed {
			return out.String()
		}
		out.WriteString(l.value(with[name]))
		said = after
	}
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
	group := l.load()["language.group"]
	if len(integer) > 4 { // in no language is a year grouped, and in some no thousands are
		for i := len(integer) - 3; i > 0; i -= 3 {
			integer = integer[:i] + group + integer[i:]
		}
	}
	if hasFraction {
		integer += l.load()["language.decimal"] + fraction
	}
	if negative {
		return "-" + integer
	}
	return integer
}

// Date writes the day of a time, in UTC.
func (l *Language) Date(t time.Time) string {
	t = t.UTC()
	months := strings.Fields(l.load()["language.months"])
	return l.Text("language.date", "day", strconv.Itoa(t.Day()), "month", months[t.Month()-1], "year", strconv.Itoa(t.Year()))
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
