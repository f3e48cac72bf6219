package payoffer

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAPassOpensAGateUntilItIsRevoked by the commands of an operator, with a browser for each link.
func TestAPassOpensAGateUntilItIsRevoked(t *testing.T) {
	i := newOperated(t, gated("start /course/"))
	before := i.get(i.service + "/v1/received").body
	out, err := i.payOffer("pass", "--for", "1d", "--note", "For the press")
	require.NoError(t, err, out)
	said := regexp.MustCompile(`(?s)^Pass ([a-z2-7]{10}) is valid until \S+Z\. .*\n(` + regexp.QuoteMeta(i.service) + `/course/\?pay_offer=\S+)\n$`).FindStringSubmatch(out)
	require.NotNil(t, said, out)
	id, link := said[1], said[2]

	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ask := func(address, cookie string) *http.Response {
		t.Helper()
		request := must(http.NewRequest(http.MethodGet, address, nil))(t)
		if cookie != "" {
			request.Header.Set("Cookie", cookie)
		}
		response := must(client.Do(request))(t)
		require.NoError(t, response.Body.Close())
		return response
	}
	var cookies []string
	for range 6 {
		entered := ask(link, "")
		require.Equal(t, http.StatusSeeOther, entered.StatusCode)
		require.Equal(t, "/course/", entered.Header.Get("Location"))
		cookie, _, _ := strings.Cut(entered.Header.Get("Set-Cookie"), ";")
		cookies = append(cookies, cookie)
	}
	require.Equal(t, http.StatusPaymentRequired, ask(i.service+"/course/", cookies[0]).StatusCode, "the sixth browser signs the first one out")
	for _, cookie := range cookies[1:] {
		require.Equal(t, http.StatusOK, ask(i.service+"/course/", cookie).StatusCode)
	}
	listed, err := i.payOffer("pass")
	require.NoError(t, err, listed)
	require.Regexp(t, `(?m)^\S+ +`+id+` +\S+Z +- +5 +For the press$`, listed)
	require.Equal(t, before, i.get(i.service+"/v1/received").body, "a pass is no payment")
	require.NotContains(t, i.log(), strings.TrimPrefix(link, i.service+"/course/?pay_offer="), "the link is a secret")

	out, err = i.payOffer("pass", "--revoke", id)
	require.NoError(t, err, out)
	require.Equal(t, http.StatusPaymentRequired, ask(link, "").StatusCode)
	listed = must(i.payOffer("pass"))(t)
	require.Regexp(t, `(?m)^\S+ +`+id+` +\S+Z +\S+Z +\d +-$`, listed)
}

func TestAPassIsRefusedWithAReason(t *testing.T) {
	i := newOperated(t, gated())
	for arguments, want := range map[string]string{
		"--for 10s":           "a pass cannot be valid for 10 seconds; write 1m to 3650d, such as 30d",
		"--for 4000d":         "a pass cannot be valid for 345600000 seconds",
		"--for soon":          `--for: "soon" is not a duration; write for example 30d`,
		"--note x":            "--note belongs to a new pass; add --for",
		"--revoke none":       `there is no pass "none"; list them with 'caddy pay-offer pass'`,
		"--for 1d --revoke x": "exclude each other",
		"--for 1d --note " + strings.Repeat("n", 201): "the note is longer than 200 characters",
		"--for 1d --note a\x1bb":                      "",
		"--for 1d --offer other":                      "other",
	} {
		out, err := i.payOffer(append([]string{"pass"}, strings.Fields(arguments)...)...)
		require.ErrorContains(t, err, want, "%s: %s", arguments, out)
	}
}

func TestAnOfferWithoutAGateHasNoPass(t *testing.T) {
	i := newOperated(t, smallest)
	_, err := i.payOffer("pass", "--for", "1d")
	require.ErrorContains(t, err, "has no gate, so a pass would open nothing; add the directive pay_offer_gate to a site")
}
