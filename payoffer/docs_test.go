package payoffer

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/handbook"
)

// checks are the languages of the blocks in the documentation, and what holds a
// block of each to the truth.
var checks = map[string]string{
	"caddyfile": "TestTheExamplesOfTheDocumentationAreValid",
	"console":   "caddy/e2e/docs runs every command and compares what it prints",
	"yaml":      "TestAlertRulesAreAboutMetricsThatThereAre",
	"json":      "TestMessagesOfTheDocumentationAreJSON",
	"nginx":     "caddy/e2e/docs has nginx read it",
	"mjs":       "caddy/e2e/docs runs the receivers of guides/notifications",
	"python":    "caddy/e2e/docs runs the receivers of guides/notifications and the books of guides/accounting",
	"go":        "caddy/e2e/docs runs the receivers of guides/notifications",
	"hledger":   "caddy/e2e/docs runs the books of guides/accounting",
	"markdown":  "TestSnippetsOfTheDocumentationShowWhatIsServed",
	"html":      "TestSnippetsOfTheDocumentationShowWhatIsServed",
	"js":        "TestProgramsOfTheDocumentationAreThoseThatAreTested",
	"mermaid":   "TestStatesOfTheDocumentationAreThoseOfTheLedger",
}

// unchecked are the blocks that nothing can run, by their first lines, and why.
var unchecked = map[string]string{
	"$42 received": "payoffer/announce compares messages of ntfy",
	"payoffer/            Caddy modules: app, handler, Caddyfile, options, metrics, admin routes": "the layout; TestEveryRoomHasItsPlaceAndSaysWhatItIsFor compares it",
}

func documentation(t *testing.T) []handbook.Page {
	t.Helper()
	return must(handbook.Read(".."))(t)
}

// block is a block of the documentation and where it stands.
type block struct {
	handbook.Block
	at string
}

// blocks are those of the languages, of which there is one at least.
func blocks(t *testing.T, languages ...string) (found []block) {
	t.Helper()
	for _, p := range documentation(t) {
		for _, b := range p.Blocks {
			if slices.Contains(languages, b.Language) {
				found = append(found, block{b, fmt.Sprintf("%s:%d", p.Name, b.Line)})
			}
		}
	}
	require.NotEmpty(t, found, languages)
	return found
}

// page is one page of the documentation.
func page(t *testing.T, name string) handbook.Page {
	t.Helper()
	pages := documentation(t)
	i := slices.IndexFunc(pages, func(p handbook.Page) bool { return p.Name == "payoffer/docs/"+name+".md" })
	require.GreaterOrEqual(t, i, 0, "there is no page %s", name)
	return pages[i]
}

func TestLinksOfTheDocumentationLeadSomewhere(t *testing.T) {
	pages := documentation(t)
	for _, p := range pages {
		for _, link := range p.Links() {
			file, anchor, _ := strings.Cut(link, "#")
			_, err := os.Stat(filepath.Join("..", file))
			if !assert.NoError(t, err, "%s links to %s", p.Name, link) || anchor == "" {
				continue
			}
			i := slices.IndexFunc(pages, func(p handbook.Page) bool { return p.Name == file })
			if assert.GreaterOrEqual(t, i, 0, "%s links to %s", p.Name, link) {
				assert.Contains(t, pages[i].Anchors(), anchor, "%s links to %s", p.Name, link)
			}
		}
	}
}

func TestEveryBlockOfTheDocumentationIsChecked(t *testing.T) {
	used := map[string]bool{}
	for _, p := range documentation(t) {
		for _, block := range p.Blocks {
			if checks[block.Language] != "" {
				continue
			}
			first, _, _ := strings.Cut(block.Text, "\n")
			assert.NotEmpty(t, unchecked[first], "%s:%d: nothing checks this block of the language %q", p.Name, block.Line, block.Language)
			used[first] = true
		}
	}
	for first := range unchecked {
		assert.True(t, used[first], "no page has the block %q any more", first)
	}
}

func TestTheExamplesOfTheDocumentationAreValid(t *testing.T) {
	t.Setenv("LEDGER_DSN", "postgres://caddy@db.example.org/offers?sslmode=verify-full")
	for _, b := range blocks(t, "caddyfile") {
		for _, placeholder := range regexp.MustCompile(`YOUR_\w+`).FindAllString(b.Text, -1) {
			require.Error(t, errorOf(offer.ParseEVMAddress(placeholder)), placeholder)
			require.Error(t, errorOf(offer.NewBitcoin(placeholder, "", 0)), placeholder)
		}
		config, warnings, err := adaptAny(payoffertest.FillIn(b.Text))
		require.NoError(t, err, b.at)
		require.Empty(t, warnings, "%s: write it as 'caddy fmt' does", b.at)
		require.NoError(t, caddy.Validate(decode(t, config)), b.at)
	}
}

// TestMessagesOfTheDocumentationAreJSON reads a block as one message or as one a line, and
// loads it if it is a configuration.
func TestMessagesOfTheDocumentationAreJSON(t *testing.T) {
	for _, b := range blocks(t, "json") {
		switch {
		case strings.Contains(b.Text, `"apps"`):
			require.NoError(t, caddy.Validate(decode(t, payoffertest.FillIn(b.Text))), b.at)
		case !json.Valid([]byte(b.Text)):
			for line := range strings.Lines(b.Text) {
				require.True(t, json.Valid([]byte(line)), b.at)
			}
		}
	}
}

// TestStatesOfTheDocumentationAreThoseOfTheLedger compares the state diagrams with the states in the code.
func TestStatesOfTheDocumentationAreThoseOfTheLedger(t *testing.T) {
	states := regexp.MustCompile(`(?:Status|IntentState) += "([a-z]+)"`)
	var known, drawn []string
	for _, file := range []string{"ledger/accounting/classification.go", "ledger/intent.go"} {
		for _, state := range states.FindAllStringSubmatch(readSource(t, file), -1) {
			known = append(known, state[1])
		}
	}
	for _, b := range blocks(t, "mermaid") {
		if !strings.HasPrefix(b.Text, "stateDiagram-v2\n") {
			continue
		}
		for _, edge := range regexp.MustCompile(`(?m)^ *(\S+) --> ([^\s:]+)`).FindAllStringSubmatch(b.Text, -1) {
			drawn = append(drawn, edge[1], edge[2])
		}
	}
	drawn = slices.DeleteFunc(drawn, func(state string) bool { return state == "[*]" })
	for _, state := range known {
		assert.Contains(t, drawn, state)
	}
	require.Subset(t, known, drawn)
}

// TestProgramsOfTheDocumentationAreThoseThatAreTested looks for every name in them
// in the programs of caddy/e2e/node, which are run against the built server.
func TestProgramsOfTheDocumentationAreThoseThatAreTested(t *testing.T) {
	own := []string{"https", "example", "sponsor", "version", "viem"} // of the address and the comments
	files := must(filepath.Glob("../caddy/e2e/node/*.mjs"))(t)
	word := regexp.MustCompile(`[A-Za-z_]\w{3,}|@?[a-z0-9]+-[a-z0-9-]+`)
	used := own
	for _, file := range files {
		used = append(used, word.FindAllString(readSource(t, file), -1)...)
	}
	for _, b := range blocks(t, "js") {
		for _, name := range word.FindAllString(b.Text, -1) {
			assert.Contains(t, used, name, b.at)
		}
	}
}

// TestTheWholeExampleHasEveryOption looks for options that the JSON has and the first
// block of the page of the options does not set.
func TestTheWholeExampleHasEveryOption(t *testing.T) {
	config, _, err := adaptAny(wholeExample(t))
	require.NoError(t, err)
	handlers := handlersOf(t, config)
	require.Len(t, handlers, 1)
	requireSet(t, "pay_offer", reflect.ValueOf(handlers[0]))
}

// handlersOf are the offers of a configuration.
func handlersOf(t *testing.T, config string) (handlers []*Handler) {
	t.Helper()
	var look func(node any)
	look = func(node any) {
		switch node := node.(type) {
		case []any:
			for _, below := range node {
				look(below)
			}
		case map[string]any:
			if node["handler"] == "pay_offer" {
				encoded := must(json.Marshal(node))(t)
				handlers = append(handlers, new(Handler))
				require.NoError(t, json.Unmarshal(encoded, handlers[len(handlers)-1]))
				return
			}
			for _, below := range node {
				look(below)
			}
		}
	}
	var tree any
	require.NoError(t, json.Unmarshal([]byte(config), &tree))
	look(tree)
	return handlers
}

// requireSet requires a value for everything that a configuration can set, in one
// of these at least.
func requireSet(t *testing.T, name string, values ...reflect.Value) {
	t.Helper()
	values = slices.DeleteFunc(values, reflect.Value.IsZero)
	require.NotEmpty(t, values, "the example does not set %s", name)
	below := func(in func(v reflect.Value) []reflect.Value) (all []reflect.Value) {
		for _, v := range values {
			all = append(all, in(v)...)
		}
		return all
	}
	switch kind := values[0].Type(); {
	case kind.Kind() == reflect.Pointer:
		requireSet(t, name, below(func(v reflect.Value) []reflect.Value { return []reflect.Value{v.Elem()} })...)
	case kind.Kind() == reflect.Slice && kind.Elem().Kind() == reflect.Pointer:
		requireSet(t, name, below(func(v reflect.Value) (elements []reflect.Value) {
			for _, element := range v.Seq2() {
				elements = append(elements, element)
			}
			return elements
		})...)
	case kind.Kind() == reflect.Struct:
		for _, field := range reflect.VisibleFields(kind) {
			if field.IsExported() {
				same := below(func(v reflect.Value) []reflect.Value { return []reflect.Value{v.FieldByIndex(field.Index)} })
				requireSet(t, name+" "+field.Name, same...)
			}
		}
	}
}

func TestPagesNameEverythingThatThereIs(t *testing.T) {
	all := map[string][]string{}
	for _, c := range payOfferCommand(t).Commands() {
		all["reference/cli"] = append(all["reference/cli"], "caddy pay-offer "+c.Name())
		for _, below := range c.Commands() {
			all["reference/cli"] = append(all["reference/cli"], below.Name())
		}
	}
	for name := range metricLabels() {
		all["reference/metrics"] = append(all["reference/metrics"], strings.TrimPrefix(name, "caddy_pay_offer_"))
	}
	for _, verdict := range verdicts {
		all["reference/metrics"] = append(all["reference/metrics"], string(verdict))
	}
	for _, written := range []struct{ page, file, form string }{
		{"reference/http-api", "offer/paths.go", `(?m)^\tPath\w+ += "([^"]+)"`},
		{"reference/http-api", "web/problem.go", `newKind\(http\.Status\w+, "([a-z-]+)"\)`},
		{"guides/docker", "../caddy/package/Caddyfile", `\{(?:\$|env\.)([A-Z_]+)`},
		{"reference/diagnostics", "observe/observe.go", `(?m)^\tErr\w+ += "([a-z_]+)"`},
		{"reference/diagnostics", "observe/source/error.go", `(?m)^\t[A-Z]\w+ += "([a-z_]+)"`},
		{"reference/cli", "admin.go", `[A-Z]+ (/pay_offer/\w+)`},
		{"reference/metrics", "x402/outcome.go", `(?m)^\t[A-Z]\w+ Status = "([a-z]+)"`},
		{"guides/x402-and-usdc", "offer/network.go", `(?m)^\t\{\d+, "([a-z-]+)"`},
	} {
		found := regexp.MustCompile(written.form).FindAllStringSubmatch(readSource(t, written.file), -1)
		require.Greater(t, len(found), 3, written.file)
		for _, name := range found {
			all[written.page] = append(all[written.page], name[1])
		}
	}
	for at, names := range all {
		text := page(t, at).Text
		for _, name := range names {
			assert.Regexp(t, `[^A-Za-z0-9_/-]`+regexp.QuoteMeta(name)+`[^A-Za-z0-9_-]`, text, "%s has no %s", at, name)
		}
	}
}

func TestErrorsHaveTheStatusThatTheirPageSays(t *testing.T) {
	statuses := map[string]string{} // without spaces, as Go calls them
	for _, kind := range regexp.MustCompile(`newKind\(http\.Status(\w+), "([a-z-]+)"\)`).FindAllStringSubmatch(readSource(t, "web/problem.go"), -1) {
		statuses[kind[2]] = kind[1]
	}
	told := 0
	for _, row := range regexp.MustCompile("(?m)^\\| (4..|5..) \\| (`[^|]+) \\|").FindAllStringSubmatch(page(t, "reference/http-api").Text, -1) {
		code := must(strconv.Atoi(row[1]))(t)
		for _, name := range regexp.MustCompile("[a-z-]+").FindAllString(row[2], -1) {
			assert.Equal(t, strings.ReplaceAll(http.StatusText(code), " ", ""), statuses[name], name)
			told++
		}
	}
	require.Equal(t, len(statuses), told)
}

// TestDiagnosticsQuoteWhatIsSaid looks for every text that the page explains in the
// source of this module, or of Caddy and Go.
func TestDiagnosticsQuoteWhatIsSaid(t *testing.T) {
	others := []string{"module not registered", "unrecognized directive", "connection refused"}
	var code strings.Builder
	require.NoError(t, filepath.WalkDir(".", func(name string, _ os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			code.WriteString(readSource(t, name))
		}
		return err
	}))
	said := regexp.MustCompile(`"\s*\+\s*"`).ReplaceAllString(code.String(), "")
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*?) \\|").FindAllStringSubmatch(page(t, "reference/diagnostics").Text, -1) {
		for _, text := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			if !slices.Contains(others, text[1]) && strings.Contains(text[1], " ") {
				assert.True(t, strings.Contains(said, text[1]), text[1])
			}
		}
	}
}

// TestPagesThatTheProgramNamesExist looks for pages in the code and in what is shipped with it.
func TestPagesThatTheProgramNamesExist(t *testing.T) {
	var pages []string
	for _, p := range documentation(t) {
		pages = append(pages, strings.TrimSuffix(strings.TrimPrefix(p.Name, "payoffer/docs/"), ".md"))
	}
	named := regexp.MustCompile(`\b(?:guides|concepts|reference|developing)/[a-z0-9-]+|[a-z0-9/-]+\.md\b`)
	for _, root := range []string{".", "../caddy/package", "../caddy/demo", "../caddy/main.go", "../Caddyfile"} {
		require.NoError(t, filepath.WalkDir(root, func(name string, entry os.DirEntry, err error) error {
			switch {
			case err != nil || strings.HasSuffix(name, "_test.go"):
				return err
			case entry.IsDir() && slices.Contains([]string{"docs", "testdata", "payoffertest"}, entry.Name()):
				return filepath.SkipDir
			case entry.IsDir():
				return nil
			}
			for _, found := range named.FindAllString(readSource(t, name), -1) {
				_, page, below := strings.Cut(found, "docs/")
				if !below {
					page = found
				}
				assert.True(t, slices.Contains(pages, strings.TrimSuffix(page, ".md")), "%s names %s", name, found)
			}
			return nil
		}))
	}
}

func readSource(t *testing.T, name string) string {
	t.Helper()
	text := must(os.ReadFile(name))(t)
	return string(text)
}

// payOfferCommand is 'caddy pay-offer' with what stands below it.
func payOfferCommand(t *testing.T) *cobra.Command {
	t.Helper()
	command := &cobra.Command{Use: "pay-offer"}
	registered, found := caddycmd.Commands()["pay-offer"]
	require.True(t, found)
	registered.CobraFunc(command)
	return command
}
