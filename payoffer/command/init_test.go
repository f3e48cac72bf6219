package command

import (
	"bufio"
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// interviewed returns the file that init writes for a person who types these lines.
func interviewed(t *testing.T, lines ...string) (file, asked string) {
	t.Helper()
	t.Chdir(t.TempDir())
	var out bytes.Buffer
	i := &interview{in: bufio.NewReader(strings.NewReader(strings.Join(lines, "\n") + "\n")), out: &out, retry: true}
	require.NoError(t, i.run("Caddyfile"))
	return string(must(os.ReadFile("Caddyfile"))(t)), out.String()
}

func TestInitGoesBackOneQuestion(t *testing.T) {
	rest := []string{"", "", "", "", "", "", "", ""}
	file, asked := interviewed(t, append([]string{"<", "pay.example.org", "example.org", "<", "<", "shop.example.org", "", "Name", "", "https://a.example/x",
		"<", "https://b.example/x"}, rest[:7]...)...)
	require.Contains(t, asked, "Rejected:", "there is no question before the first")
	require.Contains(t, file, "base_url https://shop.example.org\n")
	require.NotContains(t, file, "site_url", "the second question was asked again")
	require.Contains(t, file, "name Name\n", "what was answered before stays")
	require.Contains(t, file, "card https://b.example/x\n")
	asked, _, _ = strings.Cut(asked, "Caddyfile is written")
	for question, times := range map[string]int{"1": 2, "2": 3, "3": 2, "4": 1, "5": 2, "6": 2} {
		require.Equal(t, times, strings.Count(asked, "\n"+question+". "), "question %s", question)
	}
}

// Enter skips the question after a rejected answer, too: nothing of that answer is written.
func TestInitDropsRejectedAnswer(t *testing.T) {
	const site = "https://a.example/x"
	want, _ := interviewed(t, "pay.example.org", "", "", "", site, "", "", "", "", "", "", "")
	for question, rejected := range map[int][]string{
		2: {"https://example.org/shop"}, 4: {"Jane <jane>"}, 6: {"0x036CbD53842c5426634e7929541eC2318f3dCF7e base-sepolia", "0x123", "0x1 nonet"},
		7: {"bc1qwrong", "xpub1 bc1q"}, 8: {"lnbc1", "alice@wallet"}, 9: {"treasurer"}, 10: {"card https://shop.example.net/l/a", "tip-jar http://shop.example.net ab"},
		11: {"https://a.example/1, ntfy", "ntfy ftp://x", "email me mail.example.org:587 me"}, 12: {"maybe"},
	} {
		for _, answer := range rejected {
			lines := []string{"pay.example.org", "", "", "", site, "", "", "", "", "", "", ""}
			lines[question-1] = answer + "\n" // then Enter
			file, asked := interviewed(t, lines...)
			require.Contains(t, asked, "Rejected:", answer)
			require.Equal(t, want, file, answer)
		}
	}
}

func TestInitErrorSaysWhatToWrite(t *testing.T) {
	for answer, want := range map[string]string{
		"Jane Doe jane@example.org":   "write the e-mail address in angle brackets: Jane Doe <jane@example.org>",
		"https://buy.stripe.com/test": "this is a URL; write a name and an e-mail address",
	} {
		_, err := parseSeller(answer)
		require.ErrorContains(t, err, want)
	}
	_, err := parseInbox("DE75512108001245126199")
	require.ErrorContains(t, err, "A bank account is added in the file later, see the guide bank-transfer")
	_, err = parseInbox("<jane@example.org>")
	require.ErrorContains(t, err, "write one without a name")
}

func TestInitOnThisMachine(t *testing.T) {
	_, asked := interviewed(t, "localhost:8402", "", "", "", "https://buy.stripe.com/test_a plink_1Abc", "", "", "", "", "", "", "")
	require.Contains(t, asked, "     stripe listen --forward-to http://localhost:8402/v1/hook/card\n   - Make a restricted API key")
	require.NotRegexp(t, "DNS provider|Add a webhook endpoint", asked)
	require.Contains(t, asked, "\n1. Card, in the dashboard of Stripe, in its test mode:\n")
}

func TestInitAcceptsSeveralNotifications(t *testing.T) {
	file, asked := interviewed(t, "pay.example.org", "", "", "", "https://a.example/x", "", "", "", "", "",
		"https://a.example/1, ntfy https://ntfy.sh/topic,https://b.example/2, email me@example.org mail.example.org:587 me", "")
	for _, want := range []string{
		"announce https://a.example/1 {\n\t\t\tsecret {env.ANNOUNCE_SECRET}\n", "announce ntfy https://ntfy.sh/topic\n",
		"announce https://b.example/2 {\n\t\t\tsecret {env.ANNOUNCE_SECRET_2}\n", "announce email me@example.org {", "password {env.ANNOUNCE_SMTP_PASSWORD}\n",
	} {
		require.Contains(t, file, want)
	}
	require.Contains(t, asked, "     ANNOUNCE_SECRET\n     ANNOUNCE_SECRET_2\n     ANNOUNCE_SMTP_PASSWORD\n     CARD_API_KEY\n     CARD_WEBHOOK_SECRET\n", "also of a link without its id")
}

func TestInitAcceptsCaddyfileOrder(t *testing.T) {
	const address = "0x52908400098527886E0F7030069857D2E4169EE7"
	for answer, want := range map[string]string{
		"polygon " + address: "usdc polygon " + address, address + " polygon": "usdc polygon " + address, address: "usdc base " + address,
	} {
		file, _ := interviewed(t, "pay.example.org", "", "", "", "https://a.example/x", answer, "", "", "", "", "", "")
		require.Contains(t, file, want)
	}
}
