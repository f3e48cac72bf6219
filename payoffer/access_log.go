package payoffer

import (
	"cmp"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

var (
	// secretHeaders contain a signed payment, or the response to it. Authorization may contain one.
	secretHeaders = []string{
		"Payment-Signature", "X-Payment", "Payment-Response", "X-Payment-Response", "Payment-Authorization", "Payment-Receipt",
	}
	paymentScheme = regexp.MustCompile(`(?i)(^|[\s,])payment\s`)

	// secretPrefix is what a secret follows in an address: offer.PathHook, offer.PathReceipt, a checkout session or
	// gate.Parameter. The server accepts doubled slashes, and clients misspell addresses.
	secretPrefix = regexp.MustCompile(`(?is)/v1/(.*?/)??(hook|receipt)/|session_id=|cs_live_|cs_test_|pay_offer=`)
	escape       = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
	// prefixParts are strings of which every address with a secret contains one.
	// Few other addresses contain one. "_" alone is in a third of the addresses of QR images.
	prefixParts = []string{"%", "k/", "K/", "t/", "T/", "d=", "D=", "s_", "S_", "y_", "Y_"}
)

// hasSecret reports whether a request contains a payer's secret. It does not allocate for other requests.
func hasSecret(r *http.Request) bool {
	for _, name := range secretHeaders {
		if _, found := r.Header[name]; found {
			return true
		}
	}
	_, address := original(r)
	return isSecret(address) || slices.ContainsFunc(r.Header["Referer"], isSecret) ||
		slices.ContainsFunc(r.Header["Authorization"], paymentScheme.MatchString)
}

func isSecret(address string) bool {
	contains := func(part string) bool { return strings.Contains(address, part) }
	return slices.ContainsFunc(prefixParts, contains) && redactAddress(address) != address
}

// redactAddress removes everything after the first prefix of a secret. The server also accepts percent-encoded prefixes.
func redactAddress(address string) string {
	decoded := escape.ReplaceAllStringFunc(address, func(e string) string {
		character, _ := url.PathUnescape(e)
		return character
	})
	if found := secretPrefix.FindStringIndex(decoded); found != nil {
		return decoded[:found[1]] + "REDACTED"
	}
	return address
}

// redactHeader is a header without payments and addresses. Caddy redacts other credentials.
func redactHeader(header http.Header) caddyhttp.LoggableHTTPHeader {
	kept := make(http.Header)
	for name, values := range header {
		if slices.ContainsFunc(secretHeaders, func(secret string) bool { return strings.EqualFold(secret, name) }) {
			kept[name] = []string{"REDACTED"}
			continue
		}
		for _, value := range values {
			kept[name] = append(kept[name], redactAddress(value))
		}
	}
	return caddyhttp.LoggableHTTPHeader{Header: kept}
}

// original is the method and the address of a request before it was rewritten.
func original(r *http.Request) (method, address string) {
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		return original.Method, original.RequestURI
	}
	return r.Method, r.RequestURI
}

// countingBody counts the bytes of a request's body that were read.
type countingBody struct {
	io.ReadCloser
	read int
}

func (b *countingBody) Read(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p)
	b.read += n
	return n, err
}

// serveSecret serves a request with a secret. Caddy's access log leaves it out, and logger logs it redacted, with the fields
// of Caddy's line, if the site has an access log. Caddy would log the address and headers of a request whose handler returns
// an error, so serveSecret responds to it instead: 'handle_errors' does not apply to these requests. Handlers that are ordered
// before pay_offer, and lines of other modules about a request that they handle, are not covered.
func serveSecret(logger *zap.Logger, w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter) error) error {
	start, recorder, body := time.Now(), caddyhttp.NewResponseRecorder(w, nil, nil), &countingBody{ReadCloser: r.Body}
	if r.Body != nil {
		r.Body = body
	}
	logged := r.WithContext(r.Context()) // a copy, because handlers may rewrite r
	logged.Method, logged.RequestURI = original(r)
	logged.RequestURI, logged.Header = redactAddress(logged.RequestURI), redactHeader(r.Header).Header
	skipped, _ := caddyhttp.GetVar(r.Context(), caddyhttp.LogSkipVar).(bool)
	wanted := !skipped && logsAccess(r)
	caddyhttp.SetVar(r.Context(), caddyhttp.LogSkipVar, true)

	var err error
	defer func() { // also if a handler panics
		level := zapcore.InfoLevel
		if recorder.Status() >= http.StatusInternalServerError {
			level = zapcore.ErrorLevel
		}
		line := logger.Check(level, "handled request")
		if line == nil || !wanted && (err == nil || level == zapcore.InfoLevel) {
			return
		}
		userID, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).GetString("http.auth.user.id")
		fields := []zap.Field{
			zap.Object("request", caddyhttp.LoggableHTTPRequest{Request: logged}), zap.Int("bytes_read", body.read), zap.String("user_id", userID),
			zap.Duration("duration", time.Since(start)), zap.Int("size", recorder.Size()), zap.Int("status", recorder.Status()),
			zap.Object("resp_headers", redactHeader(recorder.Header())),
		}
		if err != nil {
			fields = append(fields, zap.String("error", redactAddress(err.Error())))
		}
		line.Write(fields...)
	}()
	if err = serve(recorder); err != nil && recorder.Status() < http.StatusOK {
		status := http.StatusInternalServerError
		if failure, ok := errors.AsType[caddyhttp.HandlerError](err); ok {
			status = cmp.Or(failure.StatusCode, status)
		}
		http.Error(recorder, http.StatusText(status), status)
	}
	return nil
}

// logsAccess reports whether Caddy logs requests of this host, as Server.shouldLogRequest does.
func logsAccess(r *http.Request) bool {
	server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || server.Logs == nil {
		return false
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	matches := func(pattern string) bool { return certmagic.MatchWildcard(host, pattern) }
	for pattern := range server.Logs.LoggerNames {
		if matches(pattern) {
			return true
		}
	}
	return !server.Logs.SkipUnmappedHosts && !slices.ContainsFunc(server.Logs.SkipHosts, matches)
}
