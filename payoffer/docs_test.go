package payoffer

import (
	"encoding/json"
	"fmt"
	"maps"
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

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/handbook"
)

// checks are the languages of the blocks in the documentation, and what holds a
// block of each to the truth.
var checks = map[string]string{
	"caddyfile": "TestDocsCaddyfilesAreValid",
	"console":   "caddy/e2e/docs runs every command and compares what it prints",
	"yaml":      "TestAlertRulesUseExistingMetrics",
	"json":      "TestDocsJSONIsValid",
	"nginx":     "caddy/e2e/docs has nginx read it",
	"mjs":       "caddy/e2e/docs runs the receivers of guides/notifications",
	"python":    "caddy/e2e/docs runs the receivers of guides/notifications and the books of guides/accounting, and compiles guides/agents",
	"go":        "caddy/e2e/docs adds the rail of developing/add-a-payment-method",
	"diff":      "caddy/e2e/docs adds the rail of developing/add-a-payment-method",
	"hledger":   "caddy/e2e/docs runs the books of guides/accounting",
	"markdown":  "TestDocsSnippetsLinkToServedPaths",
	"html":      "TestDocsSnippetsLinkToServedPaths",
	"js":        "caddy/e2e/docs runs the program of guides/agents",
	"mermaid":   "TestDocsStateDiagramsMatchLedger",
}

// unchecked are the blocks that nothing can run, by their first lines, and why.
var unchecked = map[string]string{
	"$42 received": "payoffer/announce compares messages of ntfy",
	"payoffer/            Caddy modules: app, handler, Caddyfile, options, metrics, admin routes": "the layout; TestPackagesHaveLayerAndComment compares it",
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

func TestDocsLinksResolve(t *testing.T) {
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

func TestDocsBlocksHaveChecks(t *testing.T) {
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

func TestDocsCaddyfilesAreValid(t *testing.T) {
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

// TestDocsJSONIsValid reads a block as one message or as one a line, and
// loads it if it is a configuration.
func TestDocsJSONIsValid(t *testing.T) {
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

// The diagram of receipts has every status of the code, and that of intents every step of the table.
func TestDocsStateDiagramsMatchLedger(t *testing.T) {
	var diagrams [][]string
	for _, b := range blocks(t, "mermaid") {
		if strings.HasPrefix(b.Text, "stateDiagram-v2\n") {
			diagrams = append(diagrams, regexp.MustCompile(`\S+ --> [^\s:]+`).FindAllString(b.Text, -1))
		}
	}
	require.Len(t, diagrams, 2)

	var known, drawn []string
	for _, status := range regexp.MustCompile(`Status += "([a-z]+)"`).FindAllStringSubmatch(readSource(t, "ledger/accounting/classification.go"), -1) {
		if status[1] != "settling" && status[1] != "claimed" { // of intents
			known = append(known, status[1])
		}
	}
	for _, edge := range diagrams[0] {
		from, to, _ := strings.Cut(edge, " --> ")
		drawn = append(drawn, from, to)
	}
	slices.Sort(drawn)
	drawn = slices.DeleteFunc(slices.Compact(drawn), func(state string) bool { return state == "[*]" })
	require.ElementsMatch(t, known, drawn)

	steps := make(map[string]bool)
	for _, cell := range accounting.Entries {
		steps["[*] --> "+string(cell.To)] = cell.To != accounting.StageNone
	}
	for from, row := range accounting.Steps {
		for _, to := range row {
			steps[string(from)+" --> "+string(to)] = from != to
		}
	}
	maps.DeleteFunc(steps, func(_ string, drawn bool) bool { return !drawn })
	require.ElementsMatch(t, slices.Collect(maps.Keys(steps)), diagrams[1])
}

// TestFullExampleSetsEveryOption looks for options that the JSON has and the first
// block of the page of the options does not set.
func TestFullExampleSetsEveryOption(t *testing.T) {
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
	require.NotEmpty(t, values, "the example does not set %s; add this option to the first block of payoffer/docs/reference/caddyfile.md", name)
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

func TestDocsNameEveryCommandAndMetric(t *testing.T) {
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
		{"reference/metrics", "ledger/accounting/machine.go", `(?m)^\tAnswer\w+ +Answer = "([a-z]+)"`},
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

func TestDocsErrorStatuses(t *testing.T) {
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

// TestDocsDiagnosticsQuoteRealMessages looks for every text that the page explains in the
// source of this module, or of Caddy and Go.
func TestDocsDiagnosticsQuoteRealMessages(t *testing.T) {
	others := []string{"module not registered", "unrecognized directive", "connection refused"}
	var code strings.Builder
	require.NoError(t, filepath.WalkDir(".", func(name string, _ os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			code.WriteString(readSource(t, name))
		}
		return err
	}))
	said := regexp.MustCompile(`"\s*\+\s*"`).ReplaceAllString(code.String(), "")
	text := page(t, "reference/diagnostics").Text + page(t, "guides/troubleshooting").Text
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*?) \\|").FindAllStringSubmatch(text, -1) {
		for _, text := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			if !slices.Contains(others, text[1]) && strings.Contains(text[1], " ") {
				assert.True(t, strings.Contains(said, text[1]), text[1])
			}
		}
	}
}

// TestDocsPagesNamedInCodeExist looks for pages in the code and in what is shipped with it.
func TestDocsPagesNamedInCodeExist(t *testing.T) {
	var pages []string
	for _, p := range documentation(t) {
		pages = append(pages, strings.TrimSuffix(strings.TrimPrefix(p.Name, "payoffer/docs/"), ".md"))
	}
	elsewhere := regexp.MustCompile(`https://github\.com/(?:x402-foundation|tempoxyz)/[^)\s]+`) // specifications
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
			for _, found := range named.FindAllString(elsewhere.ReplaceAllString(readSource(t, name), ""), -1) {
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
