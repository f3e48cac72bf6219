package gate

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

// raw sends a request line that no client would send, with a Host header and others, and returns all that comes back. The
// server may break such a connection.
func (f *fort) raw(line, host string, header ...string) (text string) {
	f.Helper()
	port := f.port
	if strings.HasPrefix(host, "any.") {
		port = f.any
	}
	connection, err := net.Dial("tcp", "127.0.0.1:"+port)
	require.NoError(f, err)
	defer connection.Close()
	require.NoError(f, connection.SetDeadline(time.Now().Add(server.Patience)))
	lines := append([]string{line, "Host: " + host, "Connection: close"}, header...)
	_, _ = io.WriteString(connection, strings.Join(lines, "\r\n")+"\r\n\r\n")
	answer, err := io.ReadAll(connection)
	require.False(f, errors.Is(err, os.ErrDeadlineExceeded), "%s: no end", line)
	return string(answer)
}

// answerTo is the answer to a raw request as a client reads it; nil if it is none.
func answerTo(text, method string) *http.Response {
	response, err := http.ReadResponse(bufio.NewReader(strings.NewReader(text)), &http.Request{Method: method})
	if err != nil {
		return nil
	}
	return response
}

// methods are those of HTTP and others. The gate asks no payment for OPTIONS, to which a file server has nothing to say.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "OPTIONS", "PROPFIND", "get", "GE", "MADEUP"}

// spellings are paths that are, or may be taken for, those of files behind a gate.
var spellings = []string{
	"/paid/secret.txt", "/paid/", "/paid", "/paid/index.html", "/paid/list/", "/paid/in/deep.txt", "/PAID/secret.txt", "/Paid/SECRET.TXT",
	"//paid/secret.txt", "///paid//secret.txt", "/paid//secret.txt", "/./paid/secret.txt", "/paid/./secret.txt", "/paid/.", "/paid/..;/paid/secret.txt",
	"/open/../paid/secret.txt", "/open/..//paid/secret.txt", "/paid/../paid/secret.txt", "/../paid/secret.txt", "/../../files/paid/secret.txt",
	"/%70aid/secret.txt", "/paid%2fsecret.txt", "/paid%2Fsecret.txt", "/%2fpaid%2fsecret.txt", "/%2e/paid/secret.txt", "/open/%2e%2e/paid/secret.txt",
	"/open/..%2fpaid/secret.txt", "/open%2f..%2fpaid%2fsecret.txt", "/%252e%252e/paid/secret.txt", "/paid%252fsecret.txt", "/%2570aid/secret.txt",
	"/paid\\secret.txt", "\\paid\\secret.txt", "/paid%5csecret.txt", "/open\\..\\paid\\secret.txt", "/open/..%5cpaid/secret.txt",
	"/paid;x/secret.txt", "/paid/secret.txt;x", "/;/paid/secret.txt", "/paid./secret.txt", "/paid/secret.txt.", "/paid/secret.txt%20", "/paid%20/secret.txt",
	"/paid/secret.txt/", "/paid/secret.txt%00", "/paid%00/secret.txt", "/paid/secret.txt::$DATA", "/paid/secret.txt?x", "/paid/secret.txt%3fx", "/paid/secret.txt#x",
	"/paid/secret.txt.gz", "/paid/secret%2etxt", "/p%61id/s%65cret.txt", "/paid/%2e%2e/paid/secret.txt", "/paid/secret.txt%0a", "/paid/%c0%ae%c0%ae/paid/secret.txt",
	"/open/open.txt/../../paid/secret.txt", "/%E2%81%84paid/secret.txt", "/ｐaid/secret.txt", "*", "", "paid/secret.txt", "?/paid/secret.txt",
	"http://shop.localhost/paid/secret.txt", "x:/paid/secret.txt", "x:paid/secret.txt", "http:paid/secret.txt", "http:///paid/secret.txt",
	"/" + strings.Repeat("a/../", 3000) + "paid/secret.txt", "/" + strings.Repeat("/", 5000) + "paid/secret.txt",
}

// parts are what random paths are made of.
var parts = []string{
	"/", "/", "/", "//", "%2f", "%2F", "\\", "%5c", "paid", "paid", "PAID", "%70aid", "pai%64", "open", "..", ".", "%2e%2e", "%2e", ".%2e", "%252e%252e",
	"secret.txt", "secret.txt", "SECRET.TXT", "secret%2etxt", "secret.txt.gz", "index.html", "list", "in", "deep.txt", ";", ";x", ".", "%00", "%20", "?", "#", "*",
}

// gatedSites are those with files behind a matcher: of Caddy's file server, by either of its names, and of another program.
var gatedSites = []string{"shop.localhost", "alias.localhost", "proxied.localhost"}

// No spelling of a path, and no method, leads a request without a pass to what is behind a matcher.
func TestPathSpellingsDoNotBypassGate(t *testing.T) {
	t.Parallel()
	s := openFort(t)
	_, paid := s.pays()
	cookie := s.cookie(paid)
	cookie.Set("Accept-Encoding", "identity") // the compressed file is none, so that its content is seen
	for _, path := range []string{"/paid/secret.txt", "/paid/", "/paid/in/deep.txt"} {
		require.Contains(t, s.ask("GET", s.url("shop", path), cookie).Body, s.content, path)
		require.Contains(t, s.ask("GET", s.url("proxied", path), cookie).Body, s.content, path)
	}
	require.Equal(t, "open", s.ask("GET", s.url("shop", "/open/open.txt"), nil).Body)

	statuses, count := map[int]int{}, 0
	try := func(method, target, site string, header ...string) {
		text := s.raw(method+" "+target+" HTTP/1.1", site, header...)
		require.NotContains(t, text, s.content, "%s %.200q at %s", method, target, site)
		if answer := answerTo(text, method); answer != nil {
			statuses[answer.StatusCode]++
		}
		count++
	}
	for _, site := range gatedSites {
		for _, target := range spellings {
			for _, method := range methods {
				try(method, target, site+":"+s.port)
			}
			try("GET", target, site, "Range: bytes=0-9")
			try("GET", target, site, "Accept-Encoding: gzip")
			try("GET", target, site, "If-None-Match: *")
			try("GET", target, site, "If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT")
			try("POST", target, site, "X-HTTP-Method-Override: GET", "X-Original-URL: /open/open.txt", "X-Rewrite-URL: /open/open.txt")
			try("GET", target, site, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Version: 13")
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range cases.EndToEnd(1_000, 3_000, 100_000) {
		var target strings.Builder
		for range 1 + random.IntN(10) {
			target.WriteString(parts[random.IntN(len(parts))])
		}
		try([]string{"GET", "GET", "HEAD", "POST"}[random.IntN(4)], "/"+target.String(), gatedSites[random.IntN(len(gatedSites))])
	}
	t.Logf("%d requests, answered by %v", count, statuses)
}

// Where a gate has a whole site, every method and every spelling is asked to pay, but OPTIONS.
func TestWholeSiteGateBlocksEveryRequest(t *testing.T) {
	t.Parallel()
	s := openFort(t)
	before := len(s.app.requests())
	for _, site := range []string{"app.localhost", "any.localhost"} {
		for _, target := range spellings {
			for _, method := range methods {
				if method != "OPTIONS" {
					text := s.raw(method+" "+target+" HTTP/1.1", site)
					require.NotContains(t, text, s.content, "%s %.200q", method, target)
				}
			}
		}
	}
	require.Empty(t, s.app.requests()[before:], "an unpaid request runs no application")
	t.Logf("%d requests", 2*len(spellings)*(len(methods)-1))
}

// No header says for which offer or host a request is.
func TestHeadersDoNotChooseGate(t *testing.T) {
	t.Parallel()
	s := openFort(t)
	_, paid := s.pays()
	cookie := s.cookie(paid)
	name, value, _ := strings.Cut(cookie.Get("Cookie"), "=")
	require.Equal(t, http.StatusOK, s.ask("GET", s.url("app", "/"), cookie).Status)
	require.Equal(t, http.StatusOK, s.ask("GET", s.url("alias", "/paid/secret.txt"), cookie).Status, "the cookie is of the offer")

	for _, host := range []string{"app.localhost", "any.localhost"} {
		for _, forged := range []string{"X-Forwarded-Host", "X-Forwarded-For", "X-Real-Ip", "Forwarded", "X-Host", "X-Original-Host"} {
			for _, text := range []string{"second.localhost", "evil.example", "host=evil.example", "127.0.0.1:1"} {
				answer := answerTo(s.raw("GET / HTTP/1.1", host, forged+": "+text), "GET")
				require.Equal(t, http.StatusPaymentRequired, answer.StatusCode)
				require.Contains(t, answer.Header.Get("Link"), "<http://localhost:"+s.port+"/v1/pay?back=")
			}
		}
	}
	// The paths of an offer are answered by its host alone.
	for _, host := range []string{"app.localhost", "second.localhost", "evil.example"} {
		text := s.raw("GET /v1/received HTTP/1.1", host)
		require.NotContains(t, text, `"received`, host)
	}
	// The pass of one offer, by whatever name, opens no gate of another.
	second := sha256.Sum256([]byte("other"))
	for _, each := range []string{name, "pay_offer_" + hex.EncodeToString(second[:4]), "pay_offer", "pay_offer_back"} {
		answer := s.ask("GET", s.url("second", "/"), http.Header{"Cookie": {each + "=" + value}})
		require.Equal(t, http.StatusPaymentRequired, answer.Status, each)
	}
	code := s.code(s.receipt())
	for _, address := range []string{s.url("second", "/?pay_offer="+code), s.url("other", "/?pay_offer="+code), s.url("members", "/?pay_offer="+code)} {
		answer := s.ask("GET", address, nil)
		require.Empty(t, answer.Header.Get("Set-Cookie"), address)
		require.NotEqual(t, http.StatusSeeOther, answer.Status, address)
	}
	require.Equal(t, http.StatusSeeOther, s.ask("GET", s.url("app", "/?pay_offer="+code), nil).Status, "it was not used up")
}
