package text

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// name is what stands for a value in a text.
var name = regexp.MustCompile(`\{[^}]*\}`)

func TestEveryLanguageSaysEverything(t *testing.T) {
	want := Languages[0].load()
	for _, l := range Languages[1:] {
		got := l.load()
		for _, key := range slices.Sorted(maps.Keys(want)) {
			require.Contains(t, got, key, "%s.json lacks a text", l.Tag)
			names := func(text string) []string { return slices.Sorted(slices.Values(name.FindAllString(text, -1))) }
			require.Equal(t, names(want[key]), names(got[key]), "%s: %s", l.Tag, key)
			require.NotEmpty(t, got[key], "%s: %s", l.Tag, key)
		}
		for key := range got {
			require.Contains(t, want, key, "%s.json has a text that nobody says", l.Tag)
		}
	}
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	var tags, found []string
	for _, l := range Languages {
		tags = append(tags, l.Tag+".json")
	}
	for _, file := range files {
		if regexp.MustCompile(`\.json$`).MatchString(file.Name()) {
			found = append(found, file.Name())
		}
	}
	require.ElementsMatch(t, tags, found)
}

func TestTheLanguageIsTheOneThatIsAskedFor(t *testing.T) {
	for _, c := range []struct {
		tag, accept, want string
		byTag             bool
	}{
		{"", "", "en", false},
		{"de", "fr", "de", true},
		{"tlh", "fr-CA, en;q=0.5", "fr", false},
		{"", "es-419", "es", false},
		{"", "de-AT,en;q=0.9", "de", false},
		{"", "ja, de;q=0.1", "de", false},
		{"", "ja", "en", false},
		{"", "de;q=0, en", "en", false},
		{"", ";;;q=,", "en", false},
	} {
		l, byTag := Choose(c.tag, []string{c.accept})
		require.Equal(t, c.want, l.Tag, c)
		require.Equal(t, c.byTag, byTag, c)
	}
}

func TestNumbersAndDatesHaveTheLanguagesForm(t *testing.T) {
	at := time.Date(2026, 11, 1, 23, 5, 0, 0, time.FixedZone("", 3600))
	for tag, want := range map[string][]string{
		"en": {"1,234,567.50", "42", "-12,345", "1 November 2026, 22:05 UTC"},
		"de": {"1.234.567,50", "42", "-12.345", "1. November 2026, 22:05 UTC"},
		"fr": {"1\u202f234\u202f567,50", "42", "-12\u202f345", "1 novembre 2026, 22:05 UTC"},
		"es": {"1\u00a0234\u00a0567,50", "42", "-12\u00a0345", "1 de noviembre de 2026, 22:05 UTC"},
	} {
		l, _ := Choose(tag, nil)
		require.Equal(t, want, []string{l.Number("1234567.50"), l.Number("42"), l.Number("-12345"), l.Moment(at)}, tag)
		require.Equal(t, l.Number("42.50")+" USD", l.Say(offer.Phrase{Key: "fact.dollars", With: offer.With{"amount": offer.USD(42_50)}}))
	}
}
