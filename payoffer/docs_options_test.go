package payoffer

import (
	commandline "flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/handbook"
)

var update = commandline.Bool("update", false, "write the page of the options anew")

// optionsHead stands above the options.
const optionsHead = `# Options

Every option of the Caddyfile and what it does. This page is made of the documentation of the Go types
that hold the options, and a test compares the two. [One example with every option](example.md) shows
where each stands.

- Every string takes ` + "`{env.NAME}` and `{file./path}`" + `, which are resolved when the configuration is loaded. Write secrets so.
- A secret whose variable is not set switches its feature off, with a warning that names it. An empty address leaves its rail out.
- What looks like a secret is refused in every option but its own; whoever pasted what opens a wallet is told to move the money. No error and no log repeats it.
- Texts hold nothing that nobody sees: no line breaks, zero-width characters or marks of direction. Joiners in the spelling of a script or of an emoji may stand.
- Mistakes are refused when the configuration is loaded, with file, line and what to do.
- The JSON configuration has the same options under ` + "`http.handlers.pay_offer` and the app `pay_offer`" + `. What may be repeated
  is a list there with a plural name.
- A reload interrupts nothing: payments under way go on, and a configuration that is refused leaves the former one whole.
`

// arguments are what stands behind an option's name, as errors show it, where that is not
// one value.
func arguments(name string) string {
	return strings.TrimSpace(strings.Replace(strings.TrimPrefix(forms[name], name), "{ ... }", "{ … }", 1))
}

// optionName is what a comment names as the Caddyfile does.
var optionName = regexp.MustCompile(`\b[a-z]+_[a-z_]+(?:\.[a-z]+)?\b`)

// A chapter is the options of one block.
type chapter struct {
	name, under string
	of          any
	options     block
}

func chapters() []chapter {
	return []chapter{
		{"pay_offer", "", Handler{}, new(Handler).options()},
		{"card", "pay_offer", CardConfig{}, new(CardConfig).options()},
		{"usdc", "pay_offer", USDCConfig{}, new(USDCConfig).options()},
		{"facilitator", "usdc", FacilitatorConfig{}, new(FacilitatorConfig).options()},
		{"bitcoin", "pay_offer", BitcoinConfig{}, new(BitcoinConfig).options()},
		{"bank_transfer", "pay_offer", BankTransferConfig{}, new(BankTransferConfig).options()},
		{"storefront", "pay_offer", StorefrontConfig{}, new(StorefrontConfig).options()},
		{"announce", "pay_offer", AnnounceConfig{}, new(AnnounceConfig).options()},
		{"announce ntfy", "pay_offer", NtfyConfig{}, new(NtfyConfig).options()},
		{"announce email", "pay_offer", EmailConfig{}, new(EmailConfig).options()},
		{"ledger", "the global option pay_offer", LedgerConfig{}, nil},
	}
}

// TestThePageOfTheOptionsSaysWhatTheirTypesSay makes the page anew; with -update
// it is written.
func TestThePageOfTheOptionsSaysWhatTheirTypesSay(t *testing.T) {
	docs, err := handbook.Fields(".")
	require.NoError(t, err)
	unused := make(map[string]bool)
	for name := range forms {
		unused[name] = true
	}
	var page strings.Builder
	page.WriteString(optionsHead)
	named := map[string]bool{}
	for _, c := range chapters() {
		named[c.name] = true
		c.write(t, &page, docs, unused)
	}
	for name := range new(Handler).options() {
		if kind := fieldOf(t, Handler{}, name).Type; kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice && kind.Elem().Kind() == reflect.Pointer {
			require.True(t, named[name] || name == "rate_limit", "the page has no chapter about %s", name)
		}
	}
	require.Equal(t, map[string]bool{"pay_offer": true, globalOption: true, "ledger": true}, unused, "what is no option of a block")
	const file = "docs/options.md"
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(page.String()), 0o644))
	}
	require.Equal(t, readSource(t, file), page.String(), "run 'go test ./payoffer -run PageOfTheOptions -update'")
}

func (c chapter) write(t *testing.T, page *strings.Builder, docs map[string]string, unused map[string]bool) {
	form := arguments(c.name)
	if c.under == "pay_offer" || c.under == "usdc" {
		delete(unused, c.name)
	}
	fmt.Fprintf(page, "\n## %s\n\n", c.name)
	switch {
	case c.options == nil:
		page.WriteString("A global option: it stands in a block `pay_offer` of the Caddyfile's first block. `ledger sqlite [<path>]` or `ledger postgres <dsn>`.\n\n")
	case c.under == "":
		page.WriteString("The directive, `pay_offer [<matcher>] { … }`.\n\n")
	default:
		fmt.Fprintf(page, "Stands in `%s`: `%s %s`.", c.under, c.name, form)
		if slices.Contains([]string{"usdc", "storefront", "announce", "announce ntfy", "announce email", "facilitator"}, c.name) {
			page.WriteString(" May be repeated.")
		}
		page.WriteString("\n\n")
	}
	page.WriteString("| Option | Meaning |\n|---|---|\n")
	kind := reflect.TypeOf(c.of)
	for i := range kind.NumField() {
		field := kind.Field(i)
		if !field.IsExported() {
			continue
		}
		json, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		name, known := c.option(json)
		first := "`<" + json + ">`" // an argument
		switch {
		case known:
			first = "`" + strings.TrimSpace(name+" "+c.form(name, field.Type, unused)) + "`"
			first = strings.ReplaceAll(first, "|", `\|`)
			if c.options[name].repeats && json != "facilitators" {
				first += " (repeatable)"
			}
		case field.Type.Kind() == reflect.Pointer:
			first = "`" + c.name + " " + json + " …`"
		case c.options != nil && !strings.Contains(form+c.forms(), "<"+json+">"):
			first = "`" + json + "` of the JSON"
		}
		doc := docs[kind.Name()+"."+field.Name]
		require.NotEmpty(t, doc, "%s.%s has no documentation", kind.Name(), field.Name)
		fmt.Fprintf(page, "| %s | %s |\n", first, optionName.ReplaceAllString(strings.ReplaceAll(doc, "|", `\|`), "`$0`"))
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

// forms are those of the chapter's options.
func (c chapter) forms() (all string) {
	for name := range c.options {
		all += arguments(name)
	}
	return all
}

// form is what stands behind an option's name: what the table says, or what follows
// from its type.
func (c chapter) form(name string, kind reflect.Type, unused map[string]bool) string {
	if delete(unused, name); forms[name] != "" {
		return arguments(name)
	}
	switch {
	case kind == reflect.TypeFor[span]():
		return "<duration>"
	case kind.Kind() == reflect.String:
		return "<value>"
	case kind.Kind() == reflect.Int, kind.Kind() == reflect.Uint64:
		return "<number>"
	}
	return "…"
}

func fieldOf(t *testing.T, of any, option string) reflect.StructField {
	t.Helper()
	kind := reflect.TypeOf(of)
	for i := range kind.NumField() {
		json, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
		if json == option || strings.TrimSuffix(json, "s") == option {
			return kind.Field(i)
		}
	}
	require.Fail(t, "no field", option)
	return reflect.StructField{}
}
