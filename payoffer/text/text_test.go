package text

import (
	"maps"
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

func TestEveryLanguageSaysEverything(t *testing.T) {
	want := Languages[0].load()
	for _, l := range Languages {
		got := l.load()
		for _, key := range slices.Sorted(maps.Keys(want)) {
			require.Contains(t, got, key, "a text is missing in %s", l.Tag)
			names := func(text string) []string { return slices.Sorted(slices.Values(name.FindAllString(text, -1))) }
			require.Equal(t, names(want[key]), names(got[key]), "%s: %s", l.Tag, key)
			require.NotEmpty(t, got[key], "%s: %s", l.Tag, key)
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

func TestTheLanguageIsTheOneThatIsAskedFor(t *testing.T) {
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

func TestNumbersAndDatesHaveTheLanguagesForm(t *testing.T) {
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
func TestTextsAreWrittenAsInPrint(t *testing.T) {
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
	return &Language{Tag: tag, Name: tag, one: one, load: func() catalogue { return texts }}
}

func TestANumberChoosesBetweenSingularAndPlural(t *testing.T) {
	texts := catalogue{"n": "{n} payments", "n.one": "{n} payment", "same": "{n} paid", "language.ungrouped": "999", "language.group": ","}
	for tag, singular := range map[string][]int64{"en": {1}, "de": {1}, "fr": {0, 1}, "es": {1}} {
		l, _ := Choose(tag, nil)
		l = spoken(tag, l.one, texts)
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
func TestAValueIsPutInOnceAndAsItIs(t *testing.T) {
	l := spoken("tlh", exactlyOne, catalogue{"k": "{a}, {b}.", "in": "<{p}>"})
	require.Equal(t, "{b}, {a}.", l.Text("k", "a", "{b}", "b", "{a}"))
	require.Equal(t, "<{b}, .>", l.Text("in", "p", offer.Phrase{Key: "k", With: offer.With{"a": "{b}", "b": offer.Literal("")}}))
	require.Equal(t, "{a}, x.", l.Text("k", "b", "x"), "what is not given stands there for a test to find")
}

func TestAMissingTextTakesNoPageDown(t *testing.T) {
	l := spoken("tlh", exactlyOne, catalogue{"language.months": ""})
	require.Equal(t, "Amount", l.Text("fact.amount"), "the default language says it")
	require.Equal(t, "1 January 2026, 00:00 UTC", l.Moment(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
	require.Equal(t, "1,234.50", l.Number("1234.50"))
	require.Equal(t, "no.such", l.Text("no.such", "n", 1))
}
