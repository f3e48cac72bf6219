package command

import (
	"cmp"
	_ "embed"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/card"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

//go:embed init_steps.tmpl
var stepsText string

// left is what the text of the steps tells beside the answers.
type left struct {
	answers
	File string
}

// steps tell what is left to do elsewhere once the file that is named stands.
func (a answers) steps(name string) (string, error) {
	number := 0
	step := func() int { number++; return number }
	text, err := fill(stepsText, template.FuncMap{"step": step, "words": inWords, "shell": shellWord}, left{a, name})
	return printableLines(string(text)), err
}

// HostNames are those of the service and the site.
func (l left) HostNames() []string {
	return slices.Compact([]string{offer.Hostname(l.Service), offer.Hostname(l.Site())})
}

// Hosts is HostNames in words.
func (l left) Hosts() string { return inWords(l.HostNames()) }

// PortsTLS are those that the service and the site are reached at by TLS.
func (l left) PortsTLS() (ports []string) {
	for _, o := range []string{l.Service, l.Site()} {
		_, port, err := net.SplitHostPort(offer.Host(o))
		if err != nil {
			port = "443"
		}
		ports = append(ports, port)
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// PortsTCP are PortsTLS and that of plain HTTP, by which certificates come, too.
func (l left) PortsTCP() []string { return append([]string{"80"}, l.PortsTLS()...) }

// inWords is a list as a sentence has it.
func inWords(list []string) string {
	last := len(list) - 1
	if last < 1 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:last], ", ") + " and " + list[last]
}

// Upstream is where the proxy reaches the server.
func (l left) Upstream() string { return net.JoinHostPort(l.ListenHost, l.ListenPort) }

// CardEvents are what the webhook of the card is to send.
func (l left) CardEvents() []string { return card.Events }

func (l left) Thanks() string   { return offer.PathThanks }
func (l left) Hook() string     { return offer.PathHook }
func (l left) HookCard() string { return offer.PathHookCard }

// SettledBy is the host of the facilitator; the rest of its address may be a secret.
func (l left) SettledBy() string {
	return offer.Host(cmp.Or(l.Facilitator(), x402.DefaultTestFacilitator))
}

// Variables are those of the secrets that the file names.
func (l left) Variables() (names []string) {
	if l.PaymentLink != "" {
		names = append(names, "CARD_WEBHOOK_SECRET", "CARD_API_KEY")
	}
	if l.USDC != "" && l.Keyed() {
		names = append(names, "CDP_KEY_ID", "CDP_KEY_SECRET")
	}
	for _, s := range l.Storefronts {
		if s.Product != "" {
			names = append(names, s.Variable("HOOK_SECRET"), "STORE_TOKEN")
		}
	}
	if l.Announce != "" {
		names = append(names, "ANNOUNCE_SECRET")
	}
	if l.SMTPUser != "" {
		names = append(names, "SMTP_PASSWORD")
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Config are the flags by which commands find the file.
func (l left) Config() string {
	base := filepath.Base(l.File)
	switch {
	case l.File == "Caddyfile":
		return ""
	case strings.HasPrefix(base, "Caddyfile"), strings.HasSuffix(base, ".caddyfile"):
		return " --config " + shellWord(l.File)
	}
	return " --config " + shellWord(l.File) + " --adapter caddyfile"
}

// EnvFile is the flag by which Caddy reads the secrets.
func (l left) EnvFile() string {
	if len(l.Variables()) == 0 {
		return ""
	}
	return " --envfile pay_offer.env"
}

// WithSecrets is a command that is told the secrets, for which it has no flag.
func (l left) WithSecrets(command string) string {
	if l.EnvFile() == "" {
		return command
	}
	return "(set -a; . ./pay_offer.env; " + command + ")"
}

// shellWord writes a value as one word of a POSIX shell.
func shellWord(value string) string {
	if plain.MatchString(value) {
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}
