package command

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// openMembers starts a seller whose pages are open to a payment or to the cookie of one. It counts payments, and answers
// requests with a valid cookie by answer.
func openMembers(t *testing.T, maxAge string, answer http.HandlerFunc) (url string, payments *int) {
	t.Helper()
	payments = new(int)
	var stall http.Handler
	members := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if cookie, err := r.Cookie("access"); err == nil && cookie.Value == "granted" && strings.HasPrefix(r.URL.Path, "/members/") {
			answer(w, r)
			return
		}
		stall.ServeHTTP(w, r)
	}))
	t.Cleanup(members.Close)
	stall = newStall(members.URL, payments, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", "access=granted; Path=/members; HttpOnly"+maxAge)
		settled(w, r)
		_, _ = w.Write([]byte("paid " + r.URL.Path))
	})
	return members.URL, payments
}

func opens(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	_, _ = w.Write([]byte("opened " + r.Method + " " + r.URL.Path))
}

func TestCommandPayOpensByCookieOfEarlierPayment(t *testing.T) {
	t.Setenv(keyVariable, payerKey)
	url, payments := openMembers(t, "; Max-Age=3600", opens)
	state := t.TempDir()
	must(pay(t, state, url+"/members/1.zip", "--yes"))(t)
	require.Equal(t, 1, *payments)

	output := filepath.Join(t.TempDir(), "2.txt")
	out := must(pay(t, state, url+"/members/2.txt", "--output", output, "--json"))(t) // needs no --yes
	require.Contains(t, out, "An earlier payment to "+strings.TrimPrefix(url, "http://")+" opens this URL. Nothing is paid now; --new pays again.")
	require.Contains(t, out, `"status":"opened"`)
	require.Contains(t, out, `"content":"opened GET /members/2.txt"`)
	require.Equal(t, "opened GET /members/2.txt", string(must(os.ReadFile(output))(t)))
	require.Contains(t, must(pay(t, state, url+"/members/2.txt"))(t), "opened GET", "nothing of it is stored")
	require.Contains(t, must(pay(t, state, url+"/members/post", "--method", "POST"))(t), "opened POST /members/post")
	require.Equal(t, 1, *payments)

	must(pay(t, state, url+"/members/2.txt", "--yes", "--new"))(t)
	require.Equal(t, 2, *payments, "--new")
	must(pay(t, state, url+"/other", "--yes"))(t)
	require.Equal(t, 3, *payments, "a path that the cookie is not for")
	t.Setenv(keyVariable, strings.Repeat("11", 32))
	must(pay(t, state, url+"/members/3.txt", "--yes"))(t)
	require.Equal(t, 4, *payments, "another payer")
}

func TestCommandPayIgnoresExpiredCookie(t *testing.T) {
	t.Setenv(keyVariable, payerKey)
	for name, attributes := range map[string]string{"no longer valid": "; Expires=Mon, 01 Jun 2026 00:00:00 GMT", "deleted": "; Max-Age=0"} {
		url, payments := openMembers(t, attributes, opens)
		state := t.TempDir()
		must(pay(t, state, url+"/members/1", "--yes"))(t)
		must(pay(t, state, url+"/members/2", "--yes"))(t)
		require.Equal(t, 2, *payments, name)
	}
}

func TestCommandPayIgnoresCookieThatOpensNothing(t *testing.T) {
	t.Setenv(keyVariable, payerKey)
	url, payments := openMembers(t, "", func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Cookie") // its access has ended
		newStall("http://"+r.Host, new(int), settled).ServeHTTP(w, r)
	})
	state := t.TempDir()
	for n, path := range []string{"/members/1", "/members/2"} {
		must(pay(t, state, url+path, "--yes"))(t)
		require.Equal(t, n+1, *payments)
	}
}

// While it is not known whether an earlier payment opens a URL, no other is signed.
func TestCommandPayDoesNotPayWhileCookieMayOpen(t *testing.T) {
	t.Setenv(keyVariable, payerKey)
	for said, answer := range map[string]http.HandlerFunc{
		"the answer is status 503": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
		"the answer is status 302": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) },
		"sent no answer":           func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"is incomplete": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			_, _ = w.Write([]byte("half"))
		},
	} {
		url, payments := openMembers(t, "", answer)
		state := t.TempDir()
		must(pay(t, state, url+"/members/1", "--yes"))(t)
		require.ErrorContains(t, errorOf(pay(t, state, url+"/members/2", "--yes")), said)
		require.Equal(t, 1, *payments, said)
	}
}

// A payment at the offer itself opens the gates of its offer by the address that its answer names. In each case the payer
// then asks for /members/1 at another host.
func TestCommandPayOpensByAccessURLOfEarlierPayment(t *testing.T) {
	const once, twice = 1, 2
	stranger := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a seller led a request elsewhere") }))
	defer stranger.Close()
	for name, c := range map[string]struct {
		enter    http.HandlerFunc // of the address; nil leads to the gate, which sets its cookie
		access   string           // the address, if another one
		key      string           // of the second command, if another one
		payee    string           // of the gate, if another one
		renewed  bool             // the payer has paid once before, and that access has ended
		payments int
		says     string
	}{
		"opened":            {payments: once, says: "opened GET /members/1"},
		"renewed":           {renewed: true, payments: twice, says: "opened GET /members/1"},
		"another payer":     {key: strings.Repeat("11", 32), payments: twice},
		"another payee":     {payee: "0x8617E340B3D01FA5F11F306F4090FD50E238070D", payments: twice},
		"access has ended":  {enter: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/v1/receipt/1", 303) }, payments: twice},
		"not found":         {enter: http.NotFound, payments: twice},
		"leads elsewhere":   {enter: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, stranger.URL, 303) }, payments: twice},
		"elsewhere at once": {access: stranger.URL + "/enter", payments: twice},
		"no URL":            {access: "http://[", payments: twice},
		"unavailable":       {enter: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, payments: once, says: "not paid: an earlier payment may open this URL"},
		"too many requests": {enter: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) }, payments: once, says: "not paid: an earlier payment may open this URL"},
		"no answer":         {enter: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, payments: once, says: "not paid: an earlier payment may open this URL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(keyVariable, payerKey)
			members, payments := openMembers(t, "; Max-Age=3600", opens)
			gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Get("code") == "secret" {
					w.Header().Set("Set-Cookie", "access=granted; Path=/members; HttpOnly; Max-Age=3600")
					http.Redirect(w, r, "/members/start", http.StatusSeeOther)
					return
				}
				request, err := http.NewRequest(r.Method, members+r.URL.RequestURI(), nil)
				require.NoError(t, err)
				request.Header = r.Header
				answer, err := http.DefaultTransport.RoundTrip(request)
				require.NoError(t, err)
				defer answer.Body.Close()
				for key, values := range answer.Header {
					w.Header()[key] = values
				}
				if quote, err := x402.DecodeHeader(w.Header().Get(x402.HeaderRequired)); err == nil && c.payee != "" {
					quote = []byte(strings.Replace(string(quote), "0x52908400098527886E0F7030069857D2E4169EE7", c.payee, 1))
					w.Header().Set(x402.HeaderRequired, x402.EncodeHeader(json.RawMessage(quote)))
				}
				w.WriteHeader(answer.StatusCode)
				_, _ = io.Copy(w, answer.Body)
			}))
			defer gate.Close()
			offerHost := http.NewServeMux()
			offerHost.HandleFunc("/enter", func(w http.ResponseWriter, r *http.Request) {
				if c.enter != nil {
					c.enter(w, r)
					return
				}
				http.Redirect(w, r, gate.URL+"/members/start?code=secret", http.StatusSeeOther)
			})
			server := httptest.NewServer(offerHost)
			defer server.Close()
			offerHost.Handle("/v1/sponsor", newStall(server.URL, payments, func(w http.ResponseWriter, r *http.Request) {
				settled(w, r)
				access := cmp.Or(c.access, server.URL+"/enter")
				if c.renewed && *payments == 1 {
					access = server.URL + "/ended"
				}
				_, _ = w.Write([]byte(`{"access":{"url":"` + access + `"}}`))
			}))

			state := t.TempDir()
			must(pay(t, state, server.URL+"/v1/sponsor", "--yes"))(t)
			if c.renewed {
				must(pay(t, state, server.URL+"/v1/sponsor", "--yes", "--new"))(t)
			}
			t.Setenv(keyVariable, cmp.Or(c.key, payerKey))
			out, err := pay(t, state, gate.URL+"/members/1", "--yes")
			require.Contains(t, out+fmt.Sprint(err), c.says)
			require.Equal(t, c.payments, *payments)
		})
	}
}
