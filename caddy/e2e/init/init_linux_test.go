// Package init_test answers the questions of 'caddy pay-offer init' at a terminal, and starts what it wrote.
package init_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
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
	apiKey     = "sk_live_51AbCdEfGhIjKlMn"
	phrase     = "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about"
	address    = "0x52908400098527886E0F7030069857D2E4169EE7"
	zpub       = payoffertest.BitcoinZpub
	xpub       = payoffertest.BitcoinKey
	zprv       = "zprvAdG4iTXWBoARxkkzNpNh8r6Qag3irQB8PzEMkAFeTRXxHpbF9z4QgEvBRmfvqWvGp42t42nvgGpNgYSJA9iefm1yYNZKEm7z6qUWCroSQnE"
	bitcoin    = payoffertest.BitcoinFirstAddress
)

// An operator is who runs the command, and what comes of it.
type operator struct {
	flags, answers []string
	// service and site are the origins that are published; service is asked at once, or where a proxy is.
	service, site string
	rails         []string // published, in order
	steps         []string // told after the file is written
}

// operators are the five kinds; local makes an origin of this machine.
func operators(t *testing.T, local func() string) map[string]operator {
	indie, holder, bitcoiner, club, site, listen := local(), local(), local(), local(), local(), strings.TrimPrefix(local(), "http://")
	return map[string]operator{
		"an indie developer with a card only": {
			answers: []string{
				" ⇒ without it there is no offer", "my shop ⇒ base_url: ", indie + "/shop ⇒ more than an origin", strings.TrimPrefix(indie, "http://"), "",
				"My \"app\" {$HOME} {env.HOME} `", "Jane <jane> ⇒ contact: ", "Jane Doe <jane@example.org>",
				apiKey + " ⇒ looks like an API key", "https://buy.example.net/pay " + apiKey + " ⇒ looks like an API key", " ⇒ without it there is no offer",
				"https://buy.example.net/pay plink_1Abc", "", "", "", "", "",
			},
			service: indie, site: indie, rails: []string{"card"},
			steps: []string{"/v1/hook/card\n", "checkout.session.completed\n", "/v1/thanks?session_id={CHECKOUT_SESSION_ID}\n"},
		},
		"one with USDC on Base and a key of the facilitator": {
			answers: []string{
				holder, "", "", "", "https://buy.example.net/pay",
				privateKey + " ⇒ private key", strings.Replace(address, "9EE7", "9ee7", 1) + " ⇒ checksum", address + " bas ⇒ unknown network",
				"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913 ⇒ USDC contract", address, "", "", "", "",
			},
			service: holder, site: holder, rails: []string{"card", "usdc"},
			steps: []string{"payment_link plink_…", "CDP_KEY_ID\n", "CDP_KEY_SECRET\n"},
		},
		"a bitcoiner with an extended key": {
			answers: []string{
				bitcoiner, "", "", "pay@example.org", "https://buy.example.net/pay", "",
				phrase + " ⇒ seed phrase", zprv + " ⇒ private key", xpub + " ⇒ first receiving address", xpub + " bc1q ⇒ no Bitcoin address",
				bitcoin + "x ⇒ checksum", xpub + " " + bitcoin, "", "", "",
			},
			service: bitcoiner, site: bitcoiner, rails: []string{"card", "btc"},
			steps: []string{"compare the first two addresses"},
		},
		"a club with an inbox and shops": {
			answers: []string{
				club, site + "/offer/ ⇒ more than an origin", site, "Membership", "Example Club <club@example.org>", "https://buy.example.net/pay", "", "",
				"treasurer ⇒ not an e-mail address", "treasurer@example.org",
				"tip-jar ⇒ write a name", "card https://shop.example.net/l/tip ⇒ card", "tip-jar https://shop.example.net/l/tip ab12C, pack https://shop.example.net/l/pack",
				"hooks.example.net ⇒ absolute URL", "https://hooks.example.net/club",
			},
			service: club, site: site, rails: []string{"card", "transfer", "tip-jar", "pack"},
			steps: []string{"record --rail transfer", "/v1/hook/tip-jar/<secret>\n", "record --rail pack", "ANNOUNCE_SECRET\n", "STORE_TOKEN\n", "TIP_JAR_HOOK_SECRET\n"},
		},
		"a rehearsal on one host behind a proxy": {
			flags:   []string{"--behind-proxy", listen, "--usdc", address + " base-sepolia"},
			answers: []string{"pay.example.org", "", "", "", "https://buy.example.net/pay", "", "", "", ""},
			service: "https://pay.example.org", site: "https://pay.example.org", rails: []string{"card", "usdc"},
			steps: []string{"dig +short pay.example.org", "proxy_pass http://" + listen + ";\n", "settled by x402.org.\n", "its money is worth nothing"},
		},
	}
}

func TestTheCaddyfileOfEveryOperatorStartsAsItIsWritten(t *testing.T) {
	local := func() string { return "http://localhost:" + payoffertest.FreePort(t) }
	for name, o := range operators(t, local) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := sitDown(t, o.flags...)
			p.answers(o.answers...)
			files, err := p.end()
			require.NoError(t, err, p.shown.String())
			require.Equal(t, []string{"Caddyfile"}, files, "the file, and nothing beside it")
			require.NotContains(t, p.shown.String(), "\r\n11. ", "ten questions at most")
			require.NotRegexp(t, "INFO|WARN|ERROR|level", p.shown.String(), "nothing is logged")
			file, steps := p.file(), p.last
			for _, secret := range []string{privateKey, apiKey, "abandon", zprv} {
				require.NotContains(t, file, secret)
			}
			for _, step := range o.steps {
				require.Contains(t, steps, step)
			}
			require.Equal(t, names(`\{env\.(\w+)\}`, file), names(`(?m)^     ([A-Z0-9_]+)$`, steps), "the secrets of the file are told")

			validate := strings.Fields(regexp.MustCompile(`(?m)^     caddy (validate.*)$`).FindStringSubmatch(steps)[1])
			require.NoError(t, os.WriteFile(filepath.Join(p.folder, "pay_offer.env"), nil, 0o600))
			command := exec.Command(server.Released(t), validate...)
			command.Dir, command.Env = p.folder, []string{"HOME=" + t.TempDir()}
			said, err := command.CombinedOutput()
			require.NoError(t, err, "%s", said)
			require.NotContains(t, string(said), "not formatted")

			base := o.service
			if i := slices.Index(o.flags, "--behind-proxy"); i >= 0 {
				base = proxy(t, o.service, o.flags[i+1])
			}
			server.Start(t, base, file, "CADDY_ADMIN=localhost:"+payoffertest.FreePort(t))
			var invoice struct{ Methods []struct{ Rail string } }
			require.NoError(t, json.Unmarshal([]byte(get(t, base+"/v1/invoice")), &invoice))
			var rails []string
			for _, method := range invoice.Methods {
				rails = append(rails, method.Rail)
			}
			require.Equal(t, o.rails, slices.Compact(rails))
			require.Contains(t, get(t, base+"/v1/pay"), o.service+"/v1/")
			site := o.site
			if o.site == o.service {
				site = base
			}
			require.Contains(t, get(t, site+"/offer/"), "</html>")
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

// proxy stands before the server as one that ends TLS for the host of origin.
func proxy(t *testing.T, origin, upstream string) string {
	host := strings.TrimPrefix(origin, "https://")
	p := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: upstream})
			r.SetXForwarded()
			r.Out.Host = host
			r.Out.Header.Set("X-Forwarded-Proto", "https")
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusServiceUnavailable) },
	})
	t.Cleanup(p.Close)
	return p.URL
}

func get(t *testing.T, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	r.Header.Set("Accept", "application/json;q=0.5, text/html")
	if strings.HasSuffix(url, "/v1/invoice") {
		r.Header.Set("Accept", "application/json")
	}
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode, "%s", body)
	return string(body)
}

func TestWhoLeavesTheQuestionsLeavesNoFile(t *testing.T) {
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

func TestAFileThatAppearsDuringTheQuestionsIsNotWrittenOver(t *testing.T) {
	p := sitDown(t)
	require.False(t, p.awaitPrompt())
	require.NoError(t, os.WriteFile(filepath.Join(p.folder, "Caddyfile"), []byte("mine"), 0o600))
	p.types("pay.example.org\n\n\n\nhttps://buy.example.net/pay\n\n\n\n\n\n")
	for !p.awaitPrompt() {
	}
	_, err := p.end()
	require.Error(t, err)
	require.Contains(t, p.shown.String(), "is there already and is not written over")
	require.Equal(t, "mine", p.file())
}

// What is pasted by mistake cannot steer the terminal that shows its refusal.
func TestARefusalShowsNothingThatSteersATerminal(t *testing.T) {
	p := sitDown(t)
	require.False(t, p.awaitPrompt())
	p.types("pay.example.org\n")
	require.False(t, p.awaitPrompt())
	p.types("\x1b[2Jgone\u202e\u0007\n")
	require.False(t, p.awaitPrompt())
	_, said, _ := strings.Cut(p.last, "\n")
	require.Contains(t, said, "Not taken: ")
	require.NotContains(t, said, "\x1b")
	require.NotContains(t, said, "\u202e")
	require.NotContains(t, said, "\x07")
}
