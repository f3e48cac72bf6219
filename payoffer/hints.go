package payoffer

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// globalOption is what errors call it.
const globalOption = "the global option pay_offer"

// forms are the options that are written in another way than '<name> "<value>"'. In angle
// brackets stand the names of the JSON configuration, as the page of the options has them.
var forms = map[string]string{
	"pay_offer":      "pay_offer [<matcher>] { ... }",
	globalOption:     "pay_offer { ... }",
	"ledger":         "ledger sqlite [<path>], or ledger postgres <dsn>",
	"testnet":        "testnet [<on|off>]",
	"legal":          "legal <line>...",
	"tags":           "tags <word>...",
	"rate_limit":     "rate_limit <attempts> <window>",
	"card":           "card <url> { ... }",
	"methods":        "methods <method>...",
	"test_mode":      "test_mode [<on|off>]",
	"usdc":           "usdc <network> <address> { ... }",
	"facilitator":    "facilitator <url> { ... }",
	"header":         "header <name> <value>",
	"rpc":            "rpc <url>...",
	"bitcoin":        "bitcoin <account> { ... }",
	"esplora":        "esplora <url>...",
	"rates":          "rates <source>...",
	"bank_transfer":  "bank_transfer [<name>] <inbox> { ... }",
	"storefront":     "storefront <name> <url> { ... }",
	"announce ntfy":  "announce ntfy <url> { ... }",
	"announce email": "announce email <to> { ... }",
	"announce":       "announce [ntfy|email] <url> { ... }",
	"ignore_payer":   "ignore_payer <address>",
}

// form is how an option is written.
func form(name string) string {
	if form := forms[name]; form != "" {
		return form
	}
	return name + ` "<value>"`
}

// blocks are all blocks below the directive, by the options that they belong to.
func blocks() map[string]block {
	return map[string]block{
		"card": new(CardConfig).options(), "usdc": new(USDCConfig).options(), "facilitator": new(FacilitatorConfig).options(),
		"bitcoin": new(BitcoinConfig).options(), "bank_transfer": new(BankTransferConfig).options(), "storefront": new(StorefrontConfig).options(),
		"announce": new(AnnounceConfig).options(), "ntfy": new(NtfyConfig).options(), "email": new(EmailConfig).options(),
	}
}

// misspelled says what was likely meant by an option that a block does not have: one of
// its own, or one that stands elsewhere.
func misspelled(name string, of block) string {
	if name == "ledger" {
		return "; it is a global option, for all offers share one ledger: write it at the very top of the Caddyfile as the lines " +
			"'{', 'pay_offer {', 'ledger sqlite [<path>]' or 'ledger postgres <dsn>', '}' and '}'"
	}
	if meant := offer.DidYouMean(name, slices.Sorted(maps.Keys(of))); meant != "" {
		return meant
	}
	var others []string
	if _, here := new(Handler).options()[name]; here {
		others = append(others, "pay_offer")
	}
	all := blocks()
	for _, what := range slices.Sorted(maps.Keys(all)) {
		if _, there := all[what][name]; there {
			others = append(others, what)
		}
	}
	if len(others) == 0 {
		return ""
	}
	return "; it stands in the block of " + strings.Join(others, " or ")
}

// variable is an environment variable as Caddy puts it into a file while that is read, with
// the default that it may have.
var variable = regexp.MustCompile(`\{\$([A-Za-z_][A-Za-z0-9_]*)(:[^}]*)?\}`)

// unset names the environment variables without a value that stand on a line of the file
// that is read, for nothing is left of them there. A file that cannot be read again has
// none.
func unset(d *caddyfile.Dispenser, line int) string {
	source, err := os.ReadFile(d.File())
	if err != nil {
		return ""
	}
	lines := strings.Split(string(source), "\n")
	if line < 1 || line > len(lines) {
		return ""
	}
	for _, found := range variable.FindAllStringSubmatch(lines[line-1], -1) {
		value, set := os.LookupEnv(found[1])
		switch {
		case set && value == "":
			return "; " + found[0] + " stands there, and the environment variable " + found[1] + " is set to nothing"
		case !set && found[2] == "":
			return "; " + found[0] + " stands there, and the environment variable " + found[1] + " is not set"
		}
	}
	return ""
}

var (
	// quoted is a variable that stands in quotation marks.
	quoted = regexp.MustCompile(`"\{\$([A-Za-z_][A-Za-z0-9_]*)(:[^}]*)?\}"`)
	// closing is a quotation mark that ends what stands in them.
	closing = regexp.MustCompile(`(^|[^\\])"`)
)

// endedByVariable adds to an error which variable of the file holds a quotation mark: Caddy
// puts the value into the file before it reads it, and what follows the mark is taken for
// more arguments, or for more lines.
func endedByVariable(d *caddyfile.Dispenser, err error) error {
	if err == nil {
		return nil
	}
	d.Reset()
	d.Next()
	source, _ := os.ReadFile(d.File()) // of one that cannot be read again nothing is known
	for _, found := range quoted.FindAllSubmatch(source, -1) {
		if name := string(found[1]); closing.MatchString(os.Getenv(name)) {
			return fmt.Errorf("%w; the environment variable %s holds a quotation mark, which ends the value there: leave it out, write \\\" in its place, or change {$%s} "+
				"in the file to {env.%s} without quotation marks around it", err, name, name, name)
		}
	}
	return err
}

// placeholder is one whose value is only known once the configuration is loaded.
var placeholder = regexp.MustCompile(`\{(env|file)\.[^{}\s]+\}`)

// withoutValue are the placeholders of a value that have none. After a backslash there is
// none, but text.
func withoutValue(repl *caddy.Replacer, value string) (empty []string) {
	for _, at := range placeholder.FindAllStringIndex(value, -1) {
		p := value[at[0]:at[1]]
		if !strings.HasSuffix(value[:at[0]], `\`) && repl.ReplaceKnown(p, "") == "" {
			empty = append(empty, p)
		}
	}
	return empty
}
