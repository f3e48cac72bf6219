package payoffer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

const (
	initKey     = "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
	initUSDC    = "0x52908400098527886E0F7030069857D2E4169EE7"
	initBitcoin = payoffertest.BitcoinFirstAddress
	initZpub    = payoffertest.BitcoinZpub
	initXpub    = "xpub6CatWdiZiodmUeTDp8LT5or8nmbKNcuyvz7WyksVFkKB4RHwCD3XyuvPEbvqAQY3rAPshWcMLoP2fMFMKHPJ4ZeZXYVUhLv1VMrjPC7PW6V"
	initPhrase  = "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about"
)

// besides are the flags that init needs, as far as others do not answer them, and those.
func besides(flags ...string) (all []string) {
	for i := 0; i < len(needed); i += 2 {
		if !slices.Contains(flags, needed[i]) {
			all = append(all, needed[i:i+2]...)
		}
	}
	return append(all, flags...)
}

// initialize runs 'caddy pay-offer init' in a folder of its own, where nobody can be asked.
func initialize(t *testing.T, flags ...string) (file, steps string, err error) {
	t.Helper()
	t.Chdir(t.TempDir())
	before := outliving.Len()
	steps, err = payOffer(t, append([]string{"init"}, flags...)...)
	require.Eventually(t, func() bool { return outliving.Len() <= before }, time.Minute, time.Millisecond, "what was tried holds nothing")
	text, missing := os.ReadFile("Caddyfile")
	require.Equal(t, err == nil, missing == nil)
	return string(text), steps, err
}

// adaptedHandler is the directive of a Caddyfile.
func adaptedHandler(t *testing.T, file string) *Handler {
	t.Helper()
	adapted, err := adapt(t, file) // without a warning: 'caddy fmt' would change nothing
	require.NoError(t, err)
	var all any
	require.NoError(t, json.Unmarshal([]byte(adapted), &all))
	handler := new(Handler)
	require.True(t, findHandler(t, all, handler))
	return handler
}

func findHandler(t *testing.T, in any, handler *Handler) bool {
	switch in := in.(type) {
	case map[string]any:
		if in["handler"] == "pay_offer" {
			text, err := json.Marshal(in)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(text, handler))
			return true
		}
		for _, value := range in {
			if findHandler(t, value, handler) {
				return true
			}
		}
	case []any:
		for _, value := range in {
			if findHandler(t, value, handler) {
				return true
			}
		}
	}
	return false
}

var needed = []string{"--domain", "pay.example.org", "--card", "https://buy.example.net/pay"}

// Each file is the Caddyfile of an operator in public, whose secrets are not set yet.
func TestInitWritesWhatValidatesForEveryOperator(t *testing.T) {
	for name, c := range map[string]struct {
		flags []string
		want  func(t *testing.T, h *Handler)
		steps []string // in their order
	}{
		"card only": {
			flags: []string{"--card", "https://buy.stripe.com/abc plink_1Abc", "--seller", "Jane Doe <jane@example.org>", "--name", "My app"},
			want: func(t *testing.T, h *Handler) {
				require.Equal(t, &Handler{
					BaseURL: "https://pay.example.org", Name: "My app", Operator: "Jane Doe", Contact: "jane@example.org",
					Card: &CardConfig{
						URL: "https://buy.stripe.com/abc", PaymentLink: "plink_1Abc",
						WebhookSecret: "{env.CARD_WEBHOOK_SECRET}", APIKey: "{env.CARD_API_KEY}",
					},
				}, h)
			},
			steps: []string{
				"1. Name servers", "dig +short pay.example.org A", "2. Firewall", "3. Card",
				"https://pay.example.org/v1/thanks?session_id={CHECKOUT_SESSION_ID}\n", "https://pay.example.org/v1/hook/card\n",
				"checkout.session.completed\n", "charge.dispute.closed\n", "4. Secrets", "CARD_API_KEY\n", "CARD_WEBHOOK_SECRET\n",
				"5. Check it once more, with the secrets", "caddy validate --envfile pay_offer.env\n", "     (set -a; . ./pay_offer.env; caddy pay-offer check)\n", "caddy run --envfile pay_offer.env\n",
				"6. While it runs", "caddy pay-offer received\n", "     (set -a; . ./pay_offer.env; caddy pay-offer check --live)\n",
			},
		},
		"the least": {
			want: func(t *testing.T, h *Handler) {
				require.Equal(t, &Handler{BaseURL: "https://pay.example.org", Card: &CardConfig{URL: "https://buy.example.net/pay"}}, h)
			},
			steps: []string{
				"sudo chgrp caddy Caddyfile && sudo chmod 640 Caddyfile\n", "2. Firewall: TCP ports 80 and 443, and UDP port 443 for HTTP/3",
				"3. Card", "provider (Stripe):\n", "No payment by card is confirmed yet", "       card https://buy.example.net/pay {\n           payment_link plink_…\n           webhook_secret {env.CARD_WEBHOOK_SECRET}\n           api_key {env.CARD_API_KEY}\n       }\n",
				"pay_offer.env", "https://pay.example.org/v1/hook/card\n", "checkout.session.completed\n", "charge.dispute.closed\n", "put its signing secret (whsec_…) into CARD_WEBHOOK_SECRET", "restricted API key", "CARD_API_KEY",
				"4. Check it once more, and start", "caddy validate\n", "     caddy pay-offer check\n", "caddy run\n", "     caddy pay-offer check --live\n",
			},
		},
		"a test checkout, on a port of its own": {
			flags: []string{"--domain", "pay.example.org:8443", "--site", "example.org:9443", "--card", "https://buy.stripe.com/test_abc"},
			want: func(t *testing.T, h *Handler) {
				require.Equal(t, &Handler{BaseURL: "https://pay.example.org:8443", SiteURL: "https://example.org:9443", Card: &CardConfig{URL: "https://buy.stripe.com/test_abc", TestMode: true}}, h)
			},
			steps: []string{
				"TCP ports 80, 8443 and 9443, and UDP ports 8443 and 9443 for HTTP/3", "(Stripe), in its test mode:\n",
				"           api_key {env.CARD_API_KEY}\n           test_mode\n       }\n", "https://pay.example.org:8443/v1/hook/card\n", "charge.dispute.closed\n",
			},
		},
		"USDC, in the order of the Caddyfile": {
			flags: []string{"--usdc", "base-sepolia " + initUSDC},
			want: func(t *testing.T, h *Handler) {
				require.Equal(t, []*USDCConfig{{Network: "base-sepolia", Address: initUSDC}}, h.USDC)
			},
		},
		"a bank of the United Kingdom, and nobody else who is paid": {
			flags: []string{"--bank", "Example Club <club@example.org> GB29 NWBK 6016 1331 9268 19 NWBKGB2L"},
			want: func(t *testing.T, h *Handler) {
				require.Equal(t, &BankTransferConfig{Inbox: "club@example.org", AccountHolder: "Example Club", IBAN: "GB29NWBK60161331926819", BIC: "NWBKGB2L"}, h.BankTransfer)
				require.Empty(t, h.Operator)
			},
		},
		"a holder of another name, and a number in one word": {
			flags: []string{"--seller", "Me me@example.org", "--bank", "Example Club Ltd club@example.org DE89370400440532013000 COBADEFFXXX"},
			want: func(t *testing.T, h *Handler) {
				require.Equal(t, "Me", h.Operator)
				require.Equal(t, "me@example.org", h.Contact)
				require.Equal(t, &BankTransferConfig{Inbox: "club@example.org", AccountHolder: "Example Club Ltd", IBAN: "DE89370400440532013000", BIC: "COBADEFFXXX"}, h.BankTransfer)
			},
		},
		"USDC with a key": {
			flags: []string{"--usdc", initUSDC},
			want: func(t *testing.T, h *Handler) {
				require.Equal(t, []*USDCConfig{{Network: "base", Address: initUSDC, Facilitators: []*FacilitatorConfig{{
					URL: "https://api.cdp.coinbase.com/platform/v2/x402", KeyID: "{env.CDP_KEY_ID}", KeySecret: "{env.CDP_KEY_SECRET}",
				}}}}, h.USDC)
				require.False(t, h.Testnet)
			},
			steps: []string{"settled by api.cdp.coinbase.com", "CDP_KEY_ID\n", "CDP_KEY_SECRET\n"},
		},
		"USDC with a facilitator of their own": {
			flags: []string{"--usdc", initUSDC + " polygon", "--facilitator", "https://facilitator.example.net/key/of/ours"},
			want: func(t *testing.T, h *Handler) {
				require.Equal(t, []*USDCConfig{{Network: "polygon", Address: initUSDC, Facilitators: []*FacilitatorConfig{{URL: "https://facilitator.example.net/key/of/ours"}}}}, h.USDC)
			},
			steps: []string{"settled by facilitator.example.net.\n", "it settles on polygon"},
		},
		"an extended key": {
			flags: []string{"--bitcoin", initZpub + " " + initBitcoin},
			want: func(t *testing.T, h *Handler) {
				require.Equal(t, &BitcoinConfig{Account: initZpub, FirstAddress: initBitcoin}, h.Bitcoin)
			},
			steps: []string{"Bitcoin: compare the first two addresses"},
		},
		"a club": {
			flags: []string{
				"--site", "https://example.org/", "--bank", "treasurer@example.org", "--announce", "https://hooks.example.net/club",
				"--storefront", "tip-jar https://club.example.net/l/tip ab12C, 2nd https://club.example.net/l/pack", "--email", "admin@example.org",
			},
			want: func(t *testing.T, h *Handler) {
				require.Equal(t, "https://example.org", h.SiteURL)
				require.Equal(t, &BankTransferConfig{Inbox: "treasurer@example.org"}, h.BankTransfer)
				require.Equal(t, []*AnnounceConfig{{URL: "https://hooks.example.net/club", Secret: "{env.ANNOUNCE_SECRET}"}}, h.Announce)
				require.Equal(t, []*StorefrontConfig{
					{Name: "tip-jar", URL: "https://club.example.net/l/tip", Product: "ab12C", HookSecret: "{env.TIP_JAR_HOOK_SECRET}", Token: "{env.STORE_TOKEN}"},
					{Name: "2nd", URL: "https://club.example.net/l/pack"},
				}, h.Storefronts)
			},
			steps: []string{
				"pay.example.org and example.org", "record --rail transfer --reference INV-1 --amount 42\n",
				"https://pay.example.org/v1/hook/tip-jar/<secret>\n", "record --rail 2nd --reference", "ANNOUNCE_SECRET", "STORE_TOKEN\n", "TIP_JAR_HOOK_SECRET\n",
			},
		},
		"a bank account, and a topic of ntfy": {
			flags: []string{"--seller", "Example Club", "--bank", "club@example.org DE89 3704 0044 0532 0130 00", "--announce", "ntfy https://ntfy.example.net/club"},
			want: func(t *testing.T, h *Handler) {
				require.Equal(t, &BankTransferConfig{Inbox: "club@example.org", AccountHolder: "Example Club", IBAN: "DE89370400440532013000"}, h.BankTransfer)
				require.Equal(t, []*AnnounceConfig{{Ntfy: &NtfyConfig{URL: "https://ntfy.example.net/club"}}}, h.Announce)
			},
			steps: []string{"subscribe to the topic"},
		},
		"an account in the United States, and a mailbox": {
			flags: []string{"--seller", "Example Inc", "--bank", "pay@example.org 021000021 1234567", "--announce", "email me@example.org mail.example.net:587 me"},
			want: func(t *testing.T, h *Handler) {
				require.Equal(t, &BankTransferConfig{Inbox: "pay@example.org", AccountHolder: "Example Inc", Routing: "021000021", Account: "1234567"}, h.BankTransfer)
				require.Equal(t, []*AnnounceConfig{{Email: &EmailConfig{
					To: "me@example.org", SMTP: "mail.example.net:587", User: "me", Password: "{env.SMTP_PASSWORD}",
				}}}, h.Announce)
			},
			steps: []string{"the password of me at mail.example.net:587 into SMTP_PASSWORD", "SMTP_PASSWORD\n"},
		},
		"a rehearsal behind a proxy": {
			flags: []string{"--usdc", initUSDC + " base-sepolia", "--card", "https://buy.stripe.com/test_abc", "--behind-proxy", "127.0.0.1:8402"},
			want: func(t *testing.T, h *Handler) {
				require.Equal(t, []*USDCConfig{{Network: "base-sepolia", Address: initUSDC}}, h.USDC)
				require.True(t, h.Testnet)
				require.True(t, h.Card.TestMode)
			},
			steps: []string{"to the proxy.\n", "proxy_pass http://127.0.0.1:8402;\n", "proxy_set_header Host $http_host;\n", "settled by x402.org.\n", "its money is worth nothing"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			file, steps, err := initialize(t, besides(c.flags...)...)
			require.NoError(t, err)
			c.want(t, adaptedHandler(t, file))
			adapted, err := adapt(t, file)
			require.NoError(t, err)
			require.NoError(t, caddy.Validate(decode(t, adapted)))
			info, err := os.Stat("Caddyfile")
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "an address in it may be a secret")
			for _, step := range c.steps {
				at := strings.Index(steps, step)
				require.GreaterOrEqual(t, at, 0, "%s\nafter it nothing of: %s", steps, step)
				steps = steps[at+len(step):]
			}
		})
	}
}

// Of two answers to one question none is passed over.
func TestInitRefusesAFlagThatIsGivenTwice(t *testing.T) {
	for _, flag := range []string{"--announce", "--storefront", "--usdc"} {
		name := filepath.Join(t.TempDir(), "Caddyfile")
		_, err := payOffer(t, "init", "--yes", "--output", name, "--domain", "pay.example.org", "--card", "https://buy.example.net/pay", flag, "hunter2", flag, "hunter3")
		require.ErrorContains(t, err, flag+" is given twice")
		require.NotContains(t, err.Error(), "hunter")
		require.NoFileExists(t, name)
	}
}

// Nothing of a refused answer is repeated that may be a secret, and no file is left.
func TestInitRefusesWhatTheDirectiveRefuses(t *testing.T) {
	for _, c := range []struct{ flag, answer, want string }{
		{"--domain", "pay.example.org/shop", "is more than an origin"},
		{"--domain", "http://pay.example.org", "--domain: base_url: "},
		{"--domain", "", "without --domain there is no offer"},
		{"--site", "http://localhost:8404", "which only this machine reaches"},
		{"--card", "", "without --card there is no offer"},
		{"--card", "buy.example.net/pay", "--card: card: "},
		{"--card", "sk_live_abcdefghijklmnop", "looks like an API key"},
		{"--card", "https://buy.example.net/pay sk_live_abcdefghijklmnop", "looks like an API key"},
		{"--card", "https://buy.example.net/pay buy", "it starts with plink_"},
		{"--card", "https://checkout.example/pay-42", "still hold demo or test values"},
		{"--usdc", initKey, "this looks like a private key"},
		{"--usdc", "bas " + initUSDC, "unknown network"},
		{"--usdc", strings.Replace(initUSDC, "9EE7", "9ee7", 1), "checksum"},
		{"--usdc", "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", "is the USDC contract on Base"},
		{"--usdc", initUSDC + " bas", "unknown network"},
		{"--bitcoin", "uno dos tres cuatro cinco seis siete ocho nueve diez once doce", "seed phrase"},
		{"--bitcoin", initBitcoin + "x", "not a Bitcoin address"},
		{"--bitcoin", initZpub + " bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "first_address is no receiving address of this key"},
		{"--bank", "treasurer", "bank_transfer: "},
		{"--bank", "pay@example.org DE89370400440532013001", "check digits of this IBAN"},
		{"--bank", "pay@example.org DE89370400440532013000", "write the name that the bank knows before the e-mail address"},
		{"--bank", "pay@example.org 021000021 1234567", "write the name that the bank knows before the e-mail address"},
		{"--bank", "DE89370400440532013000 pay@example.org", "write the account behind the e-mail address"},
		{"--bank", "Jane pay@example.org GB29 NWBK 6016 1331 9268 19", "write it behind the number"},
		{"--bank", "Jane pay@example.org GB29 NWBK 6016 1331 9268 19 BNPAFRPP", "a bank in FR, and the IBAN one of GB"},
		{"--bitcoin", initXpub, "write after it the first receiving address"},
		{"--announce", "email me@example.org", "write https://…"},
		{"--announce", "me@example.org", "write the word email before the mailbox"},
		{"--announce", "email me@example.org mail.example.net:587 me:sk_live_abc", "write the user alone"},
		{"--announce", "email me mail.example.net:587", "announce email: "},
		{"--announce", "ntfy ntfy.example.net", "announce ntfy: "},
		{"--storefront", "card https://shop.example.net/l/a", "card"},
		{"--storefront", "tip-jar", "write a name"},
		{"--storefront", "a https://shop.example.net/l/a, a https://shop.example.net/l/b", "two rails are named"},
		{"--announce", "http://hooks.example.net/x", "https"},
		{"--facilitator", "ftp://x.example.net", ""},
		{"--email", "me", "no e-mail address"},
		{"--behind-proxy", "8402", "an IP address and a port"},
		{"--name", strings.Repeat("x", 81), "at most 80"},
		{"--name", "a\nb\x1b[2J", "control character"},
		{"--name", "` \\\"", "leave out the backslash"},
		{"--seller", "Jane <jane>", "contact: "},
		{"--seller", "me@example.org Me", "Example Org <pay@example.org>"},
	} {
		t.Run(c.flag+" "+c.answer, func(t *testing.T) {
			flags := besides(c.flag, c.answer)
			if c.flag == "--facilitator" {
				flags = append(flags, "--usdc", initUSDC)
			}
			_, out, err := initialize(t, flags...)
			require.ErrorContains(t, err, c.want)
			require.Empty(t, out)
			require.NotContains(t, err.Error(), "\x1b")
			require.NotContains(t, err.Error(), "Caddyfile:")
			for _, secret := range []string{initKey[2:], "sk_live_abc", "cuatro"} {
				require.NotContains(t, err.Error(), secret)
			}
			left, err := os.ReadDir(".")
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

// Of a wallet's secret every question says that its money has to move, before the answer
// is taken apart.
func TestInitRefusesAWalletsSecretAtEveryQuestion(t *testing.T) {
	for _, flag := range []string{
		"--domain", "--site", "--name", "--seller", "--card", "--usdc", "--bitcoin", "--bank", "--storefront", "--announce", "--facilitator", "--email", "--behind-proxy",
	} {
		for _, secret := range []string{initPhrase, strings.ToUpper(initPhrase), initKey, initKey[2:], "5HueCGU8rMjxEXxiPuD5BDku4MkFqeZyd4dZ1jvhTVqvbTLvyTJ"} {
			_, out, err := initialize(t, besides(flag, secret)...)
			require.ErrorContains(t, err, "move that money to a new wallet now", flag)
			require.Empty(t, out)
			for _, word := range strings.Fields(secret) {
				require.NotContains(t, err.Error(), word, flag)
			}
		}
	}
}

func TestInitTakesEveryTextAsItIs(t *testing.T) {
	t.Setenv("HOME", "/home/of/somebody")
	for _, text := range []string{
		`{`, `}`, `a { b }`, `}`, `"quoted"`, "`back`", "\" and `", `back\slash`, `end\`, `{env.HOME}`, `\{env.HOME}`, `{file./etc/hostname}`,
		`{$HOME}`, `{$HOME:x}`, `{$`, `{$}`, `{system.hostname}`, `{{payOffer .Req}}`, `# not a comment`, `<<END`, `import discreet`, `$HOME`, "Ünï ☃",
	} {
		t.Run(text, func(t *testing.T) {
			file, _, err := initialize(t, besides("--name", text, "--seller", text)...)
			require.NoError(t, err)
			s, err := adaptedHandler(t, file).settings(newResolver(), time.Now())
			require.NoError(t, err)
			require.Equal(t, text, s.Offer.Name)
			require.Equal(t, text, s.Offer.Operator)
		})
	}
}

// An escaped brace begins no placeholder, of which an error would say that it has no value.
func TestInitSaysNothingOfTextThatLooksLikeAPlaceholder(t *testing.T) {
	_, _, err := initialize(t, besides("--name", "{env.HOME}", "--card", "https://buy.example.net/{env.OFFER_TEST_UNSET}")...)
	require.EqualError(t, err, "--card: card: this URL holds the character '{'; percent-encode it, and write a host name in its ASCII form (xn--…)")
}

func TestInitWritesOverNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("Caddyfile", []byte("mine"), 0o600))
	require.NoError(t, os.Symlink("nowhere", "link"))
	for _, name := range []string{"Caddyfile", "link", "."} {
		_, err := payOffer(t, append([]string{"init", "--output", name}, needed...)...)
		require.ErrorContains(t, err, name+" is there already and is not written over; write another one, as with --output pay-offer.caddyfile")
	}
	_, err := payOffer(t, append([]string{"init", "--output", "none/Caddyfile"}, needed...)...)
	require.Error(t, err)

	steps, err := payOffer(t, append([]string{"init", "--output", "my pay"}, needed...)...)
	require.NoError(t, err)
	require.Contains(t, steps, "caddy validate --config 'my pay' --adapter caddyfile\n")
	require.Contains(t, steps, "sudo chgrp caddy 'my pay' && sudo chmod 640 'my pay'\n")
	steps, err = payOffer(t, append([]string{"init", "--output", "pay-offer.caddyfile"}, needed...)...)
	require.NoError(t, err)
	require.Contains(t, steps, "caddy run --config pay-offer.caddyfile\n")
	mine, err := os.ReadFile("Caddyfile")
	require.NoError(t, err)
	require.Equal(t, "mine", string(mine))
	require.NoFileExists(t, "nowhere")
}

func TestInitAsksNobodyWithoutATerminal(t *testing.T) {
	_, _, err := initialize(t)
	require.EqualError(t, err, "without --domain and --card there is no offer; without a terminal and with --yes nothing is asked")
	_, _, err = initialize(t, besides("base")...)
	require.ErrorContains(t, err, "quote an answer of several words")
}

// What no log may hold is the same as in the shipped Caddyfile.
func TestInitRedactsLogsAsTheShippedCaddyfileDoes(t *testing.T) {
	shipped, err := os.ReadFile("../Caddyfile")
	require.NoError(t, err)
	file, _, err := initialize(t, needed...)
	require.NoError(t, err)
	snippet := regexp.MustCompile(`(?s)# What no log may hold.*?\n}\n`)
	require.NotEmpty(t, snippet.FindString(file))
	require.Equal(t, snippet.FindString(string(shipped)), snippet.FindString(file))
	require.Equal(t, 2, strings.Count(file, "import discreet"), "the default log, and that of the site")
}
