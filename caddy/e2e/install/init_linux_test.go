package install

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

const (
	privateKey = "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
	address    = "0x52908400098527886E0F7030069857D2E4169EE7"
)

// An operator runs the command.
type operator struct {
	answers       []string
	service, site string   // origins that are published
	rails         []string // published, in order
}

// operators are three kinds; local makes an origin of this machine.
func operators(local func() string) map[string]operator {
	indie, holder, club, site := local(), local(), local(), local()
	return map[string]operator{
		"an indie developer with a card only": {
			answers: []string{
				" ⇒ needed", "my shop ⇒ ", indie + "/shop ⇒ more than an origin", strings.TrimPrefix(indie, "http://"), "",
				"My {env.HOME} ⇒ cannot contain", "My app", "Jane <jane> ⇒ e-mail address", "Jane Doe <jane@example.org>",
				" ⇒ needed", "https://buy.example.net/pay plink_1Abc", "", "", "", "", "", "", "",
			},
			service: indie, site: indie, rails: []string{"card"},
		},
		"a holder of USDC and bitcoin": {
			answers: []string{
				holder, "", "", "pay@example.org", "https://buy.example.net/pay",
				privateKey + " ⇒ private key", address + " bas ⇒ unknown network", address,
				payoffertest.BitcoinZpub + " ⇒ first receiving address", payoffertest.BitcoinZpub + " " + payoffertest.BitcoinFirstAddress, "", "", "", "", "maybe ⇒ write yes or no", "no",
			},
			service: holder, site: holder, rails: []string{"card", "usdc", "btc"},
		},
		"a club with an inbox and a shop": {
			answers: []string{
				club, site, "Membership", "Example Club", "https://buy.example.net/pay", "", "", "alice ⇒ not a Lightning address", "alice@wallet.example.net", "treasurer@example.org",
				"tip-jar ⇒ write the name", "tip-jar https://shop.example.net/l/tip ab12C", "https://hooks.example.net/club", "yes",
			},
			service: club, site: site, rails: []string{"card", "lightning", "transfer", "tip-jar"},
		},
	}
}

func TestInitCaddyfilesStart(t *testing.T) {
	local := func() string { return "http://localhost:" + payoffertest.FreePort(t) }
	for name, o := range operators(local) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := sitDown(t)
			p.answers(o.answers...)
			files, err := p.end()
			require.NoError(t, err, p.shown.String())
			require.Equal(t, []string{"Caddyfile"}, files, "the file, and nothing beside it")
			require.NotContains(t, p.shown.String(), "\r\n13. ", "twelve questions at most")
			require.NotRegexp(t, "INFO|WARN|ERROR|level", p.shown.String(), "nothing is logged")
			file, steps := p.file(), p.last
			secrets := file
			if !strings.Contains(file, "payment_link") { // a step says to add it with its secrets
				secrets += "{env.CARD_WEBHOOK_SECRET} {env.CARD_API_KEY}"
			}
			require.Equal(t, names(`\{env\.(\w+)\}`, secrets), names(`(?m)^     ([A-Z0-9_]+)$`, steps), "the steps name the secrets of the file")

			require.Contains(t, steps, "     caddy pay-offer check\n")
			command := exec.Command(server.Released(t), "pay-offer", "check")
			command.Dir, command.Env = p.folder, []string{"HOME=" + t.TempDir()}
			said, err := command.CombinedOutput()
			require.NoError(t, err, "%s", said)

			server.Start(t, o.service, file, "CADDY_ADMIN=localhost:"+payoffertest.FreePort(t))
			var invoice struct{ Methods []struct{ Rail string } }
			require.NoError(t, json.Unmarshal([]byte(server.Get(t, o.service+"/v1/invoice", "application/json")), &invoice))
			var rails []string
			for _, method := range invoice.Methods {
				rails = append(rails, method.Rail)
			}
			require.Equal(t, o.rails, slices.Compact(rails))
			require.Contains(t, server.Get(t, o.service+"/v1/pay", "text/html"), o.service+"/v1/")
			require.Contains(t, server.Get(t, o.site+"/offer/", "text/html"), "</html>")
		})
	}
}

// names are what the group of an expression matches in text, in order and once.
func names(expression, text string) (found []string) {
	for _, match := range regexp.MustCompile(expression).FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func TestInitCanceledWritesNoFile(t *testing.T) {
	for name, key := range map[string]string{"Ctrl-C": "\x03", "Ctrl-D": "\x04"} {
		for _, answered := range []int{0, 5} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p := sitDown(t)
				require.False(t, p.awaitPrompt())
				for _, answer := range []string{"pay.example.org", "", "", "", "https://buy.example.net/pay"}[:answered] {
					p.types(answer + "\n")
					require.False(t, p.awaitPrompt(), p.last)
				}
				p.types(key)
				require.True(t, p.awaitPrompt(), p.last)
				files, err := p.end()
				require.Error(t, err)
				require.Empty(t, files)
				if key == "\x04" {
					require.Contains(t, p.shown.String(), "nothing was written")
				}
			})
		}
	}
}

func TestInitKeepsFileCreatedMeanwhile(t *testing.T) {
	p := sitDown(t)
	require.False(t, p.awaitPrompt())
	require.NoError(t, os.WriteFile(filepath.Join(p.folder, "Caddyfile"), []byte("mine"), 0o600))
	p.types("pay.example.org\n\n\n\nhttps://buy.example.net/pay\n\n\n\n\n\n\n\n")
	for !p.awaitPrompt() {
	}
	_, err := p.end()
	require.Error(t, err)
	require.Contains(t, p.shown.String(), "exists and is not overwritten")
	require.Equal(t, "mine", p.file())
}

// What is pasted by mistake cannot steer the terminal that shows its refusal.
func TestInitErrorsHaveNoControlCharacters(t *testing.T) {
	p := sitDown(t)
	require.False(t, p.awaitPrompt())
	p.types("pay.example.org\n")
	require.False(t, p.awaitPrompt())
	p.types("\x1b[2Jgone\u202e\u0007\n")
	require.False(t, p.awaitPrompt())
	_, said, _ := strings.Cut(p.last, "\n")
	require.Contains(t, said, "Rejected: ")
	require.NotContains(t, said, "\x1b")
	require.NotContains(t, said, "\u202e")
	require.NotContains(t, said, "\x07")
}
