package pay

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/browser"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
)

// open is the label of the button that leads in, and signOut that of the button that ends all browsers.
const (
	open    = "Open your purchase"
	signOut = "Sign out everywhere"
	wanted  = "/members/lesson?number=2&day=mo"
)

// person is somebody with a browser.
type person struct {
	*testing.T
	browser *browser.Browser
	name    string
}

// page is what a person sees.
type page struct {
	URL     string
	Status  int
	Text    string
	Buttons []string
}

func (p person) do(command string, arguments map[string]string, result any) {
	p.Helper()
	all := map[string]string{"who": p.name}
	for name, value := range arguments {
		all[name] = value
	}
	p.browser.Do(p, command, all, result)
}

// come starts the browser, with the profile that it left.
func (p person) come() person { p.Helper(); p.do("come", nil, new(any)); return p }

func (p person) leave() { p.Helper(); p.do("leave", nil, new(any)) }

func (p person) visit(url string) (seen page) {
	p.Helper()
	p.do("go", map[string]string{"url": url}, &seen)
	return seen
}

func (p person) see() (seen page) { p.Helper(); p.do("show", nil, &seen); return seen }

// back presses the Back key.
func (p person) back() (seen page) { p.Helper(); p.do("back", nil, &seen); return seen }

// press presses a link or a button, given by a selector or its text.
func (p person) press(what string) (seen page) {
	p.Helper()
	p.do("press", map[string]string{"what": what}, &seen)
	return seen
}

// look audits the page and takes pictures of it.
func (p person) look(picture string) {
	p.Helper()
	var violations []string
	p.do("look", map[string]string{"picture": browser.Screenshot(picture)}, &violations)
	require.Empty(p, violations)
}

func (p person) requireInside(seen page, origin, uri, rail string) {
	p.Helper()
	require.Equal(p, origin+uri, seen.URL, seen.Text)
	require.Equal(p, http.StatusOK, seen.Status)
	require.Contains(p, seen.Text, said(http.MethodGet, uri, rail))
}

func (p person) requireOutside(seen page, url string) {
	p.Helper()
	require.Equal(p, url, seen.URL)
	require.Equal(p, http.StatusPaymentRequired, seen.Status, seen.Text)
	require.Contains(p, seen.Text, "$42")
	require.Len(p, seen.Buttons, 1)
}

// buyByCard goes from the page that somebody wants by the checkout to the thanks page.
func (p person) buyByCard(s *shop, url, checkout string) {
	p.Helper()
	p.requireOutside(p.visit(url), url)
	require.Equal(p, s.pay+"/v1/pay", p.press("main a.button").URL)
	p.press("#card a.button")
	require.Contains(p, p.press(checkout).URL, s.pay+"/v1/thanks?session_id=cs_")
}

// In one shop, all who pay by each method are let in.
func TestGateOpensForEveryPaymentMethod(t *testing.T) {
	s := openShop(t)
	run := func(t *testing.T, name string, test func(*shop)) {
		t.Run(name, func(t *testing.T) {
			visited := *s
			visited.T = t
			test(&visited)
		})
	}
	run(t, "agents get the content in one call and come back", (*shop).agents)
	run(t, "the command gets the content in one call", (*shop).command)
	run(t, "a person who paid by wallet is back", (*shop).byWallet)
	t.Run("people", func(t *testing.T) {
		b := browser.Run(t, "caddy/e2e/gate/pay/person.mjs")
		person{t, b, "ada"}.come()
		for name, test := range map[string]func(*shop, person){
			"a person who paid by card comes back":             (*shop).byCard,
			"a transfer that the seller records opens":         (*shop).byTransfer,
			"the answer to a payment leads a browser in":       (*shop).leads,
			"the demo sells its gated page on two other hosts": (*shop).demo,
		} {
			run(t, name, func(s *shop) {
				ada := person{s.T, b, "ada"}
				ada.do("forget", nil, new(any))
				test(s, ada)
			})
		}
	})
}

func (s *shop) byCard(ada person) {
	url := s.site + wanted
	ada.requireOutside(ada.visit(url), url)
	ada.look("gate-402")
	ada.buyByCard(s, url, "Pay")
	thanks := ada.see()
	ada.requireInside(ada.press(open), s.site, wanted, "card")

	// The Back key leads to no checkout of the shop without a question.
	require.Equal(s, thanks, ada.back())
	require.False(s, strings.HasPrefix(ada.back().URL, s.pay), "the checkout of the provider")
	asked := ada.back()
	require.Equal(s, s.pay+"/v1/pay", asked.URL)
	require.Contains(s, asked.Text, "You have already paid")
	require.Equal(s, []string{"View payment status", "Yes, pay again"}, asked.Buttons)
	ada.requireInside(ada.back(), s.site, wanted, "card")

	s.restart()
	ada.requireInside(ada.visit(url), s.site, wanted, "card")
	ada.leave()
	ada.come().requireInside(ada.visit(url), s.site, wanted, "card")

	// In a second browser by the receipt.
	ada.visit(thanks.URL)
	receipt := ada.press("View receipt").URL
	ada.look("gate-receipt")
	bob := person{s.T, ada.browser, "bob"}.come()
	bob.requireOutside(bob.visit(url), url)
	bob.visit(receipt)
	bob.requireInside(bob.press(open), s.site, "/members/", "card")
	bob.requireInside(bob.visit(url), s.site, wanted, "card")
	bob.visit(receipt)
	require.Equal(s, receipt, bob.press(signOut).URL)
	bob.requireOutside(bob.visit(url), url)
	ada.requireOutside(ada.visit(url), url)
	ada.visit(receipt)
	ada.requireInside(ada.press(open), s.site, "/members/", "card")
	bob.leave()
}

func (s *shop) byTransfer(p person) {
	p.visit(s.record())
	p.requireInside(p.press(open), s.site, "/members/", "transfer")
	p.requireInside(p.visit(s.site+wanted), s.site, wanted, "transfer")
	s.restart()
	p.requireInside(p.visit(s.site+wanted), s.site, wanted, "transfer")
}

// demo is the command with the demo, which releases do not have.
var demo = lab.Program{Name: "caddy-demo", Package: "./caddy"}

// The shipped Caddyfile, on two host names.
func (s *shop) demo(p person) {
	s = newShop(s.T)
	text, err := os.ReadFile(lab.Path(s, "Caddyfile"))
	require.NoError(s, err)
	edited := strings.NewReplacer("http://localhost:8402", s.pay, "http://localhost:8403", s.site).Replace(string(text))
	binary, output, err := demo.Path(s)
	require.NoError(s, err, "%s", output)
	s.start(binary, hosts+edited)
	url := s.site + "/members/?from=letter"
	p.buyByCard(s, url, ".button:not(.plain)")
	seen, host := p.press(open), regexp.MustCompile(`//([^:]+)`).FindStringSubmatch(s.site)[1]
	require.Equal(s, page{url, http.StatusOK, host + "\nWelcome, and thank you.\n\nYou paid, so this page is open for 30 days.\n\nYour receipt opens it again, on up to 5 devices.\n\n" +
		"Back to the shop\n\nSellers: put your files or your app here, in place of this text in the Caddyfile.", []string{}}, seen)
	printed := s.payByCommand(binary, s.TempDir(), s.site+"/members/", "--method", "GET", "--demo")
	require.Contains(s, printed, "Paid 42 pretend USDC")
}
