package payoffer

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/logging"
	"go.uber.org/zap/zapcore"

	"github.com/payoffer/caddy-pay-offer/payoffer/mpp"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

func init() {
	caddy.RegisterModule(LogFilter{})
}

// LogFilter removes secrets of payers from a log: of addresses, in request>uri and in
// every header, what follows a webhook's, a receipt's or a checkout session's prefix; of
// request>headers and resp_headers also the payments.
type LogFilter struct{}

// CaddyModule returns the Caddy module information.
func (LogFilter) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "caddy.logging.encoders.filter.pay_offer",
		New: func() caddy.Module { return new(LogFilter) },
	}
}

// UnmarshalCaddyfile reads '<field> pay_offer'.
func (*LogFilter) UnmarshalCaddyfile(d *caddyfile.Dispenser) error { return unmarshalName(d) }

// secretHeaders contain a signed payment, or the answer to it.
var secretHeaders = []string{
	x402.HeaderSignature, x402.HeaderSignatureV1, x402.HeaderResponse, x402.HeaderResponseV1, mpp.HeaderReceipt, "Authorization", "Payment-Authorization",
}

// Filter filters the field: a text, the values of a header, or all headers.
func (*LogFilter) Filter(field zapcore.Field) zapcore.Field {
	switch value := field.Interface.(type) {
	case caddyhttp.LoggableHTTPHeader:
		kept := make(http.Header)
		for name, values := range value.Header {
			if !slices.ContainsFunc(secretHeaders, func(secret string) bool { return strings.EqualFold(secret, name) }) {
				kept[name] = redactAddresses(values)
			}
		}
		value.Header = kept
		field.Interface = value
	case caddyhttp.LoggableStringArray:
		field.Interface = caddyhttp.LoggableStringArray(redactAddresses(value))
	default:
		field.String = redactAddress(field.String)
	}
	return field
}

func redactAddresses(addresses []string) (redacted []string) {
	for _, address := range addresses {
		redacted = append(redacted, redactAddress(address))
	}
	return redacted
}

// secretPrefix is what a secret follows in an address: the last segment of offer.PathHook
// or offer.PathReceipt, because the server accepts doubled slashes, or a checkout session.
var secretPrefix = regexp.MustCompile(`(?i)hook/|receipt/|session_id=|cs_live_|cs_test_`)

// redactAddress removes everything after the first prefix of a secret. The server also
// accepts percent-encoded prefixes.
func redactAddress(address string) string {
	decoded, err := url.PathUnescape(address)
	if err != nil { // a malformed escape, after which a prefix could be hidden
		decoded, _, _ = strings.Cut(address, "%")
	}
	found := secretPrefix.FindStringIndex(decoded)
	switch {
	case found != nil:
		return decoded[:found[1]] + "REDACTED"
	case err != nil:
		return decoded + "REDACTED"
	default:
		return address
	}
}

// Interface guards
var (
	_ logging.LogFieldFilter = (*LogFilter)(nil)
	_ caddyfile.Unmarshaler  = (*LogFilter)(nil)
)
