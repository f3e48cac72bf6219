package text

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	strict "github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// name is what stands for a value in a text.
var name = regexp.MustCompile(`\{[^}]*\}`)

func TestLanguagesHaveAllTexts(t *testing.T) {
	want := Languages[0].load()
	for _, l := range Languages {
		got := l.load()
		for _, key := range slices.Sorted(maps.Keys(want)) {
			require.True(t, got[key] != "", "the text %s is missing in %s; add it to payoffer/text/%[2]s.json, or to rails.json if it begins with rail", key, l.Tag)
			names := func(text string) []string { return slices.Sorted(slices.Values(name.FindAllString(text, -1))) }
			require.Equal(t, names(want[key]), names(got[key]), "%s: %s", l.Tag, key)
			require.NotContains(t, name.ReplaceAllString(got[key], ""), "{", "%s: %s", l.Tag, key)
		}
		for key := range got {
			require.Contains(t, want, key, "nobody says this text in %s", l.Tag)
		}
	}
}

// The last of two texts with one key would replace the first.
func TestKeysAreUnique(t *testing.T) {
	names, err := files.ReadDir(".")
	require.NoError(t, err)
	for _, file := range names {
		data, err := files.ReadFile(file.Name())
		require.NoError(t, err)
		var texts map[string]any
		require.NoError(t, strict.Unmarshal(data, &texts), file.Name())
	}
}

func TestChooseLanguage(t *testing.T) {
	for _, c := range []struct {
		tag, accept, want string
		byTag             bool
	}{
		{"", "", "en", false},
		{"de", "fr", "de", true},
		{"tlh", "fr-CA, en;q=0.5", "fr", false},
		{"DE-at", "fr", "de", true},
		{strings.Repeat("de", 1<<16), "fr", "fr", false},
		{"", "de-AT,en;q=0.9", "de", false},
		{"", "ja, de;q=0.1", "de", false},
		{"", "de;q=0, en", "en", false},
		{"", "", "en", false},
		{"", "xx, x-pirate, i-klingon;q=0.9, \x00, de;q=0.1", "de", false},
		{"", "de;q=0.3,fr;q=0.7,es;q=0.5", "fr", false},
		{"", "de;q=0.5, *", "en", false},
		{"", "*;q=0, de;q=0.1", "de", false},
		{"", "de;q=NaN, fr;q=1e9, es;q=-1, en;q=Inf", "en", false},
		{"", strings.Repeat("xx,", 1<<18) + "de", "de", false},
	} {
		l, byTag := Choose(c.tag, []string{c.accept})
		require.Equal(t, c.want, l.Tag, "%.80v", c)
		require.Equal(t, c.byTag, byTag, "%.80v", c)
	}
	l, _ := Choose("", []string{"en;q=0.5", "de"})
	require.Equal(t, "de", l.Tag, "a header may stand on several lines")
	require.Zero(t, testing.AllocsPerRun(10, func() { Choose("", []string{"de-AT,de;q=0.9,en-US;q=0.8,en;q=0.7"}) }))
}

func TestNumberAndDateFormats(t *testing.T) {
	at := time.Date(2026, 11, 1, 23, 5, 0, 0, time.FixedZone("", 3600))
	for tag, want := range map[string][]string{
		"en": {"1,234,567.50", "42", "-12,345", "1,234", "0.00000001", "1 November 2026, 22:05 UTC", "31 March 2026"},
		"de": {"1.234.567,50", "42", "-12.345", "1.234", "0,00000001", "1. November 2026, 22:05 UTC", "31. März 2026"},
		"fr": {"1\u202f234\u202f567,50", "42", "-12\u202f345", "1\u202f234", "0,00000001", "1er novembre 2026 à 22:05 UTC", "31 mars 2026"},
		"es": {"1\u00a0234\u00a0567,50", "42", "-12\u00a0345", "1234", "0,00000001", "1 de noviembre de 2026, 22:05 UTC", "31 de marzo de 2026"},
	} {
		l, _ := Choose(tag, nil)
		require.Equal(t, want, []string{
			l.Number("1234567.50"), l.Number("42"), l.Number("-12345"), l.Number("1234"), l.Number("0.00000001"),
			l.Moment(at), l.Date(time.Date(2026, 3, 31, 0, 0, 0, 0, time.UTC)),
		}, tag)
		require.Equal(t, l.Number("42.50"), strings.Fields(l.Say(offer.Phrase{Key: "fact.dollars", With: offer.With{"amount": offer.USD(42_50)}}))[0])
		require.Len(t, strings.Fields(l.template("language.months")), 12, tag)
	}
}

// Texts have the apostrophes, quotation marks and spaces of print: in French no
// line breaks before a colon, and in Spanish a question begins as one.
func TestTextTypography(t *testing.T) {
	wrong := map[string]*regexp.Regexp{
		"de": regexp.MustCompile(`['"]|\.\.\.| - `),
		"fr": regexp.MustCompile(`['"]|\.\.\.| - | [:;?!»%]|[^\x{a0}]:(?:[^/]|$)|[^\x{202f}][;?!]|« |“|”`),
		"es": regexp.MustCompile(`['"]|\.\.\.| - |^[^¿]*\?|^[^¡]*!|“|”`),
	}
	for tag, form := range wrong {
		l, _ := Choose(tag, nil)
		for key, said := range l.load() {
			require.False(t, form.MatchString(regexp.MustCompile(`\S*\?\S+`).ReplaceAllString(said, "")), "%s: %s: %q", tag, key, said)
		}
	}
}

// spoken is a language of a test, which says these texts.
func spoken(tag string, one func(int64) bool, texts catalogue) *Language {
	return &Language{Tag: tag, Name: tag, isSingular: one, load: func() catalogue { return texts }}
}

func TestTextPlural(t *testing.T) {
	texts := catalogue{"n": "{n} payments", "n.one": "{n} payment", "same": "{n} paid", "language.ungrouped": "999", "language.group": ","}
	for tag, singular := range map[string][]int64{"en": {1}, "de": {1}, "fr": {0, 1}, "es": {1}} {
		l, _ := Choose(tag, nil)
		l = spoken(tag, l.isSingular, texts)
		for _, n := range []int64{0, 1, 2, 1_000_000} {
			want := l.Number(strconv.FormatInt(n, 10)) + " payments"
			if slices.Contains(singular, n) {
				want = strings.TrimSuffix(want, "s")
			}
			require.Equal(t, want, l.Text("n", "n", n), tag)
			require.Equal(t, want, l.Text("n", "n", int(n)), tag)
		}
		require.Equal(t, "1 paid", l.Text("same", "n", 1), "a text of one form")
	}
}

// What a payer or an operator wrote is put in as it is, and never read again.
func TestTextValuesAreInsertedOnce(t *testing.T) {
	l := spoken("tlh", exactlyOne, catalogue{"k": "{a}, {b}.", "in": "<{p}>"})
	require.Equal(t, "{b}, {a}.", l.Text("k", "a", "{b}", "b", "{a}"))
	require.Equal(t, "<{b}, .>", l.Text("in", "p", offer.Phrase{Key: "k", With: offer.With{"a": "{b}", "b": offer.Literal("")}}))
	require.Equal(t, "{a}, x.", l.Text("k", "b", "x"), "what is not given stands there for a test to find")
}

// A name and a description that the operator chose stay as they are.
func TestDefaultsAreInTheLanguage(t *testing.T) {
	o := offer.Offer{Terms: offer.Terms{Name: offer.DefaultName, Description: offer.DefaultDescription(42_00), Amount: 42_00}}
	for _, l := range Languages {
		got := l.Offer(o, 50_00)
		require.Equal(t, l.Tag == "en", got.Name == o.Name, l.Tag)
		require.Equal(t, l.Text("default.description", "amount", offer.USD(50_00)), got.Description, l.Tag)
		own := offer.Offer{Terms: offer.Terms{Name: "Tea", Description: "One fixed payment.", Amount: 42_00}}
		require.Equal(t, &own, l.Offer(own, 50_00), l.Tag)
		require.Equal(t, own.Description, l.Lead(&own), l.Tag)
		require.Empty(t, l.Lead(l.Offer(o, o.Amount)), "%s: it would repeat the price", l.Tag)
	}
	english := Languages[0].Offer(o, o.Amount)
	require.Equal(t, &o, english, "documents and pages in English agree")
	require.Equal(t, offer.DefaultName, o.Name, "the offer itself keeps its name")
}

func TestMissingTextFallsBack(t *testing.T) {
	l := spoken("tlh", exactlyOne, catalogue{"language.months": ""})
	require.Equal(t, "Amount", l.Text("fact.amount"), "the default language says it")
	require.Equal(t, "1 January 2026, 00:00 UTC", l.Moment(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
	require.Equal(t, "1,234.50", l.Number("1234.50"))
	require.Equal(t, "no.such", l.Text("no.such", "n", 1))
}

// families are the keys that are put together where they are said, by what they
// begin with, and where their ends come from.
var families = map[string]string{
	"error.":             "the name of every problemKind",
	"fact.":              "the Label of every offer.Fact",
	"gate.closed.":       "every gate.Reason",
	"receipt.basis.":     "every ledger.ValueBasis",
	"receipt.proof.":     "every ledger.EvidenceLevel, and the facilitator",
	"receipt.say.":       "what a receipt amounts to",
	"receipt.state.":     "what a receipt amounts to",
	"received.":          "the group of words for what a receipt tells",
	"received.ago.":      "the unit of time",
	"received.observed.": "the state of a rail",
	"received.tally.":    "the parts of a rail's money",
	"thanks.":            "what is known of the payment",
}

// aKey is the form of a key, or of the beginning of a family.
var aKey = regexp.MustCompile(`^([a-z]+)\.([A-Za-z0-9.]*)$`)

// rooms are those that say something to payers, beside the plugin's own.
var rooms = []string{"offer", "page", "site", "text", "web"}

// anAction is one of a template, and aString one within it.
var (
	anAction = regexp.MustCompile(`(?s)\{\{.*?\}\}`)
	aString  = regexp.MustCompile(`"([^"]*)"`)
)

// inScript is how a script says one of its texts.
var inScript = regexp.MustCompile(`\b(?:say\.|text\(")(\w+)`)

// aFile is what only looks like a key.
var aFile = regexp.MustCompile(`\.(html|css|js|json|svg)$`)

// TestTextKeysMatchSources reads the sources for
// what stands there as a key: in templates and Go as a string, in a script as a
// member of the texts of its own name.
func TestTextKeysMatchSources(t *testing.T) {
	all := Languages[0].load()
	groups := make(map[string]bool)
	for key := range all {
		group, _, _ := strings.Cut(key, ".")
		groups[group] = true
	}
	said, scripts := make(map[string]string), make(map[string]string)
	mention := func(file, literal string) {
		if found := aKey.FindStringSubmatch(literal); found != nil && groups[found[1]] && !aFile.MatchString(literal) {
			said[literal] = file
		}
	}
	require.NoError(t, filepath.WalkDir("..", func(file string, entry fs.DirEntry, err error) error {
		require.NoError(t, err)
		if entry.IsDir() && file != ".." && !slices.Contains(rooms, entry.Name()) {
			return fs.SkipDir
		}
		switch filepath.Ext(file) {
		case ".go":
			if !strings.HasSuffix(file, "_test.go") {
				literals(t, file, func(literal string) { mention(file, literal) })
			}
		case ".html":
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, action := range anAction.FindAllString(string(source), -1) {
				for _, literal := range aString.FindAllStringSubmatch(action, -1) {
					mention(file, literal[1])
				}
			}
		case ".js":
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			scripts[strings.TrimSuffix(entry.Name(), ".js")] = string(source)
		}
		return nil
	}))

	var given []string
	for key, file := range said {
		if strings.HasSuffix(key, ".") {
			require.Contains(t, families, key, "%s puts keys together; say in families where their ends come from", file)
			continue
		}
		isGroup := false // which a script is given whole
		for of := range all {
			isGroup = isGroup || strings.HasPrefix(of, key+".") && of != key+".one"
		}
		if isGroup {
			given = append(given, key+".")
			continue
		}
		require.NotEmpty(t, all[key], "%s says %s, which is in no catalogue; add it in every language to payoffer/text, in rails.json if it begins with rail", file, key)
	}
	for name, script := range scripts {
		for _, member := range inScript.FindAllStringSubmatch(script, -1) {
			known := slices.ContainsFunc(slices.Collect(maps.Keys(all)), func(key string) bool { return strings.HasSuffix("."+key, "."+name+"."+member[1]) })
			require.True(t, known, "%s.js says %s, which is in no catalogue", name, member[1])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		base := strings.TrimSuffix(key, ".one")
		group, member, _ := strings.Cut(base, ".")
		byScript := regexp.MustCompile(`(\.|["'` + "`" + `])` + regexp.QuoteMeta(member) + `\b`).MatchString(scripts[group])
		begins := func(with string) bool { return strings.HasPrefix(base, with) }
		byFamily := slices.ContainsFunc(given, begins) || slices.ContainsFunc(slices.Collect(maps.Keys(families)), func(family string) bool {
			return begins(family) && said[family] != ""
		})
		require.True(t, said[base] != "" || byScript || byFamily, "nobody says %s", key)
	}
}

// literals are the strings of a Go file that are written out.
func literals(t *testing.T, file string, found func(string)) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(t, err)
	ast.Inspect(parsed, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			text, err := strconv.Unquote(literal.Value)
			require.NoError(t, err)
			found(text)
		}
		return true
	})
}
