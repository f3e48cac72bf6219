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

var update = commandline.Bool("update", false, "write the page of the options")

// optionsHead stands above the options.
const optionsHead = `# Options

Every option of the Caddyfile. A test generates this page from the documentation of the Go types that
hold the options. [One example with every option](example.md) shows where each stands.

- Every string accepts ` + "`{env.NAME}` and `{file./path}`" + `, which are replaced when the configuration is loaded. Write secrets this way.
- A secret without a value switches its feature off, with a warning that names it. An empty address leaves its rail out.
- A private key, an API key or a webhook secret is refused in every option that is published. No error and no log repeats it.
- Texts cannot contain line breaks, control characters or invisible characters.
- An unknown or duplicate option is refused with its file and line. A wrong value is refused when the configuration is loaded, with the
  name of the option. ` + "`caddy validate`" + ` shows both.
- The JSON configuration has the same options under ` + "`http.handlers.pay_offer` and the app `pay_offer`" + `. An option that may be
  repeated is a list there with a plural name.
- A reload interrupts nothing: payments under way go on, and a refused configuration leaves the running one unchanged.
`

// usages are the usages of the options that have arguments of their own, by their names.
func usages(t *testing.T) map[string]string {
	t.Helper()
	found := make(map[string]string)
	for _, file := range []string{"announce.go", "handler.go", "ledger.go", "rail_bank.go", "rail_bitcoin.go", "rail_card.go", "rail_storefront.go", "rail_usdc.go", "settings.go"} {
		for _, usage := range regexp.MustCompile(`(?:arguments\(d, |unmarshal\(d, |&form\{)"([a-z_]+) ([^"]*)"`).FindAllStringSubmatch(readSource(t, file), -1) {
			found[usage[1]] = strings.ReplaceAll(usage[2], "...", "…")
		}
	}
	return found
}

// optionName is what a comment names as the Caddyfile does.
var optionName = regexp.MustCompile(`\b[a-z]+_[a-z_]+(?:\.[a-z]+)?\b`)

// A chapter is the options of one block.
type chapter struct {
	name, under string
	of          any
	options     options
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
		{"announce", "pay_offer", AnnounceConfig{}, options{"secret": new(lines)}},
		{"announce ntfy", "pay_offer", NtfyConfig{}, new(NtfyConfig).options()},
		{"announce email", "pay_offer", EmailConfig{}, new(EmailConfig).options()},
		{"ledger", "the global option pay_offer", LedgerConfig{}, options{}},
	}
}

// TestThePageOfTheOptionsSaysWhatTheirTypesSay generates the page; -update writes it.
func TestThePageOfTheOptionsSaysWhatTheirTypesSay(t *testing.T) {
	docs, err := handbook.Fields(".")
	require.NoError(t, err)
	forms := usages(t)
	var page strings.Builder
	page.WriteString(optionsHead)
	for _, c := range chapters() {
		c.write(t, &page, docs, forms)
	}
	const file = "docs/reference/caddyfile.md"
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(page.String()), 0o644))
	}
	require.Equal(t, readSource(t, file), page.String(), "run 'go test ./payoffer -run PageOfTheOptions -update'")
}

func (c chapter) write(t *testing.T, page *strings.Builder, docs, forms map[string]string) {
	name := strings.Fields(c.name)
	form := forms[name[0]]
	if len(name) > 1 {
		form = "<address> { … }"
	}
	fmt.Fprintf(page, "\n## %s\n\n", c.name)
	if c.under != "" {
		fmt.Fprintf(page, "Stands in `%s`: ", c.under)
	}
	fmt.Fprintf(page, "`%s %s`.\n\n| Option | Meaning |\n|---|---|\n", c.name, form)
	kind := reflect.TypeOf(c.of)
	for i := range kind.NumField() {
		field := kind.Field(i)
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
			first = "`" + json + "` of the JSON"
		}
		doc := docs[kind.Name()+"."+field.Name]
		require.NotEmpty(t, doc, "%s.%s has no documentation", kind.Name(), field.Name)
		escape := strings.NewReplacer("|", `\|`)
		fmt.Fprintf(page, "| %s | %s |\n", escape.Replace(first), optionName.ReplaceAllString(escape.Replace(doc), "`$0`"))
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
