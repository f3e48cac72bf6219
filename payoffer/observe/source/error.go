package source

import (
	"context"
	"errors"
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

// Error is a failure of a source. Its text has only a code and a host, because an upstream's text and the rest of its
// URL can contain a key.
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
