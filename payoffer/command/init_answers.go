package command

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"net"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// answers are what a Caddyfile is made of. Empty ones are left out of it.
type answers struct {
	Service, OtherSite      string // origins
	Name, Operator, Contact string
	Card, PaymentLink       string
	USDC, Network           string
	Bitcoin, FirstAddress   string
	Inbox                   string
	Storefronts             []storefront
	IBAN, BIC               string
	Routing, Account        string
	AccountHolder           string // if not Operator
	Announce, Ntfy          string // a webhook, a topic
	Mailbox, SMTP, SMTPUser string
	OtherFacilitator        string
	OtherEmail              string
	ListenHost, ListenPort  string // behind a proxy
}

type storefront struct{ Name, URL, Product string }

// cdpFacilitator settles on main networks, with a key.
const cdpFacilitator = "https://api.cdp.coinbase.com/platform/v2/x402"

// Site is the origin of the site.
func (a answers) Site() string { return cmp.Or(a.OtherSite, a.Service) }

// OneHost reports whether the service and the site are one.
func (a answers) OneHost() bool { return a.Site() == a.Service }

// Public reports whether the service is for others than this machine.
func (a answers) Public() bool { return !offer.IsLoopback(offer.Hostname(a.Service)) }

// Email is the address for certificates.
func (a answers) Email() string { return cmp.Or(a.OtherEmail, a.Contact) }

// Holder is whose bank account is published.
func (a answers) Holder() string { return cmp.Or(a.AccountHolder, a.Operator) }

// TestNetwork reports whether USDC is on a test network.
func (a answers) TestNetwork() bool {
	network, err := offer.LookupNetwork(a.Network)
	return err == nil && network.Test
}

// Testnet reports whether a chain is a test network, which a public offer has to say
// that it means.
func (a answers) Testnet() bool {
	b, err := offer.NewBitcoin(a.Bitcoin, "", 0)
	return a.TestNetwork() || err == nil && b.Test()
}

// Extended reports whether bitcoin goes to the addresses of a key.
func (a answers) Extended() bool {
	b, err := offer.NewBitcoin(a.Bitcoin, "", 0)
	return err == nil && b.Extended()
}

// TestMode reports whether the checkout takes test payments, as far as its address
// tells.
func (a answers) TestMode() bool {
	card, err := offer.NewCard(a.Card, nil, 0)
	return err == nil && card.Test()
}

// Facilitator settles payments in USDC. On a test network there is a default.
func (a answers) Facilitator() string {
	if a.OtherFacilitator == "" && !a.TestNetwork() {
		return cdpFacilitator
	}
	return a.OtherFacilitator
}

// Keyed reports whether the facilitator asks for a key.
func (a answers) Keyed() bool { return a.Facilitator() == cdpFacilitator }

// Variable is the environment variable of what belongs to the storefront.
func (s storefront) Variable(of string) string {
	name := strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_")) + "_" + of
	if name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	return name
}

// setBehindProxy reads the address to listen at.
func setBehindProxy(a *answers, words string) error {
	host, port, err := net.SplitHostPort(words)
	if n, wrong := strconv.ParseUint(port, 10, 16); err != nil || wrong != nil || n == 0 || host != "" && host != "localhost" && net.ParseIP(host) == nil {
		return errors.New("write an IP address and a port, as in 127.0.0.1:8402")
	}
	a.ListenHost, a.ListenPort = host, port
	return nil
}

// Address is where Caddy serves an origin: behind a proxy its host without TLS.
func (a answers) Address(origin string) string {
	if _, err := offer.ParseOrigin(origin); err != nil {
		return "http://localhost" // base_url says what is wrong with it
	}
	if a.ListenPort != "" {
		return "http://" + offer.Hostname(origin) + ":" + a.ListenPort
	}
	return origin
}

//go:embed init_caddyfile.tmpl
var caddyfileText string

// caddyfile is the text of the file, as 'caddy fmt' would leave it.
func (a answers) caddyfile() ([]byte, error) {
	text, err := fill(caddyfileText, template.FuncMap{"quote": quoted}, a)
	if errors.Is(err, errUnquotable) {
		err = errUnquotable // without where in the template
	}
	return caddyfile.Format(text), err
}

// fill executes the text of a template.
func fill(text string, functions template.FuncMap, data any) ([]byte, error) {
	parsed, err := template.New("").Funcs(functions).Parse(text)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = parsed.Execute(&out, data)
	return out.Bytes(), err
}

var (
	// plain is a value that needs no quotes.
	plain = regexp.MustCompile(`^[A-Za-z0-9_.:/@%?=&+~-]+$`)
	// unescapable is a backslash that double quotes would lose.
	unescapable = regexp.MustCompile(`\\("|$)`)
	// braces escapes what would begin and end a placeholder.
	braces = strings.NewReplacer("{", `\{`, "}", `\}`)
)

var errUnquotable = errors.New("this cannot be written into a Caddyfile; leave out the backslash, or what is not UTF-8")

// quoted writes a value as one word of a Caddyfile, which is read as exactly this value
// when the configuration is loaded, whatever it holds: no quote, brace or placeholder in
// it means anything.
func quoted(value string) (string, error) {
	if plain.MatchString(value) {
		return value, nil
	}
	// Environment variables are replaced before anything is read. One without a name is
	// never set and has its default, which is what begins all of them.
	value = strings.ReplaceAll(braces.Replace(value), "{$", "{$:{$}")
	switch {
	case !utf8.ValidString(value):
	case !unescapable.MatchString(value):
		return `"` + strings.ReplaceAll(value, `"`, `\"`) + `"`, nil
	case !strings.Contains(value, "`"):
		return "`" + value + "`", nil
	}
	return "", errUnquotable
}
