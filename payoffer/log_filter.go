package payoffer

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
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

// LogFilter takes out of a log what its readers must not have, whatever host a request
// names. Of addresses, in request>uri and in every header, that is what follows in the
// address of a storefront's webhook, which ends in its secret, of a receipt's page, and
// of the session of a checkout, which are their payer's alone; of request>headers and
// resp_headers also the payments.
type LogFilter struct{}

// CaddyModule returns the Caddy module information.
func (LogFilter) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "caddy.logging.encoders.filter.pay_offer",
		New: func() caddy.Module { return new(LogFilter) },
	}
}

// UnmarshalCaddyfile sets up the filter from Caddyfile tokens. Syntax:
//
//	<field> pay_offer
func (*LogFilter) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the filter's name
	if d.NextArg() {
		return d.ArgErr()
	}
	return nil
}

// secretHeaders contain a signed payment, which is a secret until it is spent, or what
// only its payer is answered.
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
				kept[name] = discreetAddresses(values)
			}
		}
		value.Header = kept
		field.Interface = value
	case caddyhttp.LoggableStringArray:
		field.Interface = caddyhttp.LoggableStringArray(discreetAddresses(value))
	default:
		field.String = discreetAddress(field.String)
	}
	return field
}

func discreetAddresses(addresses []string) (discreet []string) {
	for _, address := range addresses {
		discreet = append(discreet, discreetAddress(address))
	}
	return discreet
}

var (
	// capability is after which part of an address its secret follows. It knows the slips
	// of those who copy such an address by hand.
	capability = regexp.MustCompile(`(?i)hooks?[/-]+[^/?]+[/?]|rec(ei|ie)pts?[/;\\?]|thanks/|session_?(id)?=|cs_(live|test)_`)
	// secretive are the addresses that end in a secret; where they have none, their query
	// may be it.
	secretive = regexp.MustCompile(`(?i)hook|rec(ei|ie)pt`)
)

// discreetAddress is an address without what is secret in it, however it was written:
// an escape that the server reads hides nothing.
func discreetAddress(address string) string {
	path, query, asked := strings.Cut(address, "?")
	discreet := withoutCapability(path)
	switch rest := withoutCapability(query); {
	case !asked:
		return discreet
	case rest == query && discreet == path && secretive.MatchString(unescaped(path)):
		return discreet + "?REDACTED"
	default:
		return discreet + "?" + rest
	}
}

func withoutCapability(part string) string {
	plain := unescaped(part)
	if at := capability.FindStringIndex(plain); at != nil {
		return plain[:at[1]] + "REDACTED"
	}
	return part
}

// unescaped decodes percent-encoding until none is left, what is no escape stays. It takes
// time in proportion to the length.
func unescaped(s string) string {
	plain := make([]byte, 0, len(s))
	for i := range len(s) {
		plain = append(plain, s[i])
		for n := len(plain) - 3; n >= 0 && plain[n] == '%'; n = len(plain) - 3 {
			char, err := strconv.ParseUint(string(plain[n+1:]), 16, 8)
			if err != nil {
				break
			}
			plain = append(plain[:n], byte(char))
		}
	}
	return string(plain)
}

// Interface guards
var (
	_ logging.LogFieldFilter = (*LogFilter)(nil)
	_ caddyfile.Unmarshaler  = (*LogFilter)(nil)
)
