package payoffer

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// The form that an error shows takes exactly as many arguments as the option does.
func TestTheFormOfAnOptionIsTheOneThatIsTaken(t *testing.T) {
	all := blocks()
	all["pay_offer"] = new(Handler).options()
	for _, what := range slices.Sorted(maps.Keys(all)) {
		for _, name := range slices.Sorted(maps.Keys(all[what])) {
			written := form(name)
			require.Equal(t, name, strings.Fields(written)[0])
			optional := strings.Count(written, "[<")
			least, most := strings.Count(written, "<")-optional, strings.Count(written, "<")
			if strings.Contains(written, ">...") {
				most = 4
			}
			for n := range 5 {
				var line strings.Builder
				line.WriteString(name)
				for i := range n {
					fmt.Fprintf(&line, " {env.A%d}", i)
				}
				d := caddyfile.NewTestDispenser(line.String())
				d.Next()
				fresh := blocks()
				fresh["pay_offer"] = new(Handler).options()
				err := fresh[what][name].parse(d)
				refused := err != nil && strings.Contains(err.Error(), "wrong number of arguments")
				require.Equal(t, n < least || n > most, refused, "%s of %s with %d arguments: %v", name, what, n, err)
				if refused {
					require.Contains(t, err.Error(), "write it as: "+written)
				}
			}
		}
	}
}

// example is what an error shows of a right value.
var example = regexp.MustCompile(`(?:\bas in|\bsuch as|write for example|for example|write) ([^\s,;)]+)(?: or (?:as in )?([^\s,;)]+))?`)

// An example that is followed to the letter is taken by the check that gave it.
func TestEveryExampleOfAnErrorPassesItsOwnCheck(t *testing.T) {
	wrong := []string{
		"", "x", "0", "-1", "x y", "http://pay.example", "https://", "https://pay.example/path", "https://pay.example?q", "https://pay.example:x", "https://pay.example:0/",
		"https://u:p@pay.example/", "https://pay.example/%", "https://pay.example/\"", "ftp://pay.example", "me", "1.234", "99999999999", "2001-01-01", "3001-01-01", "DE00", "DE75512108001245126198",
		"ZZ75512108001245126199", "021000022", "12", "0x12", "base-of-mine", "0x52908400098527886E0F7030069857D2E4169eE7", strings.Repeat("z", 600), "a\u0007b",
	}
	shown := make(map[string]bool)
	for name, check := range map[string]func(string) error{
		"origin": checkOrigin, "url": checkURL, "mailbox": checkMailbox, "amount": checkAmount, "network": checkNetwork, "confirm": checkConfirm, "since": checkSince,
		"recommend": checkRecommended, "logo": checkLogo, "tag": checkTag, "account": checkAccount, "rail": checkRailName, "id": checkID, "upstream": checkUpstream,
		"upstream or off": checkUpstreamOrOff, "explorer": checkExplorer, "payment method": checkPaymentMethod, "shop": checkShopID, "iban": checkIBAN, "bic": checkBIC,
		"euros": checkEuros, "routing": checkRouting, "bank account": checkBankAccount, "evm": checkEVMAddress, "bitcoin": offer.CheckBitcoinAccount, "mpp": checkMPP, "rates": checkRateSource,
	} {
		for _, value := range wrong {
			err := check(value)
			if err == nil {
				continue
			}
			said := strings.ReplaceAll(err.Error(), "DE75 5121 0800 1245 1261 99", "DE75512108001245126199")
			for _, found := range example.FindAllStringSubmatch(said, -1) {
				for _, right := range found[1:] {
					if !regexp.MustCompile(`[0-9./]|^[A-Z]{6,}|_`).MatchString(right) || strings.Contains(right, "xn--") || right == "%25" {
						continue // words of the sentence, and what is to be written inside of a value
					}
					require.NoError(t, check(right), "%s of %q: %v", name, value, err)
					shown[name] = true
				}
			}
		}
	}
	for _, name := range []string{"origin", "url", "mailbox", "amount", "since", "logo", "upstream", "explorer", "payment method", "iban", "bic", "euros", "routing"} {
		require.True(t, shown[name], "%s shows no example", name)
	}
}

// Of a variable without a value nothing is left in the file as it is read; the error says
// which it was. One that has a value, or a default, is not at fault.
func TestAVariableWithoutAValueIsNamed(t *testing.T) {
	t.Setenv("OFFER_TEST_SET", "https://checkout.example/pay")
	t.Setenv("OFFER_TEST_EMPTY", "")
	for line, want := range map[string]string{
		"card {$OFFER_TEST_UNSET}":                                "wrong number of arguments for 'card'; {$OFFER_TEST_UNSET} stands there, and the environment variable OFFER_TEST_UNSET is not set; write it as: card <url> { ... }",
		`card "{$OFFER_TEST_EMPTY}"`:                              "every offer has; {$OFFER_TEST_EMPTY} stands there, and the environment variable OFFER_TEST_EMPTY is set to nothing",
		`card "{$OFFER_TEST_EMPTY:https://checkout.example/pay}"`: "every offer has; {$OFFER_TEST_EMPTY:https://checkout.example/pay} stands there, and the environment variable OFFER_TEST_EMPTY is set to nothing",
		"base_url \"{$OFFER_TEST_UNSET}\"":                        "is reached; {$OFFER_TEST_UNSET} stands there",
		"base_url {$OFFER_TEST_UNSET}":                            "'base_url'; {$OFFER_TEST_UNSET} stands there",
		"card {$OFFER_TEST_SET} {$OFFER_TEST_SET}":                "wrong number of arguments for 'card'; write it as",
		"amount {$OFFER_TEST_UNSET:42} 1":                         `wrong number of arguments for 'amount'; write it as: amount "<value>"`,
	} {
		config := offering(line+"%.0s", "")
		file := filepath.Join(t.TempDir(), "Caddyfile")
		require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
		_, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(config), map[string]any{"filename": file})
		require.ErrorContains(t, err, want, line)
	}
}

func TestAPlaceholderWithoutAValueIsNamed(t *testing.T) {
	t.Setenv("OFFER_TEST_SECRET", "5ecae7f00d5ecae7f00d5ecae7f00d55")
	for handler, want := range map[string]string{
		`{"base_url": "{env.OFFER_TEST_UNSET}", "card": {"url": "https://checkout.example/pay"}}`:                        "without a value here: {env.OFFER_TEST_UNSET} (base_url)",
		`{"base_url": "http://localhost:8402", "card": {"url": "{env.OFFER_TEST_UNSET}"}}`:                               "without a value here: {env.OFFER_TEST_UNSET} (card)",
		`{"base_url": "http://localhost:8402{env.OFFER_TEST_UNSET}{env.OFFER_TEST_SECRET}", "card": {"url": "{env.A}"}}`: "{env.A} (card)",
	} {
		err := caddy.Validate(handlerConfig(t, handler))
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "5ecae7f0")
		require.NotContains(t, err.Error(), "OFFER_TEST_SECRET", "it has a value")
	}
}

// Every slip of one key in a name is understood, for it is the nearest: a letter too many, too few, another one, or two that
// changed places. So is its beginning where no other name has it.
func TestEverySlipOfOneKeyInAnOptionIsUnderstood(t *testing.T) {
	all := blocks()
	all["pay_offer"] = new(Handler).options()
	for what, of := range all {
		known := slices.Sorted(maps.Keys(of))
		for _, name := range known {
			var slips []string
			for i := range name {
				slips = append(slips, name[:i]+name[i+1:], name[:i]+"q"+name[i:], name[:i]+"q"+name[i+1:])
				if i > 0 {
					slips = append(slips, name[:i-1]+string([]byte{name[i], name[i-1]})+name[i+1:])
				}
			}
			for _, slip := range slips {
				if len(slip) > 2 && slip != "usd" { // of two letters one is half a word, and usd is that of another option
					require.Equal(t, name, offer.Suggest(slip, known), "%s of %s", slip, what)
				}
			}
		}
	}
	for slip, want := range map[string]string{
		"crad": "card", "cadr": "card", "acrd": "card", "bticoin": "bitcoin", "usdc_": "usdc", "usd_c": "usdc", "udsc": "usdc", "goa": "goal", "gola": "goal", "nmae": "name", "mpp2": "mpp", "mmp": "mpp", "pmp": "mpp",
		"bank_trasnfer": "bank_transfer", "bit": "bitcoin", "stor": "storefront", "rec": "recommend", "ref": "refunds", "si": "site_url", "ca": "card", "op": "operator",
		"base_ulr": "base_url", "s": "", "re": "", "a": "",
	} {
		require.Equal(t, want, offer.Suggest(slip, slices.Sorted(maps.Keys(all["pay_offer"]))), slip)
	}
	for slip, want := range map[string]string{"rcp": "rpc", "prc": "rpc", "rp": "rpc", "rpcs": "rpc", "comfirm": "confirm", "conf": "confirm", "explorre": "explorer", "faciliator": "facilitator", "fac": "facilitator"} {
		require.Equal(t, want, offer.Suggest(slip, slices.Sorted(maps.Keys(all["usdc"]))), slip)
	}
}

func TestAWordForSomethingElseIsUnderstood(t *testing.T) {
	options := slices.Sorted(maps.Keys(new(Handler).options()))
	rails := []string{"card", "usdc", "usdc-8453", "btc", "transfer", "tip-jar"}
	for word, want := range map[string]string{
		"stripe": "card", "btc": "bitcoin", "sepa": "bank_transfer", "iban": "bank_transfer", "bank-transfer": "bank_transfer", "gumroad": "storefront", "x402": "usdc",
		"price": "amount", "email": "contact", "Card": "card", "cards": "card", "operater": "operator", "storefronts": "storefront", "usdt": "usdc", "webhook": "announce",
		"colour": "", "": "", "q": "", "zebra": "", "testnett": "testnet", "ide": "id",
	} {
		require.Equal(t, want, offer.Suggest(word, options), word)
	}
	for word, want := range map[string]string{"stripe": "card", "bitcoin": "btc", "sepa": "transfer", "tip_jar": "tip-jar", "tipjar": "tip-jar", "usdc-8543": "usdc-8453", "paypal": ""} {
		require.Equal(t, want, offer.Suggest(word, rails), word)
	}
}
