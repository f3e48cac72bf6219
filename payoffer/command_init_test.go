package payoffer

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

const (
	initKey     = "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
	initUSDC    = "0x52908400098527886E0F7030069857D2E4169EE7"
	initBitcoin = payoffertest.BitcoinFirstAddress
	initZpub    = payoffertest.BitcoinZpub
)

// initialize runs 'caddy pay-offer init' in an empty folder. Questions without an answer are skipped.
func initialize(t *testing.T, answers map[int]string, args ...string) (file, out string, err error) {
	t.Helper()
	t.Chdir(t.TempDir())
	lines := []string{"pay.example.org", "", "", "", "https://buy.example.net/pay", "", "", "", "", "", "", ""}
	for number, answer := range answers {
		lines[number-1] = answer
	}
	command, printed := &cobra.Command{Use: "pay-offer", SilenceUsage: true, SilenceErrors: true}, new(bytes.Buffer)
	caddycmd.Commands()["pay-offer"].CobraFunc(command)
	command.SetOut(printed)
	command.SetIn(strings.NewReader(strings.Join(lines, "\n") + "\n"))
	command.SetArgs(append([]string{"init"}, args...))
	err = command.ExecuteContext(t.Context())
	text, missing := os.ReadFile("Caddyfile")
	require.Equal(t, err == nil && len(args) == 0, missing == nil)
	return string(text), printed.String(), err
}

// adaptedHandler is the directive of a Caddyfile.
func adaptedHandler(t *testing.T, file string) *Handler {
	t.Helper()
	adapted, err := adapt(t, file) // without a warning: 'caddy fmt' changes nothing
	require.NoError(t, err)
	require.NoError(t, caddy.Validate(decode(t, adapted)))
	return handlersOf(t, adapted)[0]
}

// Each file is valid before its secrets are set.
func TestInitWritesAValidCaddyfile(t *testing.T) {
	for name, c := range map[string]struct {
		answers map[int]string
		want    Handler
		steps   []string // in their order
	}{
		"the least": {
			want:  Handler{Card: &CardConfig{URL: "https://buy.example.net/pay"}},
			steps: []string{"1. Point https://pay.example.org to this machine", "2. Card", "To confirm payments by card, add", "3. Secrets", "     CARD_API_KEY\n     CARD_WEBHOOK_SECRET\n", "4. On a server", "check the file", "     caddy pay-offer check\n     caddy run\n"},
		},
		"card": {
			answers: map[int]string{3: "My app #1", 4: "Jane Doe <jane@example.org>", 5: "https://buy.stripe.com/abc plink_1Abc"},
			want: Handler{Name: "My app #1", Operator: "Jane Doe", Contact: "jane@example.org", Card: &CardConfig{
				URL: "https://buy.stripe.com/abc", PaymentLink: "plink_1Abc", WebhookSecret: "{env.CARD_WEBHOOK_SECRET}", APIKey: "{env.CARD_API_KEY}",
			}},
			steps: []string{
				"https://pay.example.org/v1/thanks?session_id={CHECKOUT_SESSION_ID}\n", "https://pay.example.org/v1/hook/card\n",
				"checkout.session.completed\n", "charge.dispute.closed\n", "3. Secrets", "     CARD_API_KEY\n     CARD_WEBHOOK_SECRET\n", "set -a; . ./pay_offer.env; set +a\n",
			},
		},
		"every payment method": {
			answers: map[int]string{
				2: "https://example.org/", 4: "pay@example.org", 6: initUSDC + " polygon", 7: initZpub + " " + initBitcoin, 8: "alice@wallet.example.net",
				9: "treasurer@example.org", 10: "tip-jar https://club.example.net/l/tip ab12C", 11: "https://hooks.example.net/club",
			},
			want: Handler{
				SiteURL: "https://example.org", Contact: "pay@example.org", Card: &CardConfig{URL: "https://buy.example.net/pay"},
				USDC: []*USDCConfig{{Network: "polygon", Address: initUSDC, Facilitators: []*FacilitatorConfig{{
					URL: "https://api.cdp.coinbase.com/platform/v2/x402", KeyID: "{env.CDP_KEY_ID}", KeySecret: "{env.CDP_KEY_SECRET}",
				}}}},
				Bitcoin:      &BitcoinConfig{Account: initZpub, FirstAddress: initBitcoin},
				Lightning:    &LightningConfig{Address: "alice@wallet.example.net"},
				BankTransfer: &BankTransferConfig{Inbox: "treasurer@example.org"},
				Storefronts: []*StorefrontConfig{{
					Name: "tip-jar", URL: "https://club.example.net/l/tip", Product: "ab12C", HookSecret: "{env.STORE_HOOK_SECRET}", Token: "{env.STORE_TOKEN}",
				}},
				Announce: []*AnnounceConfig{{URL: "https://hooks.example.net/club", Secret: "{env.ANNOUNCE_SECRET}"}},
			},
			steps: []string{
				"https://pay.example.org and https://example.org", "See there that polygon is supported", "whether the wallet tells the server of payments", "compare the addresses", "record --rail transfer",
				"https://pay.example.org/v1/hook/tip-jar/<secret>\n",
				"     ANNOUNCE_SECRET\n     CARD_API_KEY\n     CARD_WEBHOOK_SECRET\n     CDP_KEY_ID\n     CDP_KEY_SECRET\n     STORE_HOOK_SECRET\n     STORE_TOKEN\n",
			},
		},
		"a rehearsal, a mailbox": {
			answers: map[int]string{5: "https://buy.stripe.com/test_abc", 6: initUSDC + " base-sepolia", 11: "email me@example.org mail.example.net:587 me"},
			want: Handler{
				Testnet: true, Card: &CardConfig{URL: "https://buy.stripe.com/test_abc", TestMode: true},
				USDC:     []*USDCConfig{{Network: "base-sepolia", Address: initUSDC}},
				Announce: []*AnnounceConfig{{Email: &EmailConfig{To: "me@example.org", SMTP: "mail.example.net:587", User: "me", Password: "{env.ANNOUNCE_SMTP_PASSWORD}"}}},
			},
			steps: []string{"in its test mode:\n", "money is worth nothing", "     ANNOUNCE_SMTP_PASSWORD\n     CARD_API_KEY\n"},
		},
		"real money beside a test card": {
			answers: map[int]string{5: "https://buy.stripe.com/test_abc", 6: initUSDC, 7: initBitcoin, 8: "alice@wallet.example.net"},
			want: Handler{
				Card: &CardConfig{URL: "https://buy.stripe.com/test_abc", TestMode: true},
				USDC: []*USDCConfig{{Network: "base", Address: initUSDC, Facilitators: []*FacilitatorConfig{{
					URL: "https://api.cdp.coinbase.com/platform/v2/x402", KeyID: "{env.CDP_KEY_ID}", KeySecret: "{env.CDP_KEY_SECRET}",
				}}}},
				Bitcoin: &BitcoinConfig{Account: initBitcoin}, Lightning: &LightningConfig{Address: "alice@wallet.example.net"},
			},
			steps: []string{"The card takes test money, but USDC, Bitcoin, Lightning real money."},
		},
		"private totals": {
			answers: map[int]string{12: "no"},
			want:    Handler{Received: "private", Card: &CardConfig{URL: "https://buy.example.net/pay"}},
		},
		"public totals": {answers: map[int]string{12: "yes"}, want: Handler{Card: &CardConfig{URL: "https://buy.example.net/pay"}}},
		"a storefront and an ntfy topic without secrets": {
			answers: map[int]string{7: initBitcoin, 10: "pack https://club.example.net/l/pack", 11: "ntfy https://ntfy.example.net/club"},
			want: Handler{
				Card: &CardConfig{URL: "https://buy.example.net/pay"}, Bitcoin: &BitcoinConfig{Account: initBitcoin},
				Storefronts: []*StorefrontConfig{{Name: "pack", URL: "https://club.example.net/l/pack"}},
				Announce:    []*AnnounceConfig{{Ntfy: &NtfyConfig{URL: "https://ntfy.example.net/club"}}},
			},
			steps: []string{"record --rail pack --reference <sale id> --amount 42\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			file, steps, err := initialize(t, c.answers)
			require.NoError(t, err)
			c.want.BaseURL = "https://pay.example.org"
			require.Equal(t, &c.want, adaptedHandler(t, file))
			info := must(os.Stat("Caddyfile"))(t)
			require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "an address in it may be a secret")
			for _, step := range c.steps {
				_, after, found := strings.Cut(steps, step)
				require.True(t, found, "%s\nmisses: %s", steps, step)
				steps = after
			}
		})
	}
}

// A refusal repeats no wallet secret and leaves no file.
func TestInitRejectsBadAnswers(t *testing.T) {
	for _, c := range []struct {
		question     int
		answer, want string
	}{
		{1, "", "an answer is needed"},
		{1, "pay.example.org/shop", "is more than an origin"},
		{12, "maybe", "write yes or no"},
		{3, "{env.HOME}", "cannot contain"},
		{3, "a\x1b[2J", "cannot contain"},
		{4, "Jane <jane>", "not an e-mail address"},
		{5, "", "an answer is needed"},
		{5, "buy.example.net/pay", "copy the address of the checkout with its https://, such as https://buy.stripe.com/YOUR_LINK"},
		{5, "https://buy.example.net/pay sk_live_abcdefghijklmnop", "a secret of a payment service"},
		{6, strings.Replace(initUSDC, "9EE7", "9ee7", 1), "checksum"},
		{6, "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", "is the USDC contract on Base"},
		{6, initUSDC + " bas", "unknown network"},
		{7, initBitcoin + "x", "checksum"},
		{6, "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266", "published test key"},
		{7, "bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu", "published test key"},
		{7, "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "published test key"}, // private key 1, in BIP-173
		{7, initUSDC[:42], "this is an address of Ethereum and chains like it"},
		{7, initZpub, "write after the key the first receiving address"},
		{7, initZpub + " bc1q3qxu2dmlrw6sdls82tl369t02yu543z6qlp7lj", "is not a receiving address of this key"},
		{8, "lnbc1", "not a Lightning address"},
		{9, "treasurer", "not an e-mail address"},
		{10, "tip-jar", "write the name"},
		{10, "not an iban", "write the name"},
		{10, "card https://shop.example.net/l/a", "reserved"},
		{11, "me@example.org", "for a mailbox write email"},
		{11, "email me@example.org", "write https://…"},
		{11, "ntfy https://ntfy.sh/ topic", "ntfy https://ntfy.sh/topic"},
		{11, "email me@example.org mail.example.org me", "port"},
		{11, "my-topic", "write https://…, or ntfy"},
		{11, "ntfy my-topic", "write ntfy https://ntfy.sh/your-topic"},
		{11, "ntfy", "the topic's address is missing; write ntfy https://ntfy.sh/your-topic"},
		{11, "https://a.example/1, ntfy", "the topic's address is missing"},
		{11, "email me@example.org mail.example.net:587 me:hunter2", "without a password"},
	} {
		_, _, err := initialize(t, map[int]string{c.question: c.answer})
		require.ErrorContains(t, err, c.want, c.answer)
		require.NotContains(t, err.Error(), "sk_live_abc")
		require.NotContains(t, err.Error(), "hunter2")
	}
	for question := 1; question <= 10; question++ {
		_, out, err := initialize(t, map[int]string{question: initKey})
		require.ErrorContains(t, err, "move that money to a new wallet now", question)
		require.NotContains(t, err.Error()+out, initKey)
	}
}

func TestInitOverwritesNoFile(t *testing.T) {
	_, _, err := initialize(t, nil, "--output", "..")
	require.ErrorContains(t, err, ".. exists and is not overwritten")
	_, out, err := initialize(t, nil, "--output", "pay-offer.caddyfile")
	require.NoError(t, err)
	require.Contains(t, out, "caddy run --config pay-offer.caddyfile --adapter caddyfile\n")
}

// init writes the same shape as the shipped Caddyfile: no snippet, and global options only for an e-mail address and the ledger.
func TestInitWritesTwoPlainSiteBlocks(t *testing.T) {
	file, _, err := initialize(t, map[int]string{2: "example.org"})
	require.NoError(t, err)
	require.Regexp(t, `(?m)^{\n\t#.*\n\tpay_offer {\n\t\tledger {\$LEDGER:sqlite}\n\t}\n}$`, file)
	require.NotRegexp(t, `(?m)^\(`, file)
	require.Equal(t, 1, strings.Count(file, "pay_offer_page\n"))
	require.Contains(t, file, "\nhttps://example.org {\n")
	file, _, err = initialize(t, map[int]string{4: "pay@example.org"})
	require.NoError(t, err)
	require.Regexp(t, `(?m)^{\n\t#.*\n\temail pay@example.org\n\n\t#`, file)
	require.Equal(t, 1, strings.Count(file, "pay_offer_page\n"))
	require.Equal(t, 1, strings.Count(file, "https://pay.example.org {\n"))
}
