package payoffer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

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

func TestTheHeaderOfAFacilitatorIsASecret(t *testing.T) {
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

func TestWhatIsNoHeaderOfAFacilitatorIsRefused(t *testing.T) {
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
