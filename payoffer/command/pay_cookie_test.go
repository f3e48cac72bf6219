package command

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
