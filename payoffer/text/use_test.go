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

	"github.com/stretchr/testify/require"
)

// families are the keys that are put together where they are said, by what they
// begin with, and where their ends come from.
var families = map[string]string{
	"error.":             "the name of every problemKind",
	"fact.":              "the Label of every offer.Fact",
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

// TestEveryTextIsSaidSomewhereAndThereIsEveryTextThatIsSaid reads the sources for
// what stands there as a key: in templates and Go as a string, in a script as a
// member of the texts of its own name.
func TestEveryTextIsSaidSomewhereAndThereIsEveryTextThatIsSaid(t *testing.T) {
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
		require.NotEmpty(t, all[key], "%s says %s, which is in no catalogue", file, key)
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
