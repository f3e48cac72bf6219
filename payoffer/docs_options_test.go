package payoffer

import (
	commandline "flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/handbook"
)

var update = commandline.Bool("update", false, "write the options into their page, and the errors of Caddyfiles")

// generated is the line of the page below which a test writes the options.
const generated = "<!-- Everything below is generated: go test ./payoffer -run OptionReference -update -->\n"

// usages are the usages of the options that have arguments of their own, by their names.
func usages(t *testing.T) map[string]string {
	t.Helper()
	found := make(map[string]string)
	for _, usage := range regexp.MustCompile(`(?:arguments\(d, |unmarshal\(d, |&form\{)"([a-z_]+) ([^"]*)"`).FindAllStringSubmatch(readSources(t), -1) {
		form, _, advice := strings.Cut(usage[2], ">, ") // an example for errors
		if advice {
			form += ">"
		}
		found[usage[1]] = strings.ReplaceAll(form, "...", "…")
	}
	return found
}

// optionName is what a comment names as the Caddyfile does.
var optionName = regexp.MustCompile(`\b[a-z]+_[a-z_]+(?:\.[a-z]+)?\b`)

// A chapter is the options of one block.
type chapter struct {
	name    string
	of      reflect.Type
	options options
	form    bool // the list of no other block shows how it is written
}

// chapters are an offer and the blocks in it, each before the blocks that it contains, and the other directives.
func chapters() []chapter {
	return append(chaptersIn("pay_offer", reflect.TypeFor[Handler](), true),
		chapter{"ledger", reflect.TypeFor[LedgerConfig](), options{}, true},
		chapter{"pay_offer_gate", reflect.TypeFor[Gate](), new(Gate).options(), true})
}

func chaptersIn(name string, config reflect.Type, form bool) []chapter {
	c := chapter{name, config, options{"secret": new(lines)}, form} // as announce has
	if block, ok := reflect.New(config).Interface().(interface{ options() options }); ok {
		c.options = block.options()
	} else if config == reflect.TypeFor[RateLimitConfig]() {
		return nil // one line
	}
	all := []chapter{c}
	for field := range config.Fields() {
		if block, ok := blockOf(field); ok {
			json, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			below, known := c.option(json)
			if !known {
				below = name + " " + json
			}
			all = append(all, chaptersIn(below, block, false)...)
		}
	}
	return all
}

// TestOptionReferenceMatchesTypes generates the lists of the page; -update writes them.
func TestOptionReferenceMatchesTypes(t *testing.T) {
	docs := must(handbook.Fields("."))(t)
	forms := usages(t)
	const file = "docs/reference/caddyfile.md"
	head, _, found := strings.Cut(readSource(t, file), generated)
	require.True(t, found, "%s has no line %s", file, generated)
	var page strings.Builder
	page.WriteString(head + generated)
	for _, c := range chapters() {
		c.write(t, &page, docs, forms)
	}
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(page.String()), 0o644))
	}
	require.Equal(t, readSource(t, file), page.String(), "run 'go test ./payoffer -run OptionReference -update'")
}

func (c chapter) write(t *testing.T, page *strings.Builder, docs, forms map[string]string) {
	name := strings.Fields(c.name)
	form := forms[name[0]]
	if len(name) > 1 {
		form = "<address> { … }"
	}
	fmt.Fprintf(page, "\n## %s\n\n", c.name)
	if c.form {
		fmt.Fprintf(page, "`%s %s`\n\n", c.name, form)
	}
	for field := range c.of.Fields() {
		if !field.IsExported() {
			continue
		}
		json, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		option, known := c.option(json)
		first := "`<" + json + ">`" // an argument
		switch {
		case known:
			first = "`" + option + " " + usage(c.options[option], forms[option]) + "`"
			if repeats(c.options[option]) {
				first += " (repeatable)"
			}
		case field.Type.Kind() == reflect.Pointer:
			first = "`" + c.name + " " + json + " …`"
		case !strings.Contains(form, "<"+json+">") && json != "url" && json != "to":
			first = "`" + json + "` (JSON only)"
		}
		if field.Type == reflect.TypeFor[secret]() {
			first += " (secret)"
		}
		doc := docs[c.of.Name()+"."+field.Name]
		require.NotEmpty(t, doc, "%s.%s has no documentation; write a comment above the field", c.of.Name(), field.Name)
		doc = strings.TrimSuffix(doc, " Default: none.") // the page says so once
		fmt.Fprintf(page, "- %s: %s\n", first, optionName.ReplaceAllString(strings.ReplaceAll(doc, "<", `\<`), "`$0`"))
	}
}

// option is the option that sets what the JSON calls name.
func (c chapter) option(name string) (option string, known bool) {
	for _, option := range []string{name, strings.TrimSuffix(name, "s")} {
		if _, known := c.options[option]; known {
			return option, true
		}
	}
	return "", false
}

// usage is what stands behind an option's name.
func usage(field any, own string) string {
	switch field.(type) {
	case *[]string:
		return "<value>…"
	case *bool:
		return "[on|off]"
	case *int, *uint64:
		return "<number>"
	case *caddy.Duration:
		return "<duration>"
	case *string, *secret, *lines:
		return "<value>"
	}
	return own
}
