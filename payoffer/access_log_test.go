package payoffer

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/stretchr/testify/require"
)

// payersSecret is what no line of a log may contain.
const payersSecret = "cmVjZWlwdA.bWFj"

// secretRequests are all places of a payer's secret in a request, as targets and headers.
var secretRequests = []struct {
	name, target string
	header       http.Header
}{
	{"receipt", "/v1/receipt/" + payersSecret, nil},
	{"signed receipt", "/v1/receipt/" + payersSecret + "/receipt.jws", nil},
	{"webhook", "/v1/hook/tip-jar/" + payersSecret, nil},
	{"doubled slashes", "/v1//hook//tip-jar/" + payersSecret, nil},
	{"dots", "/v1/./hook/tip-jar/" + payersSecret, nil},
	{"upper case", "/V1/HOOK/tip-jar/" + payersSecret, nil},
	{"encoded letter", "/v1/%72eceipt/" + payersSecret, nil},
	{"encoded slash", "/v1/receipt%2F" + payersSecret, nil},
	{"encoded webhook", "/v1/h%6fok/tip-jar/" + payersSecret, nil},
	{"repeated", "/v1/receipt/" + payersSecret + "/receipt/", nil},
	{"session", "/v1/thanks?lang=de&session_id=" + payersSecret + "&a=b", nil},
	{"encoded session", "/v1/thanks?session%5fid=" + payersSecret, nil},
	{"session without a name", "/app?cs_live_" + payersSecret, nil},
	{"test session", "/app?cs_test_" + payersSecret, nil},
	{"address in a query", "/app?next=/v1/receipt/" + payersSecret, nil},
	{"malformed escape", "/app?a=%zz&session%5fid=" + payersSecret, nil},
	{"letters whose case has another length", "/ȺȺȺȺȺȺȺȺ/v1/receipt/" + payersSecret, nil},
	{"x402", "/app", http.Header{"Payment-Signature": {payersSecret}}},
	{"x402 version 1", "/app", http.Header{"X-Payment": {payersSecret}}},
	{"x402 response", "/app", http.Header{"X-Payment-Response": {payersSecret}, "Payment-Response": {payersSecret}}},
	{"MPP", "/app", http.Header{"Authorization": {"Payment " + payersSecret}}},
	{"MPP in a list", "/app", http.Header{"Authorization": {"Basic YTpi, payment\t" + payersSecret}}},
	{"MPP header", "/app", http.Header{"Payment-Authorization": {"Payment " + payersSecret}}},
	{"MPP receipt", "/app", http.Header{"Payment-Receipt": {payersSecret}}},
	{"payment to the offer", "/v1/sponsor", http.Header{"Payment-Signature": {payersSecret}}},
	{"referer", "/app", http.Header{"Referer": {"https://pay.example.org/v1/receipt/" + payersSecret}}},
	{"referer with a session", "/v1/offer", http.Header{"Referer": {"https://checkout.example/?session_id=" + payersSecret}}},
}

// logEntry is a line of a log.
type logEntry struct {
	Level, Logger, Msg, Error string
	Status                    int
	Request                   struct {
		Proto, Method, Host, URI string
		RemoteIP                 string `json:"remote_ip"`
		ClientIP                 string `json:"client_ip"`
		Headers                  http.Header
	}
	BytesRead   *int        `json:"bytes_read"`
	Duration    *float64    `json:"duration"`
	Size        *int        `json:"size"`
	RespHeaders http.Header `json:"resp_headers"`
}

// handled are the lines of a log about requests.
func handled(t *testing.T, log string) (lines []logEntry) {
	t.Helper()
	for text := range strings.Lines(log) {
		var line logEntry
		require.NoError(t, json.Unmarshal([]byte(text), &line), text)
		if line.Msg == "handled request" || strings.HasPrefix(line.Logger, "http.log.error") {
			lines = append(lines, line)
		}
	}
	return lines
}

// loggingSite is a site with a plain log, and the directives of another application.
func loggingSite(directives string) string {
	return strings.Replace(strings.Replace(smallest, "\trespond \"the application\" 200\n", directives, 1), "{\n", "{\n\tlog\n", 1)
}

func TestAccessLogHidesSecrets(t *testing.T) {
	client := func(protocol func(*http.Protocols, bool)) *http.Client {
		protocols := new(http.Protocols)
		protocol(protocols, true)
		return &http.Client{Transport: &http.Transport{Protocols: protocols}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	clients := map[string]*http.Client{"HTTP/1.1": client((*http.Protocols).SetHTTP1), "HTTP/2.0": client((*http.Protocols).SetUnencryptedHTTP2)}
	for _, application := range []struct {
		name, directives string
		status           int
	}{
		{"succeeds", "\trespond \"the application\"\n", 200},
		{"fails", "\terror {uri} 500\n", 500},
		{"fails without a status", "\treverse_proxy 127.0.0.1:1\n", 502},
		{"fails, handle_errors", "\terror {uri} 500\n\thandle_errors {\n\t\trespond \"an error page\"\n\t}\n", 500},
		{"is not found, handle_errors fails", "\terror {uri} 404\n\thandle_errors {\n\t\terror {uri} 500\n\t}\n", 404},
		{"rewritten", "\thandle_path /* {\n\t\trewrite * /other\n\t\terror 500\n\t}\n", 500},
	} {
		t.Run(application.name, func(t *testing.T) {
			i := newInstance(t)
			sites := strings.Replace(i.caddyfile(loggingSite(application.directives)), "\tadmin off\n", "\tadmin off\n\tservers {\n\t\tprotocols h1 h2 h2c\n\t}\n", 1)
			require.NoError(t, loadCaddyfile(t, sites))
			sent := 0
			for protocol, client := range clients {
				for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
					for _, c := range secretRequests {
						request := must(http.NewRequestWithContext(t.Context(), method, i.service, nil))(t)
						request.URL.Opaque = "//" + request.URL.Host + c.target // as it is, without cleaning
						for name, values := range c.header {
							request.Header[name] = values
						}
						response, err := client.Do(request)
						require.NoError(t, err, c.name)
						body := must(io.ReadAll(response.Body))(t)
						require.NoError(t, response.Body.Close())
						require.Equal(t, protocol, response.Proto)
						if strings.HasPrefix(c.target, "/app") {
							require.Equal(t, application.status, response.StatusCode, c.name)
							require.NotContains(t, string(body), "an error page")
						}
						sent++
					}
				}
				client.CloseIdleConnections()
			}
			require.NoError(t, caddy.Stop())

			log := i.log()
			require.NotContains(t, log, payersSecret)
			lines := handled(t, log)
			require.Equal(t, sent, len(lines), "one line for each request")
			for _, line := range lines {
				require.True(t, strings.HasPrefix(line.Logger, "http.log.access"), line.Logger)
				require.Equal(t, map[bool]string{true: "error", false: "info"}[line.Status >= 500], line.Level)
			}
		})
	}
}

func TestRedactedLineFields(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(loggingSite("\terror {uri} 500\n")))
	for _, path := range []string{"/v1/offer", "/v1/receipt/" + payersSecret, "/app?session_id=" + payersSecret} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, i.service+path, strings.NewReader("12345"))
		require.NoError(t, err)
		request.Header.Set("X-Original-Uri", path)
		request.Header.Set("X-Payment", "")
		if path == "/v1/offer" {
			request.Header.Del("X-Payment")
		}
		response := must(i.client.Do(request))(t)
		require.NoError(t, response.Body.Close())
	}
	require.NoError(t, caddy.Stop())

	lines := handled(t, i.log())
	require.Equal(t, 3, len(lines))
	ordinary, receipt, failed := lines[0], lines[1], lines[2]
	require.True(t, strings.HasPrefix(ordinary.Logger, "http.log.access"), ordinary.Logger)
	require.Equal(t, "/v1/receipt/REDACTED", receipt.Request.URI)
	require.Equal(t, []string{"/v1/receipt/REDACTED"}, receipt.Request.Headers["X-Original-Uri"])
	require.Equal(t, []string{"REDACTED"}, receipt.Request.Headers["X-Payment"])
	require.Contains(t, receipt.Request.Headers, "User-Agent", "other headers are logged")
	require.Equal(t, 405, receipt.Status)
	require.Equal(t, ordinary.RespHeaders["Server"], receipt.RespHeaders["Server"])
	require.Equal(t, [3]string{"POST", "HTTP/1.1", ordinary.Request.Host}, [3]string{receipt.Request.Method, receipt.Request.Proto, receipt.Request.Host})
	require.Equal(t, [2]string{"127.0.0.1", "127.0.0.1"}, [2]string{receipt.Request.RemoteIP, receipt.Request.ClientIP})
	require.NotNil(t, receipt.BytesRead)
	require.NotNil(t, receipt.Duration)
	require.NotZero(t, *receipt.Size)
	require.Equal(t, "/app?session_id=REDACTED", failed.Request.URI)
	require.Contains(t, failed.Error, "/app?session_id=REDACTED", "the operator reads why")
	require.Equal(t, "error", failed.Level)
}

// Redacted lines have a logger of their own. A failure is always logged, as Caddy does.
func TestRedactedLineNeedsAnAccessLog(t *testing.T) {
	const fails = "\terror /fails {uri} 500\n"
	without := strings.ReplaceAll(loggingSite(fails), "\tlog\n", "")
	failure := []string{"http.handlers.pay_offer 500"}
	all := func(ordinary string) []string {
		const own = "http.log.access.pay_offer "
		return []string{ordinary + " 200", own + "402", own + "404", own + "500"}
	}
	for _, c := range []struct {
		name, sites string
		want        []string
	}{
		{"no log", without, failure},
		{"log_skip", loggingSite(fails + "\tlog_skip\n"), failure},
		{"log", loggingSite(fails), all("http.log.access")},
		{"log_name and log_append", loggingSite(fails + "\tlog_append uri {uri}\n\tlog_name elsewhere\n"), all("http.log.access.elsewhere")},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := newInstance(t)
			require.NoError(t, i.load(strings.ReplaceAll(c.sites, "PORT", i.service[strings.LastIndex(i.service, ":")+1:])))
			require.Equal(t, 200, i.get(i.service+"/v1/pay").status)
			quote := i.get(i.service + "/v1/offer")
			require.Equal(t, 402, quote.status)
			require.Equal(t, 404, i.get(i.service+"/v1/receipt/"+payersSecret).status)
			require.Equal(t, 500, i.get(i.service+"/fails?session_id="+payersSecret).status)
			require.NoError(t, caddy.Stop())
			lines := handled(t, i.log())
			var loggers []string
			for _, line := range lines {
				loggers = append(loggers, fmt.Sprint(line.Logger, " ", line.Status))
			}
			require.Equal(t, c.want, loggers)
			require.NotContains(t, i.log(), payersSecret)
			require.NotEmpty(t, quote.header.Get("PAYMENT-REQUIRED"))
			require.NotContains(t, i.log(), quote.header.Get("PAYMENT-REQUIRED"), "its token proves who the payer is")
		})
	}
}

// The log of a host that has a file of its own gets the lines without a secret, and the server's log the others.
func TestRedactedLineGoesToHostLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "access.log")
	for _, c := range []struct {
		directives   string
		server, host int // how many lines
	}{
		{"log", 4, 0},
		{"log {\n\t\toutput file " + file + "\n\t}", 3, 1},
		{"log\n\tlog_skip", 0, 0},
	} {
		t.Run(c.directives, func(t *testing.T) {
			i := newInstance(t)
			require.NoError(t, i.load(strings.Replace(loggingSite(""), "log", c.directives, 1)))
			i.get(i.service + "/v1/receipt/" + payersSecret)
			i.get(i.service + "/v1/pay")
			for _, path := range []string{"/v1/sponsor", "/v1/hook/gumroad/" + payersSecret} {
				request := must(http.NewRequestWithContext(t.Context(), http.MethodPost, i.service+path, http.NoBody))(t)
				request.Header.Set("X-Payment", payersSecret)
				require.NoError(t, must(i.client.Do(request))(t).Body.Close())
			}
			require.NoError(t, caddy.Stop())
			own, _ := os.ReadFile(file)
			_ = os.Remove(file)
			require.NotContains(t, i.log()+string(own), payersSecret)
			require.Len(t, handled(t, i.log()), c.server)
			require.Len(t, handled(t, string(own)), c.host)
		})
	}
}

// A gate stands behind the offer of its site: both see the same quote.
func TestGateQuoteLoggedOnce(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(loggingSite("\tpay_offer_gate /gated/* {\n\t\tstart /gated/\n\t}\n\trespond \"paid\"\n")))
	require.Equal(t, 402, i.get(i.service+"/gated/").status)
	require.NoError(t, caddy.Stop())
	lines := handled(t, i.log())
	require.Equal(t, 1, len(lines))
	require.Equal(t, []string{"REDACTED"}, lines[0].RespHeaders["Payment-Required"])
}

// What has no secret is logged by Caddy, and its errors are those of the site.
func TestRequestWithoutSecretLoggedUnchanged(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(loggingSite("\terror {uri} 500\n\thandle_errors {\n\t\trespond \"an error page\" 500\n\t}\n")))
	paths := []string{"/app", "/v1/%72eceived?after=%2F1", "/v1/receipt", "/v1/pay/transfer?lang=de", "/webhook/github?a=%2F", "/receipt/7", "/app?session=a_b", "/app?discount=50%"}
	for _, path := range paths {
		got := i.get(i.service + path)
		require.Equal(t, strings.HasPrefix(path, "/v1/%") || strings.HasPrefix(path, "/v1/pay/"), got.body != "an error page", path)
	}
	require.NoError(t, caddy.Stop())
	lines := handled(t, i.log())
	require.Equal(t, len(paths), len(lines))
	for n, line := range lines {
		require.Equal(t, paths[n], line.Request.URI)
		require.True(t, strings.HasPrefix(line.Logger, "http.log.access"), line.Logger)
	}
}

// requestContext is what Caddy's server adds to the context of a request.
func requestContext(r *http.Request) context.Context {
	ctx := context.WithValue(r.Context(), caddyhttp.VarsCtxKey, make(map[string]any))
	ctx = context.WithValue(ctx, caddyhttp.ServerCtxKey, &caddyhttp.Server{Logs: new(caddyhttp.ServerLogConfig)})
	ctx = context.WithValue(ctx, caddy.ReplacerCtxKey, caddy.NewReplacer())
	return context.WithValue(ctx, caddyhttp.OriginalRequestCtxKey, http.Request{Method: r.Method, RequestURI: r.RequestURI})
}

func TestPanicLogHidesSecret(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(loggingSite("\treverse_proxy 127.0.0.1:1\n")))
	h := &Handler{app: activeApp(), offer: activeApp().offers[0], log: requestLog{activeApp().logger, activeApp().logger}}
	r := httptest.NewRequest(http.MethodGet, "/app?session_id="+payersSecret, nil)
	r = r.WithContext(requestContext(r))
	require.Panics(t, func() {
		_ = h.ServeHTTP(httptest.NewRecorder(), r, caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { panic(http.ErrAbortHandler) }))
	})
	require.Equal(t, true, caddyhttp.GetVar(r.Context(), caddyhttp.LogSkipVar))
	require.NoError(t, caddy.Stop())
	require.Equal(t, 1, len(handled(t, i.log())))
	require.NotContains(t, i.log(), payersSecret)
}

// Servers and clients also accept other spellings of the prefixes.
func TestSecretPrefixSpellings(t *testing.T) {
	for _, prefix := range []string{"/v1/hook/", "/v1/receipt/", "?session_id=", "?cs_live_", "?cs_test_", "?pay_offer="} {
		for n, character := range prefix {
			before, after := prefix[:n], prefix[n+1:]
			for _, spelled := range []string{
				before + strings.ToUpper(string(character)) + after, strings.ToUpper(before) + string(character) + strings.ToUpper(after),
				before + fmt.Sprintf("%%%x", character) + after,
			} {
				require.True(t, isSecret(spelled+payersSecret), spelled)
			}
		}
	}
}

func TestHasSecretAllocatesNothing(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/v1/qr/card/aHR0cHM6Ly9jaGVja291dC5leGFtcGxl.ab_cd-ef.png?lang=de", nil)
	r.Header = http.Header{"Accept": {"text/html"}, "Referer": {"https://pay.example.org/v1/pay"}, "Authorization": {"Basic YTpi"}, "User-Agent": {"test"}}
	r = r.WithContext(requestContext(r))
	require.False(t, hasSecret(r))
	require.Zero(t, testing.AllocsPerRun(100, func() { hasSecret(r) }))
}
