package payoffer

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"
)

// secrets are one of each kind, with what must not be repeated of it.
var secrets = map[string]struct{ value, part string }{
	"live key":                {"sk_live_51HqLyjWDarjtT1zdp7dcXYZ", "51HqLyj"},
	"restricted key":          {"rk_test_51HqLyjWDarjtT1zdp7dcXYZ", "51HqLyj"},
	"glued to a link":         {"plink_sk_live_51HqLyjWDarjtT1zdp", "51HqLyj"},
	"webhook secret":          {"whsec_dGhpcyBpcyBhIHNlY3JldCBvZiAzMiBieXRlcyE=", "dGhpcyBp"},
	"EVM key":                 {"0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318", "4c0883a6"},
	"EVM key, bare":           {"4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318", "4c0883a6"},
	"Bitcoin key":             {"5HueCGU8rMjxEXxiPuD5BDku4MkFqeZyd4dZ1jvhTVqvbTLvyTJ", "HueCGU8r"},
	"extended key":            {"xprv9s21ZrQH143K3QTDL4LXw2F7HEK3wJUD2nW2nRk4stbPy6cq3jPPqjiChkVvvNKmPGJxWUtg6LnF5kejMRNNU3TGtRBeJgk33yuGBxrMPHi", "9s21ZrQH"},
	"bearer token":            {"Bearer 9f86d081884c7d659a2feaa0c55ad015", "9f86d081"},
	"JSON web token":          {"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U", "dozjgNry"},
	"PEM":                     {"-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIIrYSSNQFaA2Hwf1duRSxKtLYX5CB04f\n-----END EC PRIVATE KEY-----\n", "MHcCAQEE"},
	"PEM without breaks":      {"-----BEGIN PRIVATE KEY-----MHcCAQEEIIrYSSNQFaA2Hwf1duRSxKtLYX5CB04f", "MHcCAQEE"},
	"Ed25519 key":             {"MHcCAQEEIIrYSSNQFaA2Hwf1duRSxKtLYX5CB04fMHcCAQEEIIrYSSNQFaA2Hwf1duRSxKtLYX5CB04fMHcCAQ==", "MHcCAQEE"},
	"token":                   {"kL0paVL2SdmJSYsNsOCMgkL0paVL2SdmJSYsNsOCMg1", "kL0paVL2"},
	"DSN":                     {"postgres://u:hunter2hunter2@db.example/base", "hunter2"},
	"seed phrase":             {"legal winner thank year wave sausage worth useful legal winner thank yellow", "sausage"},
	"seed phrase in text":     {"Write to us. 1. LETTER 2. ADVICE 3. CAGE 4. ABSURD 5. AMOUNT 6. DOCTOR 7. ACOUSTIC 8. AVOID 9. LETTER 10. ADVICE 11. CAGE 12. ABOVE, thanks", "ABSURD"},
	"seed phrase with a slip": {"zoo, zoo, zoo, zoo, zoo, zoo, zoo, zoo, sausage, zoo, zoo, zoo, zoo, zoo, zoo", "sausage"},
	"token of ntfy":           {"tk_AgQdq7mVBoFD37zQVN29RhuMzNIz2", "AgQdq7mV"},
	"EVM key in text":         {"Acme 4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318, thanks", "4c0883a6"},
	"EVM key as host":         {"https://4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318", "4c0883a6"},
	"words of a DSN":          {"host=db.example password=hunter2hunter2", "hunter2"},
}

// alone are the kinds that an address may well hold: it is random, too.
var alone = []string{"EVM key, bare", "EVM key in text", "EVM key as host", "Ed25519 key", "token", "bearer token", "words of a DSN"}

// misplacedAt are places for a value in a Caddyfile, by their options. What takes
// a secret itself is not among them.
var misplacedAt = map[string]string{
	"pay_offer id":                 "id %s",
	"pay_offer base_url":           "base_url %s",
	"pay_offer site_url":           "site_url %s",
	"pay_offer name":               "name %s",
	"pay_offer operator":           "operator %s",
	"pay_offer description":        "description %s",
	"pay_offer contact":            "contact %s",
	"pay_offer source_url":         "source_url %s",
	"pay_offer account":            "account %s",
	"pay_offer amount":             "amount %s",
	"pay_offer ignore_payer":       "ignore_payer %s",
	"pay_offer rate_limit":         "rate_limit %s 1m",
	"pay_offer card":               "card %s",
	"pay_offer usdc":               "usdc %s 0x52908400098527886E0F7030069857D2E4169EE7",
	"pay_offer bitcoin":            "bitcoin %s",
	"pay_offer bank_transfer":      "bank_transfer %s pay@example.com",
	"pay_offer storefront":         "storefront %s https://shop.example",
	"pay_offer announce":           "announce %s",
	"pay_offer testnet":            "testnet %s",
	"pay_offer recommend":          "recommend %s",
	"pay_offer logo":               "logo %s",
	"pay_offer thanks":             "thanks %s",
	"pay_offer refunds":            "refunds %s",
	"pay_offer legal":              "legal %s",
	"pay_offer goal":               "goal %s",
	"pay_offer tags":               "tags %s",
	"pay_offer mpp":                "mpp %s",
	"card methods":                 "card https://checkout.example {\n methods card %s\n}",
	"card payment_link":            "card https://checkout.example {\n payment_link %s\n}",
	"card test_mode":               "card https://checkout.example {\n test_mode %s\n}",
	"card since":                   "card https://checkout.example {\n since %s\n}",
	"usdc facilitator":             usdcWith("facilitator %s"),
	"usdc rpc":                     usdcWith("rpc %s"),
	"usdc explorer":                usdcWith("explorer %s"),
	"usdc confirm":                 usdcWith("confirm %s"),
	"usdc from_block":              usdcWith("from_block %s"),
	"facilitator timeout":          usdcWith("facilitator https://one.example {\n timeout %s\n}"),
	"bitcoin esplora":              bitcoinWith("esplora %s"),
	"bitcoin explorer":             bitcoinWith("explorer %s"),
	"bitcoin rates":                bitcoinWith("rates %s"),
	"bitcoin confirmations":        bitcoinWith("confirmations %s"),
	"bitcoin since":                bitcoinWith("since %s"),
	"bitcoin address_type":         bitcoinWith("address_type %s"),
	"bitcoin first_address":        bitcoinWith("first_address %s"),
	"bank_transfer memo":           transferWith("memo %s"),
	"bank_transfer iban":           transferWith("iban %s"),
	"bank_transfer bic":            transferWith("bic %s"),
	"bank_transfer routing":        transferWith("routing %s"),
	"bank_transfer account":        transferWith("account %s"),
	"bank_transfer price_eur":      transferWith("price_eur %s"),
	"bank_transfer account_holder": transferWith("account_holder %s"),
	"storefront seller":            storefrontWith("seller %s"),
	"storefront product":           storefrontWith("product %s"),
	"storefront since":             storefrontWith("since %s"),
	"ledger":                       "",
	"second arguments: rate":       "rate_limit 10 %s",
	"second arguments: usdc":       "usdc base-sepolia %s",
	"second arguments: inbox":      "bank_transfer transfer %s",
	"second arguments: shop":       "storefront shop %s",
	"a name in an address":         "card https://checkout.example/%s",
	"a public address":             "source_url https://code.example/?q=%s",
	"the host of an upstream":      "announce https://%s/",
	"no option":                    "%s",
	"no option of card":            "card https://checkout.example {\n %s\n}",
	"an argument too many":         "name a %s",
	"a secret and another":         "card https://checkout.example {\n webhook_secret {env.A} %s\n}",
	"a name, beside a mistake":     "storefront %s https://shop.example {\n token {env.A}\n}",
	"email smtp":                   emailWith("smtp %s"),
	"email from":                   emailWith("from %s"),
	"email user":                   emailWith("user %s"),
	"email tls":                    emailWith("tls %s"),
	"second arguments: ntfy":       "announce ntfy %s",
	"second arguments: email":      "announce email %s",
}

func usdcWith(option string) string {
	return "usdc base-sepolia 0x52908400098527886E0F7030069857D2E4169EE7 {\n " + option + "\n}"
}

func bitcoinWith(option string) string {
	return "bitcoin bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4 {\n " + option + "\n}"
}

func transferWith(option string) string {
	return "bank_transfer pay@example.com {\n " + option + "\n}"
}

func storefrontWith(option string) string {
	return "storefront shop https://shop.example {\n " + option + "\n}"
}

func emailWith(option string) string {
	line := "announce email pay@example.com {\n " + option + "\n"
	for needed, example := range map[string]string{"smtp ": "smtp localhost:25", "password ": "password {env.A}", "user ": "user pay"} {
		if !strings.HasPrefix(option, needed) {
			line += " " + example + "\n"
		}
	}
	return line + "}"
}

// keeping are the options that secrets are written to.
var keeping = []string{
	"card webhook_secret", "card api_key", "facilitator key_id", "facilitator key_secret", "facilitator header", "storefront hook_secret", "storefront token", "announce secret",
	"ntfy token", "email password",
}

// offering is a Caddyfile with a line in the directive, or a ledger for none.
func offering(line, value string) string {
	if line == "" {
		return "{\n pay_offer {\n  ledger sqlite " + value + "\n }\n}\n" + strings.ReplaceAll(smallest, "SERVICE", "http://localhost:8402")
	}
	site := "http://localhost:8402 {\n pay_offer {\n"
	for option, needed := range map[string]string{"base_url": "base_url http://localhost:8402", "card": "card https://checkout.example/pay"} {
		if !strings.HasPrefix(line, option+" ") {
			site += needed + "\n"
		}
	}
	return site + fmt.Sprintf(line, value) + "\n }\n}\n"
}

func TestEveryOptionIsKnownToTheTableOfSecrets(t *testing.T) {
	all := blocks()
	all["pay_offer"] = new(Handler).options()
	for name, options := range all {
		for option := range options {
			_, refused := misplacedAt[name+" "+option]
			require.True(t, refused || slices.Contains(keeping, name+" "+option), "%s %s", name, option)
		}
	}
}

// A secret in the wrong place is refused, in the Caddyfile and by what a
// placeholder became, and no error repeats it.
func TestASecretInTheWrongPlaceIsRefusedAndNeverRepeated(t *testing.T) {
	for _, place := range slices.Sorted(maps.Keys(misplacedAt)) {
		line := misplacedAt[place]
		within := strings.ContainsAny(line, "/=") && !strings.Contains(line, " %s")
		for kind, secret := range secrets {
			if within && slices.Contains(alone, kind) {
				continue // known only where it stands for itself
			}
			t.Run(place+"/"+kind, func(t *testing.T) {
				value := secret.value
				if within {
					value = strings.ReplaceAll(value, "\n", "")
				}
				_, _, err := adaptAny(offering(line, `"`+value+`"`))
				require.Error(t, err)
				require.NotContains(t, err.Error(), secret.part)
				require.NotContains(t, err.Error(), secret.value)

				t.Setenv("OFFER_TEST_MISPLACED", secret.value)
				config, _, err := adaptAny(offering(line, "{env.OFFER_TEST_MISPLACED}"))
				if err == nil {
					err = caddy.Validate(decode(t, config))
				}
				if err != nil { // a number is none, and read from the Caddyfile alone
					require.NotContains(t, err.Error(), secret.part)
				} else {
					require.Contains(t, []string{"usdc from_block", "bitcoin confirmations"}, place)
				}
			})
		}
	}
}

// Whoever pasted a wallet's secret is told what cannot wait, wherever it was, with
// quotes or without.
func TestAWalletsSecretIsRefusedWithAdvice(t *testing.T) {
	for _, place := range slices.Sorted(maps.Keys(misplacedAt)) {
		line := misplacedAt[place]
		if !strings.Contains(line, " %s") || place == "an argument too many" || place == "a secret and another" {
			continue
		}
		for kind, secret := range secrets {
			if !strings.Contains(kind, "seed phrase") {
				continue
			}
			for _, value := range []string{`"` + secret.value + `"`, secret.value} {
				_, _, err := adaptAny(offering(line, value))
				require.ErrorContains(t, err, "move that money to a new wallet now", "%s: %s", place, kind)
				require.ErrorContains(t, err, "the seed phrase of a wallet", "%s: %s", place, kind)
				for _, word := range []string{secret.part, "thank", "zoo", "LETTER"} {
					require.NotContains(t, strings.Fields(err.Error()), word, "%s: %s", place, kind)
				}
			}
		}
	}
}

// formless are secrets that no form tells from what an option may hold.
var formless = map[string]struct{ value, part string }{
	"openssl rand -hex 16":    {"5ecae7f00d5ecae7f00d5ecae7f00d55", "5ecae7f0"},
	"openssl rand -hex 8":     {"5ecae7f00d5ecae7", "5ecae7f0"},
	"upper case":              {"5ECAE7F00D5ECAE7F00D5ECAE7F00D55", "5ECAE7F0"},
	"openssl rand -base64 16": {"XsrnDV7K5w1eyucNXsrnDQ==", "XsrnDV7K"},
	"key id":                  {"5ecae7f0-0d5e-4ae7-b00d-5ecae7f00d55", "0d5e-4ae7"},
	"key in a path":           {"https://mainnet.infura.example/v3/5ecae7f00d5ecae7f00d5ecae7f00d55", "5ecae7f0"},
	"key in a query":          {"https://rpc.example/?apikey=5ecae7f00d5ecae7f00d5ecae7f00d55", "5ecae7f0"},
	"key in a fragment":       {"https://rpc.example/#5ecae7f00d5ecae7f00d5ecae7f00d55", "5ecae7f0"},
	"key in front of a host":  {"https://5ecae7f00d5ecae7f00d5ecae7f00d55@rpc.example/x", "5ecae7f0"},
	"key in plain http":       {"http://rpc.example/v3/5ecae7f00d5ecae7f00d5ecae7f00d55", "5ecae7f0"},
	"key in a label":          {"http://5ecae7f00d5ecae7f00d5ecae7f00d55.rpc.example/x", "5ecae7f0"},
	"key id in a label":       {"http://5ecae7f0-0d5e-4ae7-b00d-5ecae7f00d55.rpc.example/x", "0d5e-4ae7"},
	"a phrase of other words": {"letra avance jaula absurdo monto doctor acoustico evitar letra avance jaula arriba", "acoustico"},
	"a quoted password":       {`correct\"horse battery\" staple`, "staple"},
}

// Most secrets look like nothing. Where a value is wrong, the error says what is
// right and repeats nothing that could be one, whatever the option.
func TestAnErrorRepeatsNothingThatCouldBeASecret(t *testing.T) {
	for _, place := range slices.Sorted(maps.Keys(misplacedAt)) {
		if place == "ledger" { // a path is what its errors tell of
			continue
		}
		for kind, secret := range formless {
			line := misplacedAt[place]
			value := strings.ReplaceAll(secret.value, `\"`, "'")
			if !strings.Contains(line, " %s") && strings.Contains(line, "%s") && line != "%s" {
				value = strings.ReplaceAll(value, " ", "%20")
			}
			t.Setenv("OFFER_TEST_MISPLACED", secret.value)
			for _, config := range []string{offering(line, `"`+value+`"`), offering(line, secret.value), offering(line, "{env.OFFER_TEST_MISPLACED}")} {
				adapted, _, err := adaptAny(config)
				if err == nil {
					err = caddy.Validate(decode(t, adapted))
				}
				if err != nil {
					require.NotContains(t, err.Error(), secret.part, "%s: %s", place, kind)
				}
			}
		}
	}
}

func TestAnErrorRepeatsWhatIsHarmless(t *testing.T) {
	for line, want := range map[string]string{
		"amount 4,20":                     `amount: "4,20" is not an amount`,
		"contact payer":                   `contact: "payer" is not an e-mail address`,
		"site_url http://pay.example.org": `"pay.example.org" is plain http`,
		"site_url http://pay.example-of-a-house.org:80": `"pay.example-of-a-house.org:80" is plain http`,
		"usdc bass 0x1":                               `unknown network "bass"`,
		usdcWith("from_block 0"):                      `from_block: "0" is not a block from 1 on; leave it out to begin with the first start`,
		"site_url https://pay.example.org/shop?key=1": `"https://pay.example.org/…" is more than an origin`,
		"colour red":                                  "unrecognized option 'colour'",
		"account kL0paVL2SdmJSYsN":                    `account: "…" is not an account name; use lower-case letters`,
	} {
		_, _, err := adaptAny(offering(line+"%.0s", ""))
		require.ErrorContains(t, err, want)
	}
}

// What the options hold that secrets are written to is repeated by no mistake in
// or beside them.
func TestASecretInItsPlaceIsNeverRepeated(t *testing.T) {
	for kind, secret := range secrets {
		for _, option := range keeping {
			where, name, _ := strings.Cut(option, " ")
			line := map[string]string{
				"card":        "card https://checkout.example {\n " + name + " %s\n payment_link plink_1\n colour red\n}",
				"facilitator": usdcWith("facilitator https://one.example {\n " + name + " %s\n}"),
				"storefront":  storefrontWith(name + " %s\n product p\n colour red"),
				"ntfy":        "announce ntfy https://one.example/topic {\n " + name + " %s\n colour red\n}",
				"email":       emailWith(name + " %s\n colour red"),
				"announce":    "announce https://one.example {\n " + name + " %s\n colour red\n}",
			}[where]
			_, _, err := adaptAny(offering(line, `"`+secret.value+`"`))
			require.Error(t, err, option)
			require.NotContains(t, err.Error(), secret.part, "%s %s", option, kind)
			t.Setenv("OFFER_TEST_MISPLACED", secret.value)
			config, _, err := adaptAny(offering(strings.Replace(line, "\n colour red", "", 1), "{env.OFFER_TEST_MISPLACED}"))
			if err == nil {
				err = caddy.Validate(decode(t, config))
			}
			if err != nil {
				require.NotContains(t, err.Error(), secret.part, "%s %s", option, kind)
			}
		}
	}
}

func TestASecretOfAnotherTypeIsNotRepeatedFromJSON(t *testing.T) {
	const rail = `"usdc": [{"network": "base-sepolia", "address": "0x52908400098527886E0F7030069857D2E4169EE7", %s}]`
	for _, field := range []string{
		`"rate_limit": {"window": %q}`, `"rate_limit": {"attempts": %q}`, `"testnet": %q`, `"bitcoin": {"confirmations": %q}`, `"usdc": %q`,
		fmt.Sprintf(rail, `"facilitators": [{"url": "https://one.example", "timeout": %q}]`), fmt.Sprintf(rail, `"from_block": %q`),
	} {
		for kind, secret := range secrets {
			err := caddy.Validate(handlerConfig(t, `{"base_url": "http://localhost:8402", `+fmt.Sprintf(field, secret.value)+`}`))
			require.Error(t, err, field)
			require.NotContains(t, err.Error(), secret.part, "%s %s", field, kind)
		}
	}
}

// What an offer may well say is not taken for a secret.
func TestWhatIsNoSecretIsTaken(t *testing.T) {
	shipped, err := os.ReadFile("../Caddyfile")
	require.NoError(t, err)
	for _, value := range append(strings.Fields(string(shipped)),
		"https://buy.stripe.com/14k4ixeVD4qT9jS5kk", "https://checkout.stripe.com/c/pay/cs_live_a1GKlqk0dWx3hUfz4cJmQmWnRvT2pZcYbX9sD8fG7hJ6kL5",
		"plink_1MoC3ULkdIwHu7ixZjtGpVl2", "bfi_30HLgGWL8H2wo_Gzlg==", "kL0paVL2SdmJSYsNs-OCMg==", "pay.example.org:8443",
		"https://github.com/example/project/commit/f2ca1bb6c7e907d06dafe4687e579fce76b37e4e", "0x52908400098527886E0F7030069857D2E4169EE7",
		"xpub661MyMwAqRbcFW31YEwpkMuc5THy2PSt5bDMsktWQcFF8syAmRUapSCGu8ED9W6oDMSgv6Zz8idoc4a6mr8BDzTJY47LJhkJ8UB7WEGuduB"[:30],
		"One fixed payment; the bearer of the receipt gets a password.", "pay+42@example.com", "us_bank_account", "eip155:8453",
		"Your payment will keep this project alive for one more year, and you can tell everybody about it; thank you very much.",
		"https://mempool.space/tx/4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b", "sha256:4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b",
		"https://en.wikipedia.org/wiki/Rindfleischetikettierungsueberwachungsaufgabenuebertragungsgesetz", "spdx:AGPL-3.0-or-later",
	) {
		require.NoError(t, checkNoSecret(value), value)
	}
}
