package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// Patience is how long a test waits for something that happens in the background.
const Patience = time.Minute

// Answer is a whole HTTP response.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Client follows no redirect and keeps no connection, because a connection can end with the configuration that took it.
var Client = &http.Client{Timeout: 2 * Patience, Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: Stay}

// Stay keeps a client from following a redirect.
func Stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Do sends a request and reads the whole response.
func Do(client *http.Client, method, url, body string, header http.Header) (Answer, error) {
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	for name, values := range header {
		request.Header[name] = values
	}
	response, err := client.Do(request)
	if err != nil {
		return Answer{}, err
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	return Answer{response.StatusCode, response.Header, string(read)}, err
}

// Ask is Do until there is a response. The status is 0 if none came in time.
func Ask(client *http.Client, method, url, body string, header http.Header) (a Answer) {
	for deadline := time.Now().Add(Patience); time.Now().Before(deadline); {
		var err error
		if a, err = Do(client, method, url, body, header); err == nil {
			return a
		}
		a = Answer{Body: err.Error()}
	}
	return a
}

// Get returns the body of an address, which must answer 200. Accept is the preferred media type, or empty.
func Get(t testing.TB, url, accept string) string {
	t.Helper()
	header := http.Header{}
	if accept != "" {
		header.Set("Accept", accept)
	}
	a := Ask(Client, http.MethodGet, url, "", header)
	require.Equal(t, http.StatusOK, a.Status, "%s: %s", url, a.Body)
	return a.Body
}

// Confirmed returns how many receipts of a rail are confirmed, or -1 while that is unknown.
func Confirmed(url, rail string) int {
	var report struct {
		Rails []struct {
			Rail      string
			Confirmed *struct{ Count int }
		}
	}
	a, err := Do(Client, http.MethodGet, url+"/v1/received", "", nil)
	if err == nil && json.Unmarshal([]byte(a.Body), &report) == nil {
		for _, r := range report.Rails {
			if r.Rail == rail && r.Confirmed != nil {
				return r.Confirmed.Count
			}
		}
	}
	return -1
}

// Eventually polls until done.
func Eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !done(); time.Sleep(20 * time.Millisecond) {
		require.False(t, time.Now().After(deadline), "not in time: %s", what)
	}
}

// Load replaces the configuration of the server with an admin address such as "127.0.0.1:2019", also by an equal one, as
// "caddy reload --force" does.
func Load(admin, caddyfile string) (Answer, error) {
	return Do(Client, http.MethodPost, "http://"+admin+"/load", caddyfile, http.Header{
		"Content-Type": {"text/caddyfile"}, "Cache-Control": {"must-revalidate"},
	})
}

// Command runs "caddy pay-offer" with a standard input, and returns its output.
func Command(t testing.TB, stdin string, arguments ...string) (string, error) {
	t.Helper()
	command := exec.Command(Released(t), append([]string{"pay-offer"}, arguments...)...)
	command.Stdin, command.Dir = strings.NewReader(stdin), t.TempDir()
	command.Env = append(Inherited(), "HOME="+command.Dir)
	output, err := command.CombinedOutput()
	return string(output), err
}

// StartPayable starts PayableCaddyfile for a payee until the test ends, and returns the address of its offer. Replace are
// pairs of a text of the Caddyfile and another.
func StartPayable(t testing.TB, payee, facilitator, rpc string, replace ...string) (string, *Process) {
	t.Helper()
	port := payoffertest.FreePort(t)
	caddyfile := strings.NewReplacer(replace...).Replace(PayableCaddyfile)
	base := "http://localhost:" + port
	return base, Start(t, base, strings.NewReplacer("{DIR}", t.TempDir(), "{PORT}", port, "{PAYEE}", payee, "{FACILITATOR}", facilitator, "{RPC}", rpc).
		Replace(caddyfile))
}

// CardEvent is an event of the card processor about an object.
func CardEvent(kind, id, object string) string {
	return fmt.Sprintf(`{"id":"evt_%s_%s","object":"event","type":%q,"livemode":true,"created":%d,"data":{"object":%s}}`,
		strings.ReplaceAll(kind, ".", "_"), id, kind, time.Now().Unix(), object)
}

// Checkout is a checkout session of the payment link plink_1.
func Checkout(id, paymentStatus string, cents int) string {
	return fmt.Sprintf(`{"id":"cs_%s","object":"checkout.session","mode":"payment","status":"complete","payment_status":%q,"amount_total":%d,
		"currency":"usd","livemode":true,"created":%d,"payment_intent":"pi_%[1]s","payment_link":"plink_1"}`, id, paymentStatus, cents, time.Now().Unix()+1)
}

// CardPaid is the event of a paid checkout session, with the headers of its delivery.
func CardPaid(id string, cents int, secret string) (string, http.Header) {
	event := CardEvent("checkout.session.completed", id, Checkout(id, "paid", cents))
	return event, CardHeader(event, secret)
}

// CardHeader has the headers with which the card processor delivers an event now.
func CardHeader(event, secret string) http.Header {
	return http.Header{
		"Content-Type": {"application/json"}, "Stripe-Signature": {payoffertest.SignDelivery([]byte(event), time.Now(), secret)},
	}
}

// StorefrontSale is a storefront's notice of a sale, with its headers.
func StorefrontSale(id string, cents int) (string, http.Header) {
	return url.Values{
		"sale_id": {id}, "order_number": {"1"}, "product_id": {"product-1"}, "price": {fmt.Sprint(cents)}, "currency": {"usd"},
		"seller_id": {"seller-1"}, "email": {"buyer@example.org"}, "sale_timestamp": {time.Now().UTC().Add(time.Second).Format(time.RFC3339)},
	}.Encode(), http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
}
