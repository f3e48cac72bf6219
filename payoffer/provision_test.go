package payoffer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
)

// handlerConfig is a JSON configuration with one handler.
func handlerConfig(t *testing.T, handler string) *caddy.Config {
	t.Helper()
	require.True(t, json.Valid([]byte(handler)), handler)
	handler = `{"handler": "pay_offer", ` + strings.TrimPrefix(strings.TrimSpace(handler), "{")
	return decode(t, `{"admin": {"disabled": true}, "apps": {"http": {"servers": {"srv0": {
		"listen": ["127.0.0.1:8402"], "routes": [{"handle": [`+handler+`]}]}}}}}`)
}

// JSON is equal in power to the Caddyfile: the same mistakes are refused.
func TestJSONConfigurationIsChecked(t *testing.T) {
	const valid = `"base_url": "http://localhost:8402", "card": {"url": "https://checkout.example/pay"}`
	require.NoError(t, caddy.Validate(handlerConfig(t, "{"+valid+"}")))
	for name, c := range map[string]struct{ handler, want string }{
		"no base_url":         {`{"card": {"url": "https://checkout.example/pay"}}`, "base_url: the option is missing or empty"},
		"no card":             {`{"base_url": "http://localhost:8402"}`, "the card checkout is missing"},
		"empty card":          {`{"base_url": "http://localhost:8402", "card": {}}`, "card: the address is empty"},
		"unknown field":       {`{` + valid + `, "colour": "red"}`, `unknown field "colour"`},
		"base_url with path":  {`{"base_url": "https://pay.example.org/x", "card": {"url": "https://checkout.example/pay"}}`, "base_url: "},
		"two mistakes":        {`{` + valid + `, "contact": "me", "amount": "free"}`, "amount: "},
		"amount":              {`{` + valid + `, "amount": "free"}`, "not an amount"},
		"id":                  {`{` + valid + `, "id": "my offer"}`, "id: "},
		"name":                {`{` + valid + `, "name": "a\u0007b"}`, "control character"},
		"rate limit":          {`{` + valid + `, "rate_limit": {"attempts": -1}}`, "rate_limit: "},
		"network":             {`{` + valid + `, "usdc": [{"address": "0x52908400098527886E0F7030069857D2E4169EE7"}]}`, "usdc: the network is empty"},
		"mainnet":             {`{` + valid + `, "usdc": [{"network": "base", "address": "0x52908400098527886E0F7030069857D2E4169EE7"}]}`, "a facilitator must settle"},
		"two on one chain":    {`{` + valid + `, "usdc": [{"network": "base-sepolia", "address": "0x52908400098527886E0F7030069857D2E4169EE7"}, {"network": "eip155:84532", "address": "0x52908400098527886E0F7030069857D2E4169EE7"}]}`, "two usdc options name this network"},
		"token contract":      {`{` + valid + `, "usdc": [{"network": "base-sepolia", "address": "0x036CbD53842c5426634e7929541eC2318f3dCF7e"}]}`, "money sent there is lost"},
		"rpc off and on":      {`{` + valid + `, "usdc": [{"network": "base-sepolia", "address": "0x52908400098527886E0F7030069857D2E4169EE7", "rpc": ["off", "https://rpc.example"]}]}`, "'off' cannot be combined with endpoints"},
		"half a key":          {`{` + valid + `, "usdc": [{"network": "base-sepolia", "address": "0x52908400098527886E0F7030069857D2E4169EE7", "facilitators": [{"url": "https://one.example", "key_id": "{env.X}"}]}]}`, "are needed together"},
		"half a header":       {`{` + valid + `, "usdc": [{"network": "base-sepolia", "address": "0x52908400098527886E0F7030069857D2E4169EE7", "facilitators": [{"url": "https://one.example", "header_value": "{env.X}"}]}]}`, "a header needs a name and a value"},
		"two on one host":     {`{` + valid + `, "usdc": [{"network": "base-sepolia", "address": "0x52908400098527886E0F7030069857D2E4169EE7", "facilitators": [{"url": "https://one.example/a"}, {"url": "https://one.example/b"}]}]}`, "usdc has two facilitators on the host one.example"},
		"negative timeout":    {`{` + valid + `, "usdc": [{"network": "base-sepolia", "address": "0x52908400098527886E0F7030069857D2E4169EE7", "facilitators": [{"url": "https://one.example", "timeout": -1}]}]}`, "timeout: the duration is negative"},
		"bitcoin":             {`{` + valid + `, "bitcoin": {"account": "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5"}}`, "bitcoin: "},
		"confirmations":       {`{` + valid + `, "bitcoin": {"account": "bc1q3qxu2dmlrw6sdls82tl369t02yu543z6qlp7lj", "confirmations": 101}}`, "confirmations: "},
		"unconfirmed key":     {`{` + valid + `, "bitcoin": {"account": "xpub6CatWdiZiodmUeTDp8LT5or8nmbKNcuyvz7WyksVFkKB4RHwCD3XyuvPEbvqAQY3rAPshWcMLoP2fMFMKHPJ4ZeZXYVUhLv1VMrjPC7PW6V"}}`, "bitcoin: an xpub does not say"},
		"first address":       {`{` + valid + `, "bitcoin": {"account": "xpub6CatWdiZiodmUeTDp8LT5or8nmbKNcuyvz7WyksVFkKB4RHwCD3XyuvPEbvqAQY3rAPshWcMLoP2fMFMKHPJ4ZeZXYVUhLv1VMrjPC7PW6V", "first_address": "bc1qnjg0jd8228aq7egyzacy8cys3knf9xvrerkf9g"}}`, "bitcoin: first_address is address 1"},
		"address type":        {`{` + valid + `, "bitcoin": {"account": "xpub6CatWdiZiodmUeTDp8LT5or8nmbKNcuyvz7WyksVFkKB4RHwCD3XyuvPEbvqAQY3rAPshWcMLoP2fMFMKHPJ4ZeZXYVUhLv1VMrjPC7PW6V", "address_type": "p2tr"}}`, "bitcoin address_type: p2tr"},
		"repeated source":     {`{` + valid + `, "bitcoin": {"account": "bc1q3qxu2dmlrw6sdls82tl369t02yu543z6qlp7lj", "rates": ["kraken", "kraken"]}}`, "given twice"},
		"reserved name":       {`{` + valid + `, "storefronts": [{"name": "usdc", "url": "https://shop.example"}]}`, "reserved"},
		"storefront no name":  {`{` + valid + `, "storefronts": [{"url": "https://shop.example"}]}`, "the name is empty"},
		"two rails, one name": {`{` + valid + `, "bank_transfer": {"inbox": "pay@example.com"}, "storefronts": [{"name": "transfer", "url": "https://shop.example"}]}`, `two rails are named "transfer"`},
		"no such IBAN":        {`{` + valid + `, "bank_transfer": {"inbox": "pay@example.com", "account_holder": "A", "iban": "DE00512108001245126199"}}`, "bank_transfer iban: the check digits"},
		"nobody's account":    {`{` + valid + `, "bank_transfer": {"inbox": "pay@example.com", "iban": "DE75512108001245126199"}}`, "bank_transfer: account_holder is missing"},
		"account, no inbox":   {`{` + valid + `, "bank_transfer": {"inbox": "{env.OFFER_TEST_UNSET}", "account_holder": "A", "iban": "DE75512108001245126199"}}`, "bank_transfer: {env.OFFER_TEST_UNSET} is not set; set it, or write the e-mail address"},
		"price, no inbox":     {`{` + valid + `, "bank_transfer": {"price_eur": "39.00"}}`, "bank_transfer: the inbox is empty"},
		"no room in the code": {`{` + valid + `, "bank_transfer": {"inbox": "pay@example.com", "account_holder": "A", "iban": "DE75512108001245126199", "memo": "` + strings.Repeat("漢", 140) + `"}}`, "bank_transfer: an EPC QR code has at most 331 bytes"},
		"one product twice":   {`{` + valid + `, "storefronts": [{"name": "one", "url": "https://shop.example/1", "product": "p", "token": "{env.X}"}, {"name": "two", "url": "https://shop.example/2", "product": "p", "token": "{env.X}"}]}`, `"one" and "two" both receive money at the account gumroad/p`},
		"another secret":      {`{"base_url": "http://localhost:8402", "card": {"url": "https://checkout.example/pay", "payment_link": "plink_1", "webhook_secret": "sk_live_1"}}`, "which is whsec_"},
		"secret key":          {`{"base_url": "http://localhost:8402", "card": {"url": "https://checkout.example/pay", "payment_link": "plink_1", "api_key": "sk_live_1"}}`, "card api_key: this is a secret key (sk_…), which can move your money"},
		"dashboard":           {`{"base_url": "http://localhost:8402", "card": {"url": "https://dashboard.stripe.com/payment-links/plink_1"}}`, "card: this is a page of your Stripe account"},
		"recommend":           {`{` + valid + `, "recommend": "usdc"}`, `recommend: there is no rail "usdc"; valid names: card`},
		"style elsewhere":     {`{` + valid + `, "style": "https://styles.example/brand.css"}`, "serve the file there and write its path, such as /brand.css"},
		"home of no address":  {`{` + valid + `, "home": "/thanks"}`, "is not an absolute URL"},
		"logo elsewhere":      {`{` + valid + `, "logo": "https://images.example/logo.svg"}`, "is not on the host of base_url"},
		"tags":                {`{` + valid + `, "tags": ["1", "2", "3", "4", "5", "6"]}`, "tags: there are 6 tags, and directories accept at most 5"},
		"mpp":                 {`{` + valid + `, "mpp": "basic"}`, "mpp: \"basic\" is unknown; write authorization, header or off"},
		"received":            {`{` + valid + `, "received": "secret"}`, "received: \"secret\" is not public or private"},
		"goal":                {`{` + valid + `, "goal": "much"}`, "goal: "},
		"legal":               {`{` + valid + `, "legal": ["fine", "a\u0007b"]}`, "legal: "},
		"explorer of usdc":    {`{` + valid + `, "usdc": [{"network": "base-sepolia", "address": "0x52908400098527886E0F7030069857D2E4169EE7", "explorer": "javascript:alert(1)//"}]}`, "explorer: the address must end"},
		"explorer of bitcoin": {`{` + valid + `, "bitcoin": {"account": "bc1q3qxu2dmlrw6sdls82tl369t02yu543z6qlp7lj", "explorer": "https://explorer.example"}}`, "explorer: the address must end"},
		"two forms in one":    {`{` + valid + `, "announce": [{"url": "https://hooks.example", "ntfy": {"url": "https://ntfy.example/topic"}}]}`, "announce: url, ntfy and email are separate endpoints"},
		"topic":               {`{` + valid + `, "announce": [{"ntfy": {"url": "https://ntfy.example"}}]}`, "announce ntfy: this is not the URL of a topic"},
		"topic in the clear":  {`{` + valid + `, "announce": [{"ntfy": {"url": "http://ntfy.example/topic"}}]}`, "announce ntfy: the URL for host \"ntfy.example\" is plain http"},
		"one topic twice":     {`{` + valid + `, "announce": [{"ntfy": {"url": "https://ntfy.example/topic"}}, {"ntfy": {"url": "https://ntfy.example/topic"}}]}`, `announce: endpoints 1 and 2 have the same address (host "ntfy.example")`},
		"no mail server":      {`{` + valid + `, "announce": [{"email": {"to": "pay@example.com"}}]}`, "announce email: smtp is missing"},
		"mail in the clear":   {`{` + valid + `, "announce": [{"email": {"to": "pay@example.com", "smtp": "mail.example:25", "tls": "off"}}]}`, "announce email: the connect"},
		"half a login":        {`{` + valid + `, "announce": [{"email": {"to": "pay@example.com", "smtp": "mail.example:25", "user": "pay"}}]}`, "announce email: user and password are needed together"},
		"sender":              {`{` + valid + `, "announce": [{"email": {"to": "pay@example.com", "smtp": "mail.example:25", "from": "a@b\r\nBcc: c@example.com"}}]}`, "announce email from: "},
		"link of the demo":    {`{"base_url": "http://localhost:8402", "card": {"url": "https://checkout.example/pay", "payment_link": "plink_pay_offer_demo"}}`, "card payment_link: plink_pay_offer_demo is the payment link of the demo"},
		"link too long":       {`{"base_url": "http://localhost:8402", "card": {"url": "https://checkout.example/` + strings.Repeat("c", 2400) + `"}}`, "does not fit into a QR code"},
		"webhook secret":      {`{` + valid + `, "announce": [{"url": "https://hooks.example", "secret": "whsec_%"}]}`, "announce: endpoint 1: "},
		"webhook, no link":    {`{"base_url": "http://localhost:8402", "card": {"url": "https://checkout.example/pay", "webhook_secret": "s"}}`, "also need payment_link"},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, caddy.Validate(handlerConfig(t, c.handler)), c.want)
		})
	}
}

// A rail without an address is left out, also where it is the recommended one: the
// first way takes its place. A name that no rail of the file has is a mistake.
func TestRecommendedRailWithoutAddress(t *testing.T) {
	for rail, line := range map[string]string{
		"usdc": `usdc base-sepolia ""`, "usdc-84532": `usdc base-sepolia ""`, "btc": `bitcoin ""`, "transfer": `bank_transfer ""`,
		"tip-jar": `storefront tip-jar ""`, "pack": `storefront pack ""`,
	} {
		t.Run(rail, func(t *testing.T) {
			require.NoError(t, validateShipped(t, line, "recommend "+rail))
			require.ErrorContains(t, validateShipped(t, line, "recommend "+rail+"s"), `recommend: there is no rail "`+rail+`s"`)
		})
	}
	h := &Handler{
		BaseURL: "http://localhost:8402", Recommend: "usdc", Card: &CardConfig{URL: "https://checkout.example/pay"},
		USDC: []*USDCConfig{{Network: "base-sepolia"}, {Network: "arbitrum-sepolia", Address: "0x52908400098527886E0F7030069857D2E4169EE7"}},
	}
	recommended := func() string {
		s := must(h.settings(newResolver(), today))(t)
		return s.Offer.Recommend
	}
	require.Equal(t, "usdc", recommended(), "the next chain has the name")
	h.USDC[1].Address = "{env.OFFER_TEST_UNSET}"
	require.Empty(t, recommended())
}

func TestLedgerDriverIsChecked(t *testing.T) {
	for config, want := range map[string]string{
		`"driver": "mysql"`:                                              "the driver is unknown",
		`"driver": "postgres"`:                                           "needs a DSN",
		`"driver": "postgres", "dsn": "x", "path": "y"`:                  "no path",
		`"driver": "postgres", "dsn": "{env.OFFER_TEST_UNSET}"`:          "is empty; set it to a DSN",
		`"driver": "postgres", "dsn": "postgres://u:hidden%word@h/base"`: "the PostgreSQL DSN cannot be read",
		`"driver": "sqlite", "dsn": "postgres://u@h/base"`:               "needs a path and no DSN",
	} {
		err := caddy.Validate(decode(t, `{"apps": {"pay_offer": {"ledger": {`+config+`}}}}`))
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "hidden")
	}
}

func TestPlaceholdersResolvedAtLoad(t *testing.T) {
	inbox := filepath.Join(t.TempDir(), "inbox")
	require.NoError(t, os.WriteFile(inbox, []byte("pay@example.com\n"), 0o600))
	t.Setenv("OFFER_TEST_BASE", "http://localhost:8402/")
	t.Setenv("OFFER_TEST_NETWORK", "base-sepolia")
	t.Setenv("OFFER_TEST_PAYEE", "0x52908400098527886e0f7030069857d2e4169ee7")
	t.Setenv("OFFER_TEST_IBAN", "de75 5121 0800 1245 1261 99")
	h := &Handler{
		BaseURL: "{env.OFFER_TEST_BASE}", Operator: "{env.OFFER_TEST_UNSET}",
		Card:         &CardConfig{URL: "https://checkout.example/{env.OFFER_TEST_NETWORK}"},
		USDC:         []*USDCConfig{{Network: "{env.OFFER_TEST_NETWORK}", Address: "{env.OFFER_TEST_PAYEE}"}},
		BankTransfer: &BankTransferConfig{Inbox: "{file." + inbox + "}", AccountHolder: "Example Org", IBAN: "{env.OFFER_TEST_IBAN}"},
		Storefronts:  []*StorefrontConfig{{Name: "pack", URL: "{env.OFFER_TEST_UNSET}"}},
	}

	s, err := h.settings(newResolver(), today)

	require.NoError(t, err)
	require.Equal(t, "http://localhost:8402", s.Offer.BaseURL)
	require.Equal(t, "localhost:8402", s.Offer.Operator)
	require.Equal(t, "https://checkout.example/base-sepolia", s.Offer.Card.URL)
	require.Equal(t, "0x52908400098527886E0F7030069857D2E4169EE7", s.Offer.USDC()[0].PayTo)
	require.Equal(t, "pay@example.com", s.Offer.BankTransfer().Inbox)
	require.Equal(t, "DE75512108001245126199", s.Offer.BankTransfer().Methods(s.Offer, offer.Live{})[0].Bank.IBAN)
	_, pack := s.Offer.Rail("pack")
	require.False(t, pack, "an empty address leaves its rail out")

	t.Setenv("OFFER_TEST_PAYEE", "not an address")
	require.ErrorContains(t, errorOf(h.settings(newResolver(), today)), "usdc base-sepolia: ")
}

// A webhook whose secret has no value is another thing than one that nobody
// configured: its provider is to come again, also after a reload that only sets it.
func TestEmptyWebhookSecretIsRemembered(t *testing.T) {
	settings := func(card, shop secret) *service.Settings {
		h := &Handler{
			BaseURL: "http://localhost:8402",
			Card:    &CardConfig{URL: "https://checkout.example/pay", WebhookSecret: card, PaymentLink: "plink_1"},
			Storefronts: []*StorefrontConfig{
				{Name: "gone", URL: "{env.OFFER_TEST_UNSET}", HookSecret: "{env.OFFER_TEST_UNSET}"},
				{Name: "pack", URL: "https://pack.example/42", HookSecret: shop, Product: "p"},
			},
		}
		return must(h.settings(newResolver(), today))(t)
	}
	t.Setenv("OFFER_TEST_SECRET", "whsec_0123456789abcdef")
	without, empty := settings("", ""), settings("{env.OFFER_TEST_UNSET}", "{env.OFFER_TEST_UNSET}")
	require.Empty(t, without.HooksOff)
	require.Equal(t, []string{"card", "pack"}, empty.HooksOff)
	require.NotEqual(t, without.Key, empty.Key)
	require.Empty(t, settings("{env.OFFER_TEST_SECRET}", "{env.OFFER_TEST_SECRET}").HooksOff)
}

func TestUSDCRailDefaults(t *testing.T) {
	const payee = "0x52908400098527886E0F7030069857D2E4169EE7"
	h := &Handler{
		BaseURL: "http://localhost:8402", Card: &CardConfig{URL: "https://checkout.example/pay"},
		USDC: []*USDCConfig{
			{Network: "optimism"},
			{Network: "base-sepolia", Address: payee},
			{Network: "base", Address: payee, RPC: []string{"off"}, Confirm: "latest", Facilitators: []*FacilitatorConfig{{URL: "https://one.example"}}},
		},
	}
	s := must(h.settings(newResolver(), today))(t)

	rails := service.RailsOf[service.USDC](s)
	require.Len(t, rails, 2, "a rail without an address is left out")
	test, main := rails[0], rails[1]
	require.Equal(t, "usdc", test.Name())
	require.Equal(t, "https://www.x402.org/facilitator", test.Facilitators[0].URL)
	require.Equal(t, []string{"https://sepolia.base.org"}, test.RPC)
	require.EqualValues(t, "safe", test.Confirm)
	require.Equal(t, "usdc-8453", main.Name())
	require.Equal(t, "https://one.example", main.Facilitators[0].URL)
	require.Empty(t, main.RPC)
	require.EqualValues(t, "latest", main.Confirm)
	require.Equal(t, "https://sepolia.basescan.org/tx/0x1", test.TransactionURL("0x1"))
	require.Empty(t, test.TransactionURL(""))

	h.USDC[1].Explorer, h.USDC[2].Explorer = "https://explorer.example/?tx=", "off"
	h.Bitcoin = &BitcoinConfig{Account: "bc1q3qxu2dmlrw6sdls82tl369t02yu543z6qlp7lj", Explorer: "off"}
	s = must(h.settings(newResolver(), today))(t)
	require.Equal(t, "https://explorer.example/?tx=0x1", service.RailsOf[service.USDC](s)[0].TransactionURL("0x1"))
	require.Empty(t, service.RailsOf[service.USDC](s)[1].TransactionURL("0x1"))
	require.Empty(t, s.Offer.Bitcoin().TransactionURL("1"))
}

// An unset variable must not drop a rail silently.
func TestRailWithoutAddressIsLogged(t *testing.T) {
	warnings, log := warned(t, strings.Replace(smallest, "\t\tusdc", "\t\tbitcoin {env.OFFER_TEST_UNSET}\n\t\tstorefront pack {env.OFFER_TEST_UNSET}\n\t\tusdc", 1))
	require.Empty(t, warnings)
	require.Equal(t, 2, strings.Count(log, "a rail without an address is left out"))
	for _, option := range []string{"bitcoin", "storefront pack"} {
		require.Contains(t, log, `"option":"`+option+`"`)
	}
}

// A misspelled placeholder would be a word of the page.
func TestUnknownPlaceholderIsRefused(t *testing.T) {
	t.Setenv("OFFER_TEST_NAME", "Braces {inside}")
	for text, want := range map[string]string{
		"{emv.NAME}": "{emv.NAME}", "Sold by {http.request.host}": "{http.request.host}", "{NAME}": "{NAME}",
		"{env.OFFER_TEST_NAME}": "", `A \{brace}`: "", "{env.OFFER_TEST_UNSET}": "", "A brace } {": "",
	} {
		h := &Handler{BaseURL: "http://localhost:8402", Thanks: text, Card: &CardConfig{URL: "https://checkout.example/pay"}}
		_, err := h.settings(newResolver(), today)
		if want == "" {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorContains(t, err, "thanks: unrecognized placeholder "+want+"; write {env.NAME}")
	}
}
