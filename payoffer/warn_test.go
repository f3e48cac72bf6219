package payoffer

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

var today = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// shipped is the Caddyfile at the root of the repository, as JSON.
func shipped(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile("../Caddyfile")
	require.NoError(t, err)
	require.Equal(t, string(caddyfile.Format(content)), string(content), "run 'caddy fmt'")
	config, err := adapt(t, string(content))
	require.NoError(t, err)
	return config
}

// production are the variables that make the shipped Caddyfile a public one.
var production = map[string]string{
	"BASE_URL": "https://pay.example.org", "SITE_URL": "https://www.example.org",
	"CARD_URL": "https://checkout.example.org/42", "USDC_NETWORK": "base",
	"USDC_ADDRESS": "0x52908400098527886E0F7030069857D2E4169EE7", "USDC_FACILITATOR": "https://facilitator.example.org",
	"BTC_ADDRESS": "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "TRANSFER_INBOX": "bank@example.org",
	"TIP_JAR_URL": "", "PACK_URL": "",
}

func TestShippedCaddyfileIsMadePublicByVariablesAlone(t *testing.T) {
	for name, value := range production {
		t.Setenv(name, value)
	}
	require.NoError(t, caddy.Validate(decode(t, shipped(t))))
}

// BASE_URL alone must not open an offer whose money goes to nobody: what is
// missing is listed by its variable, completely.
func TestPublicOfferWithDemoValuesIsRefused(t *testing.T) {
	t.Setenv("BASE_URL", production["BASE_URL"])
	err := caddy.Validate(decode(t, shipped(t)))
	require.Error(t, err)
	for _, d := range demoValues {
		require.Contains(t, err.Error(), d.option+" ("+d.variable+")")
	}
	require.Contains(t, err.Error(), "usdc is on a test network")

	// Each one that is forgotten is enough.
	for _, d := range demoValues {
		t.Run(d.variable, func(t *testing.T) {
			for name, value := range production {
				t.Setenv(name, value)
			}
			require.NoError(t, os.Unsetenv(d.variable))
			require.ErrorContains(t, caddy.Validate(decode(t, shipped(t))), d.variable)
		})
	}
}

func TestTestNetworksOnAPublicHostNeedTheOptionTestnet(t *testing.T) {
	h := &Handler{
		BaseURL: "https://pay.example.org", Card: &CardConfig{URL: "https://checkout.example.org/42"},
		USDC: []*USDCConfig{{Network: "base-sepolia", Address: "0x52908400098527886E0F7030069857D2E4169EE7"}},
	}
	_, err := h.settings(newResolver(), today)
	require.ErrorContains(t, err, "usdc is on a test network")
	h.Testnet = true
	_, err = h.settings(newResolver(), today)
	require.NoError(t, err)
}

func TestPublishedTestKeysAreRefusedOnAPublicHost(t *testing.T) {
	withBitcoin := func(account, first string) *Handler {
		return &Handler{Bitcoin: &BitcoinConfig{Account: account, FirstAddress: first}}
	}
	withUSDC := func(address string) *Handler {
		return &Handler{USDC: []*USDCConfig{{Network: "base", Address: address, Facilitators: []*FacilitatorConfig{{URL: "https://facilitator.example.org"}}}}}
	}
	const abandon = "bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu"
	check := func(h *Handler, base string) error {
		h.BaseURL, h.SiteURL, h.Card = base, "https://example.org", &CardConfig{URL: "https://checkout.example.org/42"}
		_, err := h.settings(newResolver(), today)
		return err
	}
	for name, make := range map[string]func() *Handler{
		"BIP-84 address": func() *Handler { return withBitcoin(abandon, "") },
		"BIP-84 zpub": func() *Handler {
			return withBitcoin("zpub6rFR7y4Q2AijBEqTUquhVz398htDFrtymD9xYYfG1m4wAcvPhXNfE3EfH1r1ADqtfSdVCToUG868RvUUkgDKf31mGDtKsAYz2oz2AGutZYs", "")
		},
		"BIP-84 xpub": func() *Handler {
			return withBitcoin("xpub6CatWdiZiodmUeTDp8LT5or8nmbKNcuyvz7WyksVFkKB4RHwCD3XyuvPEbvqAQY3rAPshWcMLoP2fMFMKHPJ4ZeZXYVUhLv1VMrjPC7PW6V", abandon)
		},
		"BIP-86 address": func() *Handler {
			return withBitcoin("bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr", "")
		},
		"BIP-44 address":  func() *Handler { return withBitcoin("1LqBGSKuX5yYUonjxT5qGfpUsXKYYWeabA", "") },
		"Hardhat account": func() *Handler { return withUSDC("0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266") },
		"EIP-55 example":  func() *Handler { return withUSDC("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed") },
	} {
		require.ErrorContains(t, check(make(), "https://pay.example.org"), "published test key", name)
		require.NoError(t, check(make(), "http://localhost:8402"), name)
	}
	require.NoError(t, check(withBitcoin(payoffertest.BitcoinKey, payoffertest.BitcoinFirstAddress), "https://pay.example.org"))
	require.NoError(t, check(withUSDC(payoffertest.EVMAddress), "https://pay.example.org"))
}

// A test checkout shows its payers a success, and nobody has paid.
func TestATestCheckoutOnAPublicHostIsMeant(t *testing.T) {
	for name, value := range production {
		t.Setenv(name, value)
	}
	t.Setenv("CARD_URL", "https://buy.stripe.com/test_1")
	require.ErrorContains(t, caddy.Validate(decode(t, shipped(t))), "card is a test checkout, which takes no real payments (CARD_URL)")
	for _, meant := range []string{"CARD_TEST_MODE", "TESTNET"} {
		t.Run(meant, func(t *testing.T) {
			t.Setenv(meant, "on")
			require.NoError(t, caddy.Validate(decode(t, shipped(t))))
		})
	}
}

// warned is what stands in the log of an instance after sites were loaded:
// every warning of this module about them. Nobody listens at the facilitators
// of these sites, which is said too, sooner or later.
func warned(t *testing.T, sites string) (warnings []string, log string) {
	t.Helper()
	i := newInstance(t)
	require.NoError(t, i.load(sites))
	log = i.log()
	for _, line := range strings.Split(log, "\n") {
		if strings.Contains(line, `"level":"warn"`) && strings.Contains(line, `"logger":"pay_offer"`) &&
			!strings.Contains(line, "facilitator is down") {
			warnings = append(warnings, line)
		}
	}
	return warnings, log
}

func TestSmallestOfferWarnsOfNothingAndNamesItsAddresses(t *testing.T) {
	warnings, log := warned(t, smallest)
	require.Empty(t, warnings)
	require.Equal(t, 1, strings.Count(log, "the offer is open"))
	require.Contains(t, log, "/v1/pay")
	require.Contains(t, log, "/offer/")
}

// The key of another account, or of another kind, is seen by comparing.
func TestFirstAddressesOfAnExtendedKeyAreLoggedAndTheKeyIsNot(t *testing.T) {
	const zpub = "zpub6rFR7y4Q2AijBEqTUquhVz398htDFrtymD9xYYfG1m4wAcvPhXNfE3EfH1r1ADqtfSdVCToUG868RvUUkgDKf31mGDtKsAYz2oz2AGutZYs"
	const card = "card https://checkout.example/pay"
	_, log := warned(t, strings.Replace(smallest, card, card+"\n\t\tbitcoin "+zpub+" {\n\t\t\tesplora http://127.0.0.1:9 http://localhost:9\n\t\t}", 1))
	require.Equal(t, 1, strings.Count(log, "compare these addresses with your wallet"))
	require.Contains(t, log, `"addresses":["bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu","bc1qnjg0jd8228aq7egyzacy8cys3knf9xvrerkf9g"]`)
	require.NotContains(t, log, zpub[4:20])
}

// Each kind of likely mistake is one line that names its options; a secret is
// in none of them.
func TestSecretsAreWarnedOfAndNeverLogged(t *testing.T) {
	t.Setenv("OFFER_TEST_HIDDEN", "hidden-secret")
	warnings, log := warned(t, `SERVICE {
	pay_offer {
		base_url SERVICE
		amount 43
		card https://checkout.example/pay {
			payment_link plink_1
			webhook_secret whsec_literal_0123456789abcdef-secret
			api_key {env.OFFER_TEST_UNSET}
		}
		usdc base 0x52908400098527886E0F7030069857D2E4169EE7 {
			facilitator http://127.0.0.1:9/{env.OFFER_TEST_HIDDEN} {
				key_id {env.OFFER_TEST_UNSET}
				key_secret {env.OFFER_TEST_HIDDEN}
			}
			rpc off
		}
		announce http://127.0.0.1:9/hook-{env.OFFER_TEST_HIDDEN}
	}
}
`)
	require.Len(t, warnings, 5)
	for n, want := range [][]string{
		{"the variables of secrets are not set", "card api_key", "usdc base facilitator key_id"},
		{"secrets are in the configuration", "card webhook_secret"},
		{"the amount is not 42"},
		{"webhooks are not signed", "127.0.0.1"},
		{"rpc is off on a main network", "base"},
	} {
		for _, text := range want {
			require.Contains(t, warnings[n], text)
		}
	}
	require.NotContains(t, log, "literal-secret")
	require.NotContains(t, log, "hidden-secret")
}

// Who logs in nowhere is warned of nothing; half of a login is none, and is told of
// by the option that has no value.
func TestTheLoginOfAnAnnouncementIsWhollyThereOrOff(t *testing.T) {
	t.Setenv("OFFER_TEST_HIDDEN", "hidden-secret")
	for name, c := range map[string]struct{ user, password, token, want string }{
		"whole":       {"{env.OFFER_TEST_HIDDEN}", "{env.OFFER_TEST_HIDDEN}", "{env.OFFER_TEST_HIDDEN}", ""},
		"none":        {"{env.OFFER_TEST_UNSET}", "{env.OFFER_TEST_UNSET}", "{env.OFFER_TEST_HIDDEN}", ""},
		"no password": {"pay", "{env.OFFER_TEST_UNSET}", "{env.OFFER_TEST_HIDDEN}", `"options":["announce[1] email password {env.OFFER_TEST_UNSET}"]`},
		"no user":     {"{env.OFFER_TEST_UNSET}", "{env.OFFER_TEST_HIDDEN}", "{env.OFFER_TEST_HIDDEN}", `"options":["announce[1] email user {env.OFFER_TEST_UNSET}"]`},
		"no token":    {"{env.OFFER_TEST_UNSET}", "{env.OFFER_TEST_UNSET}", "{env.OFFER_TEST_UNSET}", `"options":["announce[0] ntfy token {env.OFFER_TEST_UNSET}"]`},
	} {
		t.Run(name, func(t *testing.T) {
			warnings, log := warned(t, strings.Replace(smallest, "\t\tusdc", `		announce ntfy http://127.0.0.1:9/hidden-topic {
			token `+c.token+`
		}
		announce email pay@example.com {
			smtp 127.0.0.1:9
			user `+c.user+`
			password `+c.password+`
		}
		usdc`, 1))
			require.NotContains(t, log, "hidden-")
			if c.want == "" {
				require.Empty(t, warnings)
				return
			}
			require.Len(t, warnings, 1)
			require.Contains(t, warnings[0], "the variables of secrets are not set")
			require.Contains(t, warnings[0], c.want)
		})
	}
}

// A quote that a proxy's default buffer has no room for is told by its size,
// with what to write there.
func TestAQuoteTooLargeForAProxyIsWarnedOf(t *testing.T) {
	const card = "https://checkout.example/pay"
	warnings, _ := warned(t, strings.Replace(smallest, card, card+"?"+strings.Repeat("c", 2200), 1))
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], "proxy_buffer_size 8k;")
	require.Regexp(t, `"bytes":4[0-9]{3}\b`, warnings[0])
}
