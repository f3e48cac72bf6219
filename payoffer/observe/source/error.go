package source

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Codes of a failed call: a fixed list, never an upstream's text.
const (
	Unreachable  = "unreachable"
	BadAnswer    = "bad_answer"
	Unauthorized = "unauthorized" // the source rejects the key or token
	Limited      = "rate_limited"
)

// Error is a failure of a source. Its text has only a code and a host, because all else can contain a key.
type Error struct {
	Code, Host string
	// Status is the HTTP status of a response other than 200, else 0.
	Status int
	// Wait is how long the source asked not to be called, at most an hour; 0 if it did not ask.
	Wait time.Duration

	cause error
}

func (e *Error) Error() string { return e.Code + " (" + e.Host + ")" }

// Unwrap returns the error of the connection or of the reader, or nil. It has no URL, but do not log it.
func (e *Error) Unwrap() error { return e.cause }

// Timeout reports whether the source did not respond in time.
func (e *Error) Timeout() bool {
	var failed net.Error
	return errors.Is(e.cause, context.DeadlineExceeded) || errors.As(e.cause, &failed) && failed.Timeout()
}

// ExplainCertificate says what to do if the certificate of a server is not trusted. Every other error stays.
func ExplainCertificate(err error) error {
	if invalid := (*tls.CertificateVerificationError)(nil); errors.As(err, &invalid) {
		return fmt.Errorf("the server's certificate is not trusted (%w); if it is yours, let this machine trust its authority, on Linux with SSL_CERT_FILE=<file>", invalid.Err)
	}
	return err
}

// Code returns the code of an error: empty for nil, Unreachable for an error that is not an *Error.
func Code(err error) string {
	var known *Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &known):
		return known.Code
	default:
		return Unreachable
	}
}

// Hint says what an operator can do about a failure that lasts. Every call is retried.
func Hint(err error) string {
	return cmp.Or(map[string]string{
		Unauthorized: "set a valid key or token of this provider", Limited: "use a key or an endpoint with a higher limit",
		Unreachable: "check the address, the firewall and the provider's status", "ledger_unavailable": "check the disk or the database of the ledger",
		"final_history_changed": "nothing is recorded until the endpoints agree with the ledger; replace a wrong endpoint",
	}[Code(err)], "check the address and the provider's status, or configure another endpoint")
}

func statusCode(status int) string {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return Unauthorized
	case status == http.StatusTooManyRequests:
		return Limited
	case status >= http.StatusInternalServerError, status == http.StatusRequestTimeout:
		return Unreachable
	default:
		return BadAnswer
	}
}
