package payoffer

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
)

var today = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// shipped is the Caddyfile at the root of the repository, with other lines, as JSON.
func shipped(t *testing.T, lines ...string) string {
	t.Helper()
	content := must(os.ReadFile("../Caddyfile"))(t)
	edited := payoffertest.EditCaddyfile(string(content), lines...)
	return must(adapt(t, string(caddyfile.Format([]byte(edited)))))(t)
}

// validateShipped is 'caddy validate' of the shipped Caddyfile with other lines.
func validateShipped(t *testing.T, lines ...string) error {
	t.Helper()
	return caddy.Validate(decode(t, shipped(t, lines...)))
}

// production are the lines of a public offer, by the option that demoValues names.
var production = map[string]string{
	"base_url": "base_url https://pay.example.org", "site_url": "site_url https://www.example.org",
	"card":               "card https://checkout.example.org/42",
	"usdc":               "usdc base 0x52908400098527886E0F7030069857D2E4169EE7 {\n facilitator https://facilitator.example.org\n}",
	"bitcoin":            "bitcoin bc1q3qxu2dmlrw6sdls82tl369t02yu543z6qlp7lj",
	"bank_transfer":      "bank_transfer bank@example.org",
	"storefront tip-jar": "storefront tip-jar https://shop.example.org/tip",
	"storefront pack":    `storefront pack ""`,
}

// without returns the lines of a public offer but one.
func without(option string) []string {
	lines := maps.Clone(production)
	delete(lines, option)
	return slices.Collect(maps.Values(lines))
}

// A public base_url alone must not publish an offer whose money nobody receives. The error
// names each option that has a demo value.
func TestPublicOfferWithDemoValuesIsRefused(t *testing.T) {
	require.NoError(t, validateShipped(t, without("")...))
	err := validateShipped(t, production["base_url"])
	require.Error(t, err)
	for _, d := range demoValues {
		require.Contains(t, err.Error(), "\n  - "+d.option+"\n")
		require.ErrorContains(t, validateShipped(t, without(d.option)...), "\n  - "+d.option, "one forgotten line is enough")
	}
	require.Contains(t, err.Error(), "usdc is on a test network")
}

// What a seller copied from the documentation pays nobody. The documentation itself is at an example's address.
func TestPublicOfferWithExampleAddressIsRefused(t *testing.T) {
	for address, refused := range map[string]bool{
		"https://buy.stripe.com/your-link": true, "https://buy.stripe.com/YOUR_LINK": true, "https://checkout.example.com/link": true,
		"https://checkout.example": true, "https://shop.test:8443/a": true, "https://example.org/a?b": true,
		"https://buy.stripe.com/your-links": false, "https://my-example.com/a": false, "https://pay.test.dev/a": false, "https://gumroad.com/l/test": false, "https://shop.dev/test/a": false,
		"https://shop.dev/a@shop.example": false, "https://buy.stripe.com/1": false,
	} {
		for base, shown := range map[string]bool{"https://pay.janedoe.dev": refused, "https://pay.example.org": false, "http://localhost:8402": false} {
			h := &Handler{BaseURL: base, Card: &CardConfig{URL: address}}
			_, err := h.settings(newResolver(), today)
			require.Equal(t, shown, err != nil, "%s at %s", address, base)
			if shown {
				require.ErrorContains(t, err, "\n  - "+address+" is an example of the documentation")
			}
		}
	}
	h := &Handler{BaseURL: "https://pay.janedoe.dev", Card: &CardConfig{URL: "https://buy.stripe.com/1"}, Lightning: &LightningConfig{Address: "alice@wallet.example"}}
	require.ErrorContains(t, errorOf(h.settings(newResolver(), today)), "alice@wallet.example is an example of the documentation")
}

func TestPublicTestNetworkNeedsTestnetOption(t *testing.T) {
	h := &Handler{
		BaseURL: "https://pay.example.org", Card: &CardConfig{URL: "https://checkout.example.org/42"},
		USDC: []*USDCConfig{{Network: "base-sepolia", Address: "0x52908400098527886E0F7030069857D2E4169EE7"}},
	}
	require.ErrorContains(t, errorOf(h.settings(newResolver(), today)), "usdc is on a test network")
	h.Testnet = true
	must(h.settings(newResolver(), today))(t)
}

func TestKnownTestKeysAreRefused(t *testing.T) {
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
func TestPublicTestCheckoutNeedsTestMode(t *testing.T) {
	const card = "card https://buy.stripe.com/test_1"
	require.ErrorContains(t, validateShipped(t, append(without("card"), card)...), "card is a test checkout, which takes no real payments")
	require.NoError(t, validateShipped(t, append(without("card"), card+" {\n test_mode\n}")...))
	require.NoError(t, validateShipped(t, append(without("card"), card, "testnet")...))
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

func TestMinimalOfferLogsNoWarnings(t *testing.T) {
	warnings, log := warned(t, smallest)
	require.Empty(t, warnings)
	require.Equal(t, 1, strings.Count(log, "the offer is open"))
	require.Contains(t, log, "/v1/pay")
	require.Contains(t, log, "/offer/")
}

// The key of another account, or of another kind, is seen by comparing.
func TestExtendedKeyLogsFirstAddresses(t *testing.T) {
	const zpub = "zpub6rFR7y4Q2AijBEqTUquhVz398htDFrtymD9xYYfG1m4wAcvPhXNfE3EfH1r1ADqtfSdVCToUG868RvUUkgDKf31mGDtKsAYz2oz2AGutZYs"
	const card = "card https://checkout.example/pay"
	_, log := warned(t, strings.Replace(smallest, card, card+"\n\t\tbitcoin "+zpub+" {\n\t\t\tesplora http://127.0.0.1:9 http://localhost:9\n\t\t}", 1))
	require.Equal(t, 1, strings.Count(log, "compare these addresses with your wallet"))
	require.Contains(t, log, `"addresses":["bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu","bc1qnjg0jd8228aq7egyzacy8cys3knf9xvrerkf9g"]`)
	require.NotContains(t, log, zpub[4:20])
}

// Each kind of likely mistake is one line that names its options; a secret is
// in none of them.
func TestSecretWarningsHideSecrets(t *testing.T) {
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
func TestIncompleteEndpointLoginWarning(t *testing.T) {
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

// sinceEverywhere is a handler that has the option in each of its places.
func sinceEverywhere(since string) *Handler {
	return &Handler{
		BaseURL: "http://localhost:8402", Card: &CardConfig{URL: "https://checkout.example/pay", Since: since},
		Bitcoin:     &BitcoinConfig{Account: "bc1q3qxu2dmlrw6sdls82tl369t02yu543z6qlp7lj", Since: since},
		Storefronts: []*StorefrontConfig{{Name: "shop", URL: "https://shop.example", Since: since}},
	}
}

func TestSinceFormats(t *testing.T) {
	t.Setenv("OFFER_TEST_SINCE", "2026-11-01")
	for since, want := range map[string]time.Time{
		"":                          time.Unix(0, 0),
		"2026-11-01":                time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
		"{env.OFFER_TEST_SINCE}":    time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
		"{env.OFFER_TEST_UNSET}":    time.Unix(0, 0),
		"2026-11-01T09:00:00Z":      time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC),
		"2026-11-01T09:00:00-02:30": time.Date(2026, 11, 1, 11, 30, 0, 0, time.UTC),
		"2009-01-01":                time.Date(2009, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		s, err := sinceEverywhere(since).settings(newResolver(), today)
		require.NoError(t, err, since)
		require.Equal(t, want.Unix(), service.RailsOf[service.Card](s)[0].Since, since)
		require.Equal(t, want.Unix(), service.RailsOf[service.Bitcoin](s)[0].Since, since)
		require.Equal(t, want.Unix(), service.RailsOf[service.Storefront](s)[0].Since, since)
	}
}

func TestSinceErrors(t *testing.T) {
	for since, want := range map[string]string{
		"yesterday":            `"yesterday" is not a date`,
		"2026-11-31":           `"2026-11-31" is not a date`,
		"2026-11-01T09:00:00":  "is not a date", // of which time zone?
		"2008-12-31":           "2008-12-31 is before 2009",
		"2008-12-31T23:59:59Z": "is before 2009",
		time.Now().Add(time.Minute).Format(time.RFC3339):        "is in the future",
		time.Now().AddDate(0, 0, 2).UTC().Format(time.DateOnly): "is in the future",
	} {
		_, err := sinceEverywhere(since).settings(newResolver(), today)
		for _, option := range []string{"card since: ", "bitcoin since: ", "storefront shop since: "} {
			require.ErrorContains(t, err, option, since)
		}
		require.ErrorContains(t, err, want)
	}
}

func TestUnusedSinceWarning(t *testing.T) {
	t.Setenv("OFFER_TEST_HIDDEN", "hidden-secret")
	warnings := func(h *Handler) (log string) {
		s := must(h.settings(newResolver(), today))(t)
		var lines strings.Builder
		s.Warn(slog.New(slog.NewTextHandler(&lines, nil)))
		return lines.String()
	}
	h := sinceEverywhere("2026-11-01")
	h.Bitcoin.Esplora = []string{"off"}
	for _, option := range []string{"api_key", "esplora", "token"} {
		require.Contains(t, warnings(h), "missing="+option)
	}
	h.Card.PaymentLink, h.Card.APIKey = "plink_1", "{env.OFFER_TEST_HIDDEN}"
	h.Bitcoin.Esplora = nil
	h.Storefronts[0].Product, h.Storefronts[0].Token = "p", "{env.OFFER_TEST_HIDDEN}"
	require.NotContains(t, warnings(h), "since has no effect")

	lines, _ := warned(t, strings.Replace(smallest, "/pay\n", "/pay {\n\t\t\tsince 2026-11-01\n\t\t}\n", 1))
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], `"missing":"api_key"`)
}

// What is warned of is what Caddy takes for the client's address, and the warning
// names the option that changes it.
func TestUntrustedProxyWarning(t *testing.T) {
	const strict = "\n\t\ttrusted_proxies_strict\n\t}\n\t"
	for _, c := range []struct {
		name, base, option string
		socket, warned     bool
	}{
		{name: "not trusted", base: "https://pay.example.org", warned: true},
		{name: "trusted", base: "https://pay.example.org", option: "servers {\n\t\ttrusted_proxies static private_ranges" + strict},
		{name: "a socket", base: "https://pay.example.org", socket: true, warned: true},
		{name: "a trusted socket", base: "https://pay.example.org", socket: true, option: "servers {\n\t\ttrusted_proxies_unix" + strict},
		{name: "a demo", base: "SERVICE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := newInstance(t)
			site := strings.NewReplacer("base_url SERVICE", "base_url "+c.base+"\n\t\ttestnet").Replace(smallest)
			if c.socket {
				socket := filepath.Join(i.folder, "socket")
				site = strings.Replace(site, "pay_offer {", "bind unix/"+socket+"\n\tpay_offer {", 1)
				i.client.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, "unix", socket)
				}
			}
			caddyfile := strings.Replace(i.caddyfile(site), "admin off", c.option+"admin off", 1)
			require.NoError(t, loadCaddyfile(t, caddyfile))
			request := must(http.NewRequestWithContext(t.Context(), http.MethodPost, i.service+"/v1/sponsor", nil))(t)
			request.Header.Set("X-Forwarded-For", "198.51.100.7")
			request.Header.Set("PAYMENT-SIGNATURE", "e30=")
			response := must(i.client.Do(request))(t)
			require.NoError(t, response.Body.Close())
			require.Equal(t, http.StatusBadRequest, response.StatusCode)
			require.Equal(t, c.warned, strings.Contains(i.log(), "all payers share one rate limit"))
		})
	}
}
