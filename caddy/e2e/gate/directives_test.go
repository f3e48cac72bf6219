package gate

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

func TestGateBeforeHandleBlocks(t *testing.T) {
	t.Parallel()
	s := openStore(t, `
http://site.localhost:{PORT} {
	pay_offer_gate
	handle /a/* {
		handle /a/inner {
			respond "inner `+secret+`"
		}
		respond "first `+secret+`"
	}
	handle {
		respond "second `+secret+`"
	}
}
http://nested.localhost:{PORT} {
	handle /m/* {
		pay_offer_gate {
			start http://nested.localhost:{PORT}/m/
		}
		handle /m/a {
			respond "first `+secret+`"
		}
		handle {
			respond "second `+secret+`"
		}
	}
	handle {
		respond "open"
	}
}
`, nil)
	want := map[string]string{
		s.site + "/a/x": "first ", s.site + "/a/inner": "inner ", s.site + "/b": "second ",
		strings.Replace(s.site, "site.", "nested.", 1) + "/m/a": "first ", strings.Replace(s.site, "site.", "nested.", 1) + "/m/b": "second ",
	}
	paid := 0
	for address, text := range want {
		buyer := s.visitor()
		requireTerms(t, buyer.do(http.MethodGet, address, "", nil), address)
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			paid++
			a := s.visitor().do(method, address, "", s.payment())
			require.Equal(t, http.StatusOK, a.Status, "%s %s: %s", method, address, a.Body)
			require.Equal(t, text+secret, a.Body, address)
			require.Equal(t, paid, s.charged(), "one charge")
		}
		entered, a := buyer.enter(s.sell("handle" + strings.ReplaceAll(text+address[len(address)-1:], " ", "")))
		require.Equal(t, s.site+"/", strings.Replace(entered, "nested.localhost:"+s.port+"/m/", "site.localhost:"+s.port+"/", 1))
		require.Contains(t, a.Body, secret)
	}
	require.Equal(t, "open", s.visitor().do(http.MethodGet, strings.Replace(s.site, "site.", "nested.", 1)+"/x", "", nil).Body)
}

func TestGateInHandlePathKeepsURL(t *testing.T) {
	t.Parallel()
	s := openStore(t, `
http://site.localhost:{PORT} {
	handle_path /files/* {
		pay_offer_gate {
			start /files/
		}
		root {ROOT}
		file_server
	}
	handle {
		rewrite /renamed/* /deep{uri}
		pay_offer_gate /deep/* {
			start /renamed/
		}
		respond "{uri} `+secret+`"
	}
}
`, map[string]string{"a.txt": secret, "index.html": secret})
	for target, content := range map[string]string{
		"/files/a.txt?x=1&y=%2F": secret, "/files/": secret, "/renamed/b?q=1": "/deep/renamed/b?q=1 " + secret,
	} {
		v := s.visitor()
		a := v.get(target)
		requireTerms(t, a, target)
		path, _, _ := strings.Cut(target, "?")
		require.Equal(t, s.site+path, resource(t, a))
		require.Equal(t, s.site+target, v.wayBack(a, "path"+strings.NewReplacer("/", "", "?", "", "=", "", "&", "", "%", "", ".", "").Replace(target)))
		require.Equal(t, content, v.get(target).Body)
	}
	require.Equal(t, http.StatusNotFound, s.visitor().do(http.MethodGet, s.site+"/files/none", "", s.payment()).Status)
	require.Zero(t, s.charged())
}

// Both sites ask for a login before they ask for a payment.
func TestLoginBeforeCharge(t *testing.T) {
	t.Parallel()
	var users sync.Map
	login := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		users.Store(r.Header.Get("X-Forwarded-Uri"), true)
		if r.Header.Get("Authorization") == "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Remote-User", "ann")
	}))
	defer login.Close()
	s := openStore(t, `
http://site.localhost:{PORT} {
	basic_auth {
		ann $2a$04$gB6mM1ZJeZvZ0Qinob77fuND8hWnTLKdPyrlpud8Ude8RgvI0Bke2
	}
	pay_offer_gate
	respond "{http.auth.user.id} `+secret+`"
}
http://forward.localhost:{PORT} {
	forward_auth {LOGIN} {
		uri /check
		copy_headers Remote-User
	}
	pay_offer_gate {
		start http://forward.localhost:{PORT}/
	}
	respond "{header.Remote-User} `+secret+`"
}
`, nil, "{LOGIN}", login.URL)
	const user = "Basic YW5uOnNlY3JldA=="
	paid := 0
	for _, site := range []string{s.site, strings.Replace(s.site, "site.", "forward.", 1)} {
		v := s.visitor()
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodHead} {
			for what, header := range map[string]http.Header{"nothing": {}, "a payment": s.payment(), "a page": {"Accept": {"text/html"}}} {
				a := v.do(method, site+"/x", "", header)
				require.Equal(t, http.StatusUnauthorized, a.Status, what)
				require.Empty(t, a.Header.Get("Payment-Required"), what)
				require.NotContains(t, a.Body, secret)
			}
		}
		require.Equal(t, paid, s.charged(), "no charge before the login")

		requireTerms(t, v.do(http.MethodGet, site+"/x", "", http.Header{"Authorization": {user}}), site)
		header := s.payment()
		header.Set("Authorization", user)
		a := v.do(http.MethodGet, site+"/x", "", header)
		paid++
		require.Equal(t, "ann "+secret, a.Body)
		require.Equal(t, paid, s.charged())
		require.Equal(t, "ann "+secret, v.do(http.MethodGet, site+"/x", "", http.Header{"Authorization": {user}}).Body, "the cookie")
		require.Equal(t, http.StatusUnauthorized, v.do(http.MethodGet, site+"/x", "", nil).Status, "a payment is no login")
	}
}

func TestWebSocketNeedsPass(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" {
			_, _ = io.WriteString(w, secret)
			return
		}
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Connection", "Upgrade")
		w.WriteHeader(http.StatusSwitchingProtocols)
		connection, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer connection.Close()
		for line, err := buffered.ReadString('\n'); err == nil; line, err = buffered.ReadString('\n') {
			_, _ = io.WriteString(connection, "echo "+line)
		}
	}))
	defer upstream.Close()
	s := openStore(t, `
http://site.localhost:{PORT} {
	pay_offer_gate
	reverse_proxy {UPSTREAM}
}
`, nil, "{UPSTREAM}", upstream.URL)
	upgrade := []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-Websocket-Version", "13", "Sec-Websocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}
	stranger := s.visitor()
	requireTerms(t, stranger.get("/socket", upgrade...), "an upgrade")
	a := stranger.get("/socket", append(upgrade, "Payment-Signature", s.payment().Get("Payment-Signature"))...)
	requireTerms(t, a, "a paid upgrade")
	require.Zero(t, s.charged(), "an upgrade has no answer that could name the payment")

	payer := s.entered("socket")
	request := lab.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, s.site+"/socket", nil))(t)
	for i := 0; i < len(upgrade); i += 2 {
		request.Header.Set(upgrade[i], upgrade[i+1])
	}
	client := *payer.client
	client.Timeout = 0 // net/http hands over no connection with a time limit
	answer, err := client.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusSwitchingProtocols, answer.StatusCode)
	connection := answer.Body.(io.ReadWriteCloser)
	lines := bufio.NewReader(connection)
	for _, word := range []string{"one\n", "two\n"} {
		_, err = io.WriteString(connection, word)
		require.NoError(t, err)
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "echo "+word, line)
	}
	s.refund("socket")
	server.Eventually(t, "the refund closes the gate", func() bool { return payer.get("/").Status == http.StatusPaymentRequired })
	_, err = io.WriteString(connection, "still\n")
	require.NoError(t, err)
	line := lab.Must(lines.ReadString('\n'))(t)
	require.Equal(t, "echo still\n", line, "an open connection stays")
	requireTerms(t, payer.get("/socket", upgrade...), "a new upgrade after the refund")
}
