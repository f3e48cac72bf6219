package payoffer

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

var (
	// secretHeaders contain a signed payment, the response to it, or a quote, whose ID or token proves who the payer is.
	secretHeaders = []string{
		"Payment-Signature", "X-Payment", "Payment-Response", "X-Payment-Response", "Payment-Authorization", "Payment-Receipt",
		"Payment-Required", "Www-Authenticate",
	}
	// paymentScheme finds a payment in Authorization, and a quote in WWW-Authenticate.
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

func (c *countingBody) Read(p []byte) (n int, err error) {
	n, err = c.ReadCloser.Read(p)
	c.read += n
	return n, err
}

// requestLog writes the lines of requests that Caddy would log with a secret.
type requestLog struct{ access, failures *zap.Logger }

// accessLog names the logger of redacted lines, which is below those of Caddy's access logs.
type accessLog struct{}

func (accessLog) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.log.access.pay_offer"}
}

// serve serves a request. If the request has a secret, or the response is a quote or leads to a receipt, it writes the line of
// the access log in Caddy's place, redacted and without the fields of log_append. Caddy would log the address and headers of a
// request whose handler returns an error, so serve responds to it instead if it has a secret: 'handle_errors' does not apply to
// these requests. Handlers that are ordered before pay_offer, and lines of other modules about a request that they handle, are
// not covered.
func (rl requestLog) serve(w http.ResponseWriter, r *http.Request, secret bool, serve func(http.ResponseWriter) error) error {
	logger := rl.logger(r)
	if !secret && logger == nil {
		return serve(w)
	}
	start, recorder, body := time.Now(), caddyhttp.NewResponseRecorder(w, nil, nil), &countingBody{ReadCloser: r.Body}
	if r.Body != nil {
		r.Body = body
	}
	logged := r.WithContext(r.Context()) // a copy, because handlers may rewrite r
	logged.Method, logged.RequestURI = original(r)
	if secret {
		logged.RequestURI, logged.Header = redactAddress(logged.RequestURI), redactHeader(r.Header).Header
		caddyhttp.SetVar(r.Context(), caddyhttp.LogSkipVar, true)
	}

	var err error
	defer func() { // also if a handler panics
		header, level := recorder.Header(), zapcore.InfoLevel
		private := header["Payment-Required"] != nil || slices.ContainsFunc(header["Www-Authenticate"], paymentScheme.MatchString) ||
			slices.ContainsFunc(header["Location"], isSecret)
		if skipped, _ := caddyhttp.GetVar(r.Context(), caddyhttp.LogSkipVar).(bool); !secret && (!private || skipped) {
			return // a gate behind this handler has written the line of a quote
		}
		caddyhttp.SetVar(r.Context(), caddyhttp.LogSkipVar, true)
		if recorder.Status() >= http.StatusInternalServerError {
			level = zapcore.ErrorLevel
		}
		if err != nil && level == zapcore.ErrorLevel && logger == nil {
			logger = rl.failures // Caddy logs them, too
		}
		if logger == nil {
			return
		}
		userID, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).GetString("http.auth.user.id")
		fields := []zap.Field{
			zap.Object("request", caddyhttp.LoggableHTTPRequest{Request: logged}), zap.Int("bytes_read", body.read), zap.String("user_id", userID),
			zap.Duration("duration", time.Since(start)), zap.Int("size", recorder.Size()), zap.Int("status", recorder.Status()),
			zap.Object("resp_headers", redactHeader(header)),
		}
		if err != nil {
			fields = append(fields, zap.String("error", redactAddress(err.Error())))
		}
		logger.Log(level, "handled request", fields...)
	}()
	if err = serve(recorder); !secret {
		return err
	}
	if err != nil && recorder.Status() < http.StatusOK {
		status := http.StatusInternalServerError
		if failure, ok := errors.AsType[caddyhttp.HandlerError](err); ok {
			status = cmp.Or(failure.StatusCode, status)
		}
		http.Error(recorder, http.StatusText(status), status)
	}
	return nil
}

// logger is the one of redacted lines; nil if the server has no access log, or 'log_skip' left the request out.
func (rl requestLog) logger(r *http.Request) *zap.Logger {
	server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if skipped, _ := caddyhttp.GetVar(r.Context(), caddyhttp.LogSkipVar).(bool); !ok || server.Logs == nil || skipped {
		return nil
	}
	return rl.access
}
