// Package text has the texts of the pages in every language: one JSON file a language, and
// rails.json with the texts of each rail in all languages. They are loaded at first use.
//
// To add a language, copy en.json under the language's tag, translate the values, add the
// language to rails.json, and add a line to Languages below. A {name} is replaced by a value. A text with {n} may have a
// second one for the singular, under the same key and ".one". Use the polite form and
// typographic apostrophes, quotation marks and spaces. "go test ./payoffer/..." reports
// texts that are missing or unused, and pages that are too large.
package text

import (
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
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
	Tag  string // BCP 47, such as "de"
	Name string // in the language itself
	// isSingular reports whether a number takes the singular (CLDR plural rules).
	isSingular func(n int64) bool
	load       func() catalogue
}

// Languages are all languages. The first is the default.
var Languages = []*Language{
	newLanguage("en", "English", exactlyOne),
	newLanguage("de", "Deutsch", exactlyOne),
	newLanguage("fr", "Français", func(n int64) bool { return n == 0 || n == 1 }),
	newLanguage("es", "Español", exactlyOne),
}

func exactlyOne(n int64) bool { return n == 1 }

// Choose is the requested language: that of a tag, or of the lines of an Accept-Language
// header (RFC 9110 section 12.5.4). Only the first subtag matters (RFC 4647 section 3.4).
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

// find is the language of a tag in any case and for any region, or nil.
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

// catalogue is the texts of a language, by key, such as "pay.title".
type catalogue map[string]string

func newLanguage(tag, name string, one func(int64) bool) *Language {
	return &Language{Tag: tag, Name: name, isSingular: one, load: sync.OnceValue(func() catalogue {
		all := read(tag + ".json")
		for key, text := range read("rails.json") {
			if rail, name, found := strings.Cut(key, "."+tag+"."); found {
				all[rail+"."+name] = text
			}
		}
		return all
	})}
}

// read reads an embedded file.
func read(file string) catalogue {
	data, err := files.ReadFile(file)
	var groups map[string]any
	if err = cmp.Or(err, json.Unmarshal(data, &groups)); err != nil {
		panic(fmt.Sprintf("text: %s: %v", file, err)) // tests read every file
	}
	all := make(catalogue)
	all.add("", groups)
	return all
}

// add adds texts in groups; the keys begin with prefix.
func (c catalogue) add(prefix string, groups map[string]any) {
	for name, value := range groups {
		if text, found := value.(string); found {
			c[prefix+name] = text
		} else {
			c.add(prefix+name+".", value.(map[string]any))
		}
	}
}

// Offer is an offer as pages show it: the default name and the default description, which
// is that at a price, are in the language.
func (l *Language) Offer(o offer.Offer, price offer.USD) *offer.Offer {
	if o.Description == offer.DefaultDescription(o.Amount) {
		o.Description = l.Text("default.description", "amount", price)
	}
	if o.Name == offer.DefaultName {
		o.Name = l.Text("default.name")
	}
	return &o
}

// Lead is the description of an offer under its price, empty for the default one, which only repeats the price.
func (l *Language) Lead(o *offer.Offer) string {
	if o.Description == l.Text("default.description", "amount", o.Amount) {
		return ""
	}
	return o.Description
}

// Say is a phrase in the language.
func (l *Language) Say(p offer.Phrase) string {
	if p.Key == "" {
		return p.Text
	}
	return l.text(p.Key, p.With)
}

// Text is the text of a key with its values, given as pairs of name and value. The value of
// "n" chooses between singular and plural.
func (l *Language) Text(key string, pairs ...any) string {
	with := make(offer.With, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		with[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return l.text(key, with)
}

func (l *Language) text(key string, with offer.With) string {
	template := l.template(key)
	if n, counted := integer(with["n"]); counted && l.isSingular(n) {
		template = cmp.Or(l.load()[key+".one"], template)
	}
	var out strings.Builder
	for {
		before, rest, _ := strings.Cut(template, "{")
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
		template = after
	}
}

// template is the text of a key without its values. A missing text, which tests report, is
// replaced by that of the default language, or by its key.
func (l *Language) template(key string) string {
	if template := l.load()[key]; template != "" {
		return template
	}
	if l != Languages[0] {
		return Languages[0].template(key)
	}
	return key
}

// value formats a value.
func (l *Language) value(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case offer.Phrase:
		return l.Say(v)
	case offer.USD:
		return l.Number(v.String())
	case offer.Decimal:
		return l.Number(string(v))
	case offer.EUR:
		return l.Number(v.String())
	}
	if n, ok := integer(v); ok {
		return l.Number(strconv.FormatInt(n, 10))
	}
	return fmt.Sprint(v)
}

// integer is the value of an int or int64.
func integer(v any) (int64, bool) {
	switch v := v.(type) {
	case int:
		return int64(v), true
	case int64:
		return v, true
	}
	return 0, false
}

// Number formats a decimal number such as "-1234.50".
func (l *Language) Number(decimal string) string {
	digits, negative := strings.CutPrefix(decimal, "-")
	integer, fraction, hasFraction := strings.Cut(digits, ".")
	if len(integer) > len(l.template("language.ungrouped")) {
		for i := len(integer) - 3; i > 0; i -= 3 {
			integer = integer[:i] + l.template("language.group") + integer[i:]
		}
	}
	if hasFraction {
		integer += l.template("language.decimal") + fraction
	}
	if negative {
		return "-" + integer
	}
	return integer
}

// Date formats the day of a time in UTC.
func (l *Language) Date(t time.Time) string {
	t = t.UTC()
	day := strconv.Itoa(t.Day())
	if t.Day() == 1 {
		day = l.template("language.first")
	}
	months := strings.Fields(l.template("language.months"))
	return l.Text("language.date", "day", day, "month", months[t.Month()-1], "year", strconv.Itoa(t.Year()))
}

// Moment formats a time in UTC, with minutes.
func (l *Language) Moment(t time.Time) string {
	return l.Text("language.moment", "date", l.Date(t), "time", t.UTC().Format("15:04 UTC"))
}

// Group is the texts of a script: those whose key begins with name and a dot, without it.
func (l *Language) Group(name string) map[string]string {
	group := make(map[string]string)
	for key, text := range l.load() {
		if rest, found := strings.CutPrefix(key, name+"."); found {
			group[rest] = text
		}
	}
	return group
}
