package payoffer

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// secrets are one of each kind that is recognized, with a part that must not be repeated.
var secrets = map[string]struct{ value, part string }{
	"live key":       {"sk_live_51HqLyjWDarjtT1zdp7dcXYZ", "51HqLyj"},
	"restricted key": {"rk_test_51HqLyjWDarjtT1zdp7dcXYZ", "51HqLyj"},
	"webhook secret": {"whsec_dGhpcyBpcyBhIHNlY3JldCBvZiAzMiBieXRlcyE=", "dGhpcyBp"},
	"EVM key":        {"0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318", "4c0883a6"},
	"EVM key, bare":  {"4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318", "4c0883a6"},
	"extended key":   {"xprv9s21ZrQH143K3QTDL4LXw2F7HEK3wJUD2nW2nRk4stbPy6cq3jPPqjiChkVvvNKmPGJxWUtg6LnF5kejMRNNU3TGtRBeJgk33yuGBxrMPHi", "9s21ZrQH"},
}

// unmarked are secrets of no known form.
var unmarked = map[string]struct{ value, part string }{
	"openssl rand -hex 8":     {"5ecae7f00d5ecae7", "5ecae7f0"},
	"openssl rand -base64 16": {"XsrnDV7K5w1eyucNXsrnDQ==", "XsrnDV7K"},
	"key in a path":           {"https://mainnet.infura.example/v3/5ecae7f00d5ecae7f00d5ecae7f00d55", "5ecae7f0"},
	"key in a query":          {"https://rpc.example/?apikey=5ecae7f00d5ecae7f00d5ecae7f00d55", "5ecae7f0"},
	"key before a host":       {"https://5ecae7f00d5ecae7f00d5ecae7f00d55@rpc.example/x", "5ecae7f0"},
	"key in plain http":       {"http://rpc.example/v3/5ecae7f00d5ecae7f00d5ecae7f00d55", "5ecae7f0"},
}

// An argument is one of an option in the whole example of the documentation.
type argument struct {
	option string // with the blocks in which it is
	rest   [2]string
	value  string // in the example
}

// with is the example with another value. after are lines that follow the option.
func (a argument) with(value, after string) string {
	return a.rest[0] + `"` + value + `"` + after + a.rest[1]
}

// takesSecret reports whether the option is one of a secret.
func (a argument) takesSecret() bool { return strings.HasPrefix(a.value, "{env.") }

// exampleArguments are the arguments of the directive and of all blocks in it. One more argument is tried at a flag.
func exampleArguments(t *testing.T) (found []argument) {
	t.Helper()
	example := wholeExample(t)
	begin := strings.Index(example, "\tpay_offer {\n\t\tbase_url")
	require.Positive(t, begin)
	at, blocks := begin, []string{}
	for line := range strings.Lines(example[begin:]) {
		words := regexp.MustCompile(`"[^"]*"|[^\s"]+`).FindAllStringIndex(line, -1)
		word := func(i int) string { return line[words[i][0]:words[i][1]] }
		for i := range words {
			if value := word(i); i > 0 && value != "{" {
				option := strings.Join(append(slices.Clone(blocks), word(0), strconv.Itoa(i)), " ")
				found = append(found, argument{option, [2]string{example[:at+words[i][0]], example[at+words[i][1]:]}, value})
			}
		}
		switch {
		case len(words) == 0:
		case word(0) == "}":
			if blocks = blocks[:len(blocks)-1]; len(blocks) == 0 {
				return found
			}
		case word(len(words)-1) == "{":
			blocks = append(blocks, word(0))
		case len(words) == 1:
			end := at + words[0][1]
			found = append(found, argument{strings.Join(append(slices.Clone(blocks), word(0)), " "), [2]string{example[:end] + " ", example[end:]}, ""})
		}
		at += len(line)
	}
	t.Fatal("the directive of the example has no end")
	return nil
}

// elsewhere are mistakes that the example does not show.
var elsewhere = []string{"%s", "name a %s", "card https://checkout.example {\n webhook_secret {env.A} %s\n}", "card https://checkout.example {\n %s\n}"}

// otherErrors are the options whose wrong value is refused for what it is, even if it is a key: numbers, and addresses
// that may contain a key.
var otherErrors = regexp.MustCompile(` (rate_limit|testnet|test_mode|timeout|from_block|confirmations|rpc|esplora|facilitator|announce|smtp|tls)( \d)?$`)

// offering is a Caddyfile with a line in the directive.
func offering(line, value string) string {
	site := "http://localhost:8402 {\n pay_offer {\n"
	for option, needed := range map[string]string{"base_url": "base_url http://localhost:8402", "card": "card https://checkout.example/pay"} {
		if !strings.HasPrefix(line, option+" ") {
			site += needed + "\n"
		}
	}
	return site + fmt.Sprintf(line, value) + "\n }\n}\n"
}

// validate adapts a Caddyfile and provisions it.
func validate(t *testing.T, caddyfile string) error {
	t.Helper()
	config, _, err := adaptAny(caddyfile)
	if err != nil {
		return err
	}
	return caddy.Validate(decode(t, config))
}

// A secret in the wrong place is refused, as a literal and as the value of a
// placeholder, and no error repeats it.
func TestMisplacedSecretIsRefused(t *testing.T) {
	t.Setenv("OFFER_TEST_MISPLACED", secrets["EVM key"].value)
	for _, p := range exampleArguments(t) {
		if p.takesSecret() {
			continue
		}
		for kind, secret := range secrets {
			err := validate(t, p.with(secret.value, ""))
			require.Error(t, err, "%s: %s", p.option, kind)
			require.NotContains(t, err.Error(), secret.part, "%s: %s", p.option, kind)
		}
		err := validate(t, p.with("{env.OFFER_TEST_MISPLACED}", ""))
		require.Error(t, err, p.option)
		require.NotContains(t, err.Error(), secrets["EVM key"].part, p.option)
		if !otherErrors.MatchString(p.option) {
			require.ErrorContains(t, err, "private key", "%s: read it by resolve, resolver.word or resolver.text, or add it to otherErrors", p.option)
		}
	}
	for _, line := range elsewhere {
		for kind, secret := range secrets {
			err := validate(t, offering(line, `"`+secret.value+`"`))
			require.Error(t, err, "%s: %s", line, kind)
			require.NotContains(t, err.Error(), secret.part, "%s: %s", line, kind)
		}
	}
}

// Most secrets have no form. If a value is wrong, the error does not repeat it.
func TestOptionErrorHidesPossibleSecrets(t *testing.T) {
	for kind, secret := range unmarked {
		for _, p := range exampleArguments(t) {
			if err := validate(t, p.with(secret.value, "")); err != nil {
				require.NotContains(t, err.Error(), secret.part, "%s: %s", p.option, kind)
			}
		}
		for _, line := range elsewhere {
			require.NotContains(t, validate(t, offering(line, `"`+secret.value+`"`)).Error(), secret.part, "%s: %s", line, kind)
		}
	}
}

func TestRedactKeepsHostsAndAddresses(t *testing.T) {
	for value, want := range map[string]string{
		"0x52908400098527886E0F7030069857D2E4169EE7": "", "0x52908400098527886E0F7030069857D2E4169EE": "…", "pay.example-of-a-house.org:80": "",
		"invoices@example.com": "", "kL0paVL2SdmJSYsN@example.com": "…", "https://pay.example.org/shop?key=1": "https://pay.example.org/…",
		"https://user:word@pay.example.org": "https://pay.example.org/…", "https://5ecae7f00d5ecae7.example.org/": "…", "ftp://pay.example.org/shop": "…",
		"http://localhost:8402/a": "http://localhost:8402/…", "kL0paVL2SdmJSYsN": "…", "correcthorsebatterystaple": "…", "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs": "…",
		"SG.ngeVfQFYQlKU0ufo8x5d1A.TwL2iGABf9DHoTf09kqeF8tAmbihYzrnopKcs": "…",
	} {
		require.EqualError(t, redact(fmt.Errorf("%q is wrong", value)), fmt.Sprintf("%q is wrong", cmp.Or(want, value)))
	}
}

func TestOptionErrorRepeatsShortValue(t *testing.T) {
	for line, want := range map[string]string{
		"amount 4,20":   `amount: "4,20" is not an amount`,
		"contact payer": `contact: "payer" is not an e-mail address`,
		"usdc bass 0x1": `unknown network "bass"`,
		"colour red":    "unrecognized option \"colour\"",
		"account UPPER": `account: "UPPER" is not the name of an account; write lower-case letters`,
		"usdc base-sepolia 0x52908400098527886E0F7030069857D2E4169EE7 {\n from_block -1\n}": "from_block: \"-1\" is not a whole number from 1 on",
	} {
		require.ErrorContains(t, validate(t, offering(line+"%.0s", "")), want)
	}
}

// A mistake in or after the option of a secret does not repeat the secret.
func TestSecretOptionErrorHidesSecret(t *testing.T) {
	found := 0
	for _, p := range exampleArguments(t) {
		if !p.takesSecret() {
			continue
		}
		found++
		for kind, secret := range secrets {
			for _, after := range []string{" {env.A}", "\n colour red"} {
				err := validate(t, p.with(secret.value, after))
				require.Error(t, err, p.option)
				require.NotContains(t, err.Error(), secret.part, "%s: %s", p.option, kind)
			}
			if err := validate(t, p.with(secret.value, "")); err != nil {
				require.NotContains(t, err.Error(), secret.part, "%s: %s", p.option, kind)
			}
		}
	}
	require.Greater(t, found, 8)
	for _, line := range []string{"card https://checkout.example {\n api_key %s\n}", "storefront shop https://shop.example {\n token %s\n}"} {
		for kind, secret := range secrets {
			err := validate(t, offering(line, `"`+secret.value+`"`))
			require.ErrorContains(t, err, "also need", line)
			require.NotContains(t, err.Error(), secret.part, "%s: %s", line, kind)
		}
	}
}

func TestCheckNoSecretAcceptsPublicValues(t *testing.T) {
	shipped := must(os.ReadFile("../Caddyfile"))(t)
	for _, value := range append(strings.Fields(string(shipped)),
		"https://checkout.stripe.com/c/pay/cs_live_a1GKlqk0dWx3hUfz4cJmQmWnRvT2pZcYbX9sD8fG7hJ6kL5", "plink_1MoC3ULkdIwHu7ixZjtGpVl2",
		"https://mempool.space/tx/4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b", "0x52908400098527886E0F7030069857D2E4169EE7",
		"xpub661MyMwAqRbcFW31YEwpkMuc5THy2PSt5bDMsktWQcFF8syAmRUapSCGu8ED9W6oDMSgv6Zz8idoc4a6mr8BDzTJY47LJhkJ8UB7WEGuduB",
	) {
		require.NoError(t, offer.CheckNoSecret(value), value)
	}
}

func TestUnknownOptionSuggestion(t *testing.T) {
	for typo, want := range map[string]string{"crad": "card", "bticoin": "bitcoin", "base_ulr": "base_url", "bank_transfers": "bank_transfer", "goa": "goal"} {
		_, _, err := adaptAny(offering(typo+"%.0s", ""))
		require.ErrorContains(t, err, "(did you mean '"+want+"'?)")
	}
	_, _, err := adaptAny(offering("colour red%.0s", ""))
	require.NotContains(t, err.Error(), "did you mean")
}

// headed is a Caddyfile with a facilitator of these lines.
func headed(url, lines string) string {
	return fmt.Sprintf(`SERVICE {
	pay_offer {
		base_url SERVICE
		card https://checkout.example/pay
		usdc base-sepolia 0x52908400098527886E0F7030069857D2E4169EE7 {
			facilitator %s {
				%s
			}
			rpc off
		}
	}
}
`, url, lines)
}

func TestFacilitatorHeaderIsSecret(t *testing.T) {
	t.Setenv("OFFER_TEST_HIDDEN", "hidden-secret")
	for lines, want := range map[string]struct{ name, value string }{
		"header x-secret-key {env.OFFER_TEST_HIDDEN}":                     {"X-Secret-Key", "hidden-secret"},
		`header Authorization "Bearer {env.OFFER_TEST_HIDDEN}"`:           {"Authorization", "Bearer hidden-secret"},
		"header X402_API_KEY {env.OFFER_TEST_HIDDEN}\n\t\t\t\ttimeout 5s": {"X402_API_KEY", "hidden-secret"},
		"header x-secret-key {env.OFFER_TEST_UNSET}":                      {"X-Secret-Key", ""},
	} {
		t.Run(lines, func(t *testing.T) {
			f := payoffertest.NewFacilitator(t)
			warnings, log := warned(t, headed(f.URL(), lines))
			f.Await(payoffertest.CallSupported, 1)
			require.Equal(t, want.value, f.Calls(payoffertest.CallSupported)[0].Header.Get(want.name))
			require.NotContains(t, log, "hidden-secret")
			if want.value == "" {
				require.Len(t, warnings, 1)
				require.Contains(t, warnings[0], "usdc base-sepolia facilitator header")
			}
		})
	}
}

func TestFacilitatorHeaderErrors(t *testing.T) {
	t.Setenv("OFFER_TEST_BROKEN", "hidden\nsecret")
	for lines, want := range map[string]string{
		"header x-secret-key":                                            "write it as: header <name> <value>",
		`header "" {env.A}`:                                              "a header needs a name and a value",
		`header x-secret-key ""`:                                         "a header needs a name and a value",
		"header x:secret {env.A}":                                        "not the name of a header",
		"header sk_live_hiddensecret0 x-secret-key":                      "a secret of a payment service",
		"header host {env.A}":                                            "the header host is set by every call",
		"header a {env.A}\nheader b {env.A}":                             "duplicate option 'header'",
		"header a {env.A}\n\t\t\t\tkey_id b\n\t\t\t\tkey_secret {env.A}": "keep the one that your facilitator asks for",
		"header x-secret-key \"hidden\x01secret\"":                       "header: the value contains a character that no header accepts",
		"header x-secret-key {env.OFFER_TEST_BROKEN}":                    "header: the value contains a character that no header accepts",
	} {
		t.Run(lines, func(t *testing.T) {
			site := headed("https://one.example", lines)
			_, _, err := adaptAny(strings.ReplaceAll(site, "SERVICE", "http://localhost:8402"))
			if err == nil { // what a placeholder becomes is known when it is loaded
				err = newInstance(t).load(site)
			}
			require.ErrorContains(t, err, want)
			require.NotContains(t, err.Error(), "hidden")
		})
	}
}
