package payoffer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An offer that gets none of its own requests is refused, wherever the path matcher is.
func TestCheckRefusesOfferWithoutRequests(t *testing.T) {
	const options = " {\n\t\tbase_url http://localhost:8402\n\t\tcard https://buy.stripe.com/x\n\t}\n"
	for around, want := range map[string]string{
		"pay_offer": "",
		"@offer not path /favicon.*\n\tpay_offer @offer":                         "",
		"pay_offer /v1/* /mcp":                                                   "wrong number of arguments",
		"pay_offer /v1/*":                                                        "",
		"handle {\n\tpay_offer":                                                  "",
		"handle /V1/* {\n\tpay_offer":                                            "",
		"pay_offer" + options + "handle /shop/* {\n\tpay_offer":                  "",
		"handle /shop/* {\n\tpay_offer" + options + "}\n\thandle {\n\tpay_offer": "",
		"pay_offer /shop/*":                                                      "no request for /v1/pay reaches pay_offer, because a path matcher around it",
		"handle_path /shop/* {\n\tpay_offer":                                     "no request for /v1/pay",
		"handle /shop/* {\n\troute {\n\tpay_offer":                               "no request for /v1/pay",
		"@shop path /shop /shop/*\n\thandle @shop {\n\tpay_offer":                "no request for /v1/pay",
	} {
		t.Run(around, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "Caddyfile")
			written := "{\n\tadmin off\n}\nhttp://localhost:8402 {\n\t" + around + options
			for range strings.Count(written, "{\n") - strings.Count(written, "}\n") {
				written += "}\n"
			}
			require.NoError(t, os.WriteFile(file, []byte(written), 0o600))
			if _, err := payOffer(t, "check", "--config", file); want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

// An offer or a gate that no request reaches at its published address is found before a payer comes.
func TestCheckWarnsOfUnreachableAddress(t *testing.T) {
	const pay, gate = "no site block with pay_offer answers for pay.example.org, the host of base_url", "no pay_offer_gate covers https://pay.example.org/x/, where its payers arrive"
	directive := func(site string) string {
		return site + " {\n\tpay_offer {\n\t\tbase_url https://pay.example.org\n\t\tcard https://buy.stripe.com/x\n\t}\n}\n"
	}
	gated := func(site, matcher, start string) string {
		return directive("https://pay.example.org") + site + " {\n\tpay_offer_gate " + matcher + " {\n\t\tstart " + start + "\n\t}\n}\n"
	}
	for written, want := range map[string]string{
		directive("https://example.com"):                               pay,
		directive("https://pay.example.org, https://example.com"):      "",
		directive("https://PAY.example.org"):                           "",
		directive("https://*.example.org"):                             "",
		directive(":8402"):                                             "",
		directive("https://pay.example.org:8443"):                      "",
		gated("https://example.org", "/x/*", "/x/"):                    gate,
		gated("https://example.org", "/x/*", "https://example.org/x/"): "",
		gated("https://example.org", "/x/*", "https://example.org/y/"): "no pay_offer_gate covers https://example.org/y/",
	} {
		file := filepath.Join(t.TempDir(), "Caddyfile")
		require.NoError(t, os.WriteFile(file, []byte("{\n\tadmin off\n}\n"+written), 0o600))
		printed, err := payOffer(t, "check", "--config", file)
		require.NoError(t, err)
		require.Equal(t, want != "", strings.Contains(printed, "warning: "), written+printed)
		require.Contains(t, printed, want)
	}
}

// check says what to do about a file that it cannot read.
func TestCheckExplainsUnreadFile(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("offer.conf", []byte("# An offer\n:80 {\n}\n"), 0o600))
	_, err := payOffer(t, "check", "--config", "offer.conf")
	require.ErrorContains(t, err, "; if it is a Caddyfile, add --adapter caddyfile")
	_, err = payOffer(t, "check", "--config", "missing.json")
	require.ErrorContains(t, err, "open missing.json: no such file or directory; name a file that this user can read, such as --config /etc/caddy/Caddyfile")
}

// check names the line of each mistake, and nothing of Caddy's path through its modules.
func TestCheckNamesLineOfEachMistake(t *testing.T) {
	const head = "{\n\tadmin off\n\tpay_offer {\n\t\tledger sqlite\n\t}\n}\nhttp://localhost:8402 {\n\tpay_offer {\n\t\tbase_url http://localhost:8402\n"
	for name, c := range map[string]struct{ options, want string }{
		"unknown option":         {"\t\tcrad https://x\n\t}\n}\n", "Caddyfile:10: unrecognized option \"crad\" of pay_offer (did you mean 'card'?)"},
		"arguments":              {"\t\tcard a b\n\t}\n}\n", "Caddyfile:10: wrong number of arguments; write it as: card <url> { ... }"},
		"directive in a handle":  {"\t\tcard https://x.example\n\t}\n\thandle {\n\t\tpay_offer_gate /x\n\t}\n}\n", "Caddyfile:13: pay_offer_gate has a matcher and no start; add the page at which payers arrive, such as 'start /course/'"},
		"value":                  {"\t\tcard https://x.example\n\t\taccent red\n\t}\n}\n", "Caddyfile:11: accent: "},
		"option of a block":      {"\t\tcard https://x.example {\n\t\t\tpayment_link x\n\t\t}\n\t}\n}\n", "Caddyfile:11: card payment_link: "},
		"missing option":         {"\t}\n}\n", "Caddyfile:8: the card checkout is missing"},
		"second of a list":       {"\t\tcard https://x.example\n\t\tannounce http://localhost/a\n\t\tannounce ntfy ftp://x\n\t}\n}\n", "Caddyfile:12: announce[1] ntfy: "},
		"option of one network":  {"\t\tcard https://x.example\n\t\tusdc base-sepolia 0x1 {\n\t\t}\n\t\tusdc base 0x1 {\n\t\t\trpc x\n\t\t}\n\t}\n}\n", "Caddyfile:14: usdc base rpc: "},
		"the same in two offers": {"\t\taccent red\n\t}\n}\nhttp://localhost:8403 {\n\tpay_offer {\n\t\taccent red\n\t}\n}\n", "Caddyfile:10 or Caddyfile:15: accent: "},
		"gate":                   {"\t\tcard https://x.example\n\t}\n\tpay_offer_gate {\n\t\taccess 3s\n\t}\n}\n", "Caddyfile:13: access: "},
		"facilitator":            {"\t\tcard https://x.example\n\t\tusdc base-sepolia 0x52908400098527886E0F7030069857D2E4169EE7 {\n\t\t\tfacilitator https://f.example {\n\t\t\t\tkey_id a\n\t\t\t}\n\t\t}\n\t}\n}\n", "Caddyfile:12: usdc base-sepolia facilitator: key_id and key_secret are needed together"},
		"webhook secret":         {"\t\tcard https://x.example {\n\t\t\tpayment_link plink_1\n\t\t\twebhook_secret abc\n\t\t}\n\t}\n}\n", "Caddyfile:12: card webhook_secret: this is not a signing secret"},
		"swapped secrets":        {"\t\tcard https://x.example {\n\t\t\tpayment_link plink_1\n\t\t\tapi_key whsec_hidden0123456789abcd\n\t\t}\n\t}\n}\n", "Caddyfile:12: card api_key: this is not a restricted key"},
		"key of CDP":             {"\t\tcard https://x.example\n\t\tusdc base-sepolia 0x52908400098527886E0F7030069857D2E4169EE7 {\n\t\t\tfacilitator https://f.example {\n\t\t\t\tkey_id a\n\t\t\t\tkey_secret hidden\n\t\t\t}\n\t\t}\n\t}\n}\n", "Caddyfile:14: usdc base-sepolia facilitator key_secret: the secret is neither"},
		"gate without offer":     {"\t\tcard https://x.example\n\t}\n\tpay_offer_gate {\n\t\toffer other\n\t}\n}\n", "Caddyfile:12: pay_offer_gate /: no offer has the id \"other\""},
		"another directive":      {"\t\tcard https://x.example\n\t}\n\tnonsense\n}\n", "Caddyfile:12: unrecognized directive: nonsense"},
		"option outside":         {"\t\tcard https://x.example\n\t}\n\tamount 20\n}\n", "Caddyfile:12: unrecognized directive: amount; the directives are pay_offer, pay_offer_page and pay_offer_gate, and options belong inside their braces"},
		"brace missing":          {"\t\tcard https://x.example\n\tpay_offer_page\n}\n", "Caddyfile:11: "},
		"placeholder open":       {"\t\tcard https://x.example {\n\t\t\tpayment_link plink_1\n\t\t\tapi_key {env.KEY\n\t\t}\n\t}\n}\n", "Caddyfile:12: card api_key: this placeholder does not end"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "Caddyfile")
			require.NoError(t, os.WriteFile(file, []byte(head+c.options), 0o600))
			t.Chdir(filepath.Dir(file))
			_, err := payOffer(t, "check")
			require.ErrorContains(t, err, c.want)
			require.NotRegexp(t, `provision http|adapting config|parsing caddyfile`, err.Error())
			require.NotContains(t, err.Error(), ", at Caddyfile")
			require.NotContains(t, err.Error(), "hidden")
		})
	}
}
