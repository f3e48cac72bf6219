// Package source is the engine under everything that asks others again and
// again: truth sources, price sources, receivers of announcements. It calls
// them, runs the rounds, and tells who listens. It knows nothing of the rest of
// this module, so that all of it may stand on this.
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
	Unauthorized = "unauthorized" // the key or token is refused
	Limited      = "rate_limited" // fewer calls are asked for
)

// Error is a failure of a source. Its text is a code and the source's host: an
// upstream's own words and the rest of its URL may hold a key.
type Error struct {
	Code, Host string
	// Status is that of an answer other than 200; 0 for every other failure.
	Status int
	// Wait is how long the source asked to be left alone, at most an hour; 0
	// when it did not.
	Wait time.Duration

	cause error
}

func (e *Error) Error() string { return e.Code + " (" + e.Host + ")" }

// Unwrap is what the connection or the reader of an answer said, or nil. It
// holds no URL; still it is no text for a log.
func (e *Error) Unwrap() error { return e.cause }

// Timeout reports whether the source did not answer in time.
func (e *Error) Timeout() bool {
	var failed net.Error
	return errors.Is(e.cause, context.DeadlineExceeded) || errors.As(e.cause, &failed) && failed.Timeout()
}

// Code is the code of an error of a source, empty for nil. Whatever else went
// wrong, the source could not be read.
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

// statusCode is the code of an answer other than 200.
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
