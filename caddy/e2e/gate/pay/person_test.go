package pay

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/browser"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
)

// open is the label of the button that leads in, and signOut that of the button that ends all browsers.
const (
	open    = "Open what you paid for"
	signOut = "Sign out all browsers"
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

func TestAPersonWhoPaidByCardComesBack(t *testing.T) {
	s := openShop(t)
	b := browser.Run(t, "caddy/e2e/gate/pay/person.mjs")
	ada, url := person{t, b, "ada"}.come(), s.site+wanted
	ada.requireOutside(ada.visit(url), url)
	ada.look("gate-402")
	ada.buyByCard(s, url, "Pay")
	thanks := ada.see()
	ada.requireInside(ada.press(open), s.site, wanted, "card")

	s.restart()
	ada.requireInside(ada.visit(url), s.site, wanted, "card")
	ada.leave()
	ada.come().requireInside(ada.visit(url), s.site, wanted, "card")

	// In a second browser by the receipt.
	ada.visit(thanks.URL)
	receipt := ada.press("View receipt").URL
	ada.look("gate-receipt")
	bob := person{t, b, "bob"}.come()
	bob.requireOutside(bob.visit(url), url)
	bob.visit(receipt)
	bob.requireInside(bob.press(open), s.site, "/members/", "card")
	bob.requireInside(bob.visit(url), s.site, wanted, "card")
	bob.visit(receipt)
	require.Equal(t, receipt, bob.press(signOut).URL)
	bob.requireOutside(bob.visit(url), url)
	ada.requireOutside(ada.visit(url), url)
	ada.visit(receipt)
	ada.requireInside(ada.press(open), s.site, "/members/", "card")
}

func TestATransferThatTheSellerRecordsOpensTheSite(t *testing.T) {
	s := openShop(t)
	receipt := s.record()
	p := person{t, browser.Run(t, "caddy/e2e/gate/pay/person.mjs"), "ada"}.come()
	p.visit(receipt)
	p.requireInside(p.press(open), s.site, "/members/", "transfer")
	p.requireInside(p.visit(s.site+wanted), s.site, wanted, "transfer")
	s.restart()
	p.requireInside(p.visit(s.site+wanted), s.site, wanted, "transfer")
}

// demo is the command with the demo, which releases do not have.
var demo = lab.Program{Name: "caddy-demo", Package: "./caddy"}

// The shipped Caddyfile, on two host names.
func TestTheDemoSellsItsGatedPage(t *testing.T) {
	s := newShop(t)
	text, err := os.ReadFile(lab.Path(t, "Caddyfile"))
	require.NoError(t, err)
	edited := strings.NewReplacer("http://localhost:8402", s.pay, "http://localhost:8403", s.site).Replace(string(text))
	binary, output, err := demo.Path(t)
	require.NoError(t, err, "%s", output)
	s.start(binary, hosts+edited)
	p := person{t, browser.Run(t, "caddy/e2e/gate/pay/person.mjs"), "ada"}.come()
	url := s.site + "/members/?from=letter"
	p.buyByCard(s, url, ".button:not(.plain)")
	seen := p.press(open)
	require.Equal(t, page{url, http.StatusOK, "Welcome. You paid, so this page is open for 30 days.", []string{}}, seen)
	printed := s.payByCommand(binary, t.TempDir(), s.site+"/members/", "--method", "GET", "--demo")
	require.Contains(t, printed, "Paid 42 pretend USDC")
}
