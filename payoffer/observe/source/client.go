package source

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	// maxRest is how much of an answer that nobody reads is read all the same,
	// in bytes, for the connection to be used again.
	maxRest = 16 << 10
	// maxWait is the longest pause that a source may ask for.
	maxWait = time.Hour
)

// Client calls sources over HTTP. It follows no redirects: one would carry a
// key or a payment's data elsewhere, and is an answer without content.
type Client struct {
	// Transport carries the calls; nil means http.DefaultTransport.
	Transport http.RoundTripper
	// Timeout bounds one call, its answer included.
	Timeout time.Duration
}

// Request is one call.
type Request struct {
	// URL is absolute. It may hold a key: errors tell its host alone.
	URL    string
	Header http.Header
	// Body makes it a POST of JSON; nil is a GET.
	Body []byte
	// Limit bounds the answer, in bytes.
	Limit int64
}

// Do returns the body and the header of an answer 200. Every other outcome is
// an *Error; of one that is too large the cause is an *http.MaxBytesError.
func (c Client) Do(ctx context.Context, r Request) (body []byte, header http.Header, err error) {
	header, err = c.Stream(ctx, r, func(answer io.Reader) (err error) {
		body, err = io.ReadAll(answer)
		return err
	})
	return body, header, err
}

// Stream hands the body of an answer 200 to read as it arrives. An error of
// read makes it a bad answer, unless the connection broke. Every outcome but a
// good one is an *Error.
func (c Client) Stream(ctx context.Context, r Request, read func(io.Reader) error) (http.Header, error) {
	request, err := r.build(ctx)
	if err != nil {
		return nil, &Error{Code: Unreachable, cause: withoutURL(err)}
	}
	host := request.URL.Hostname()
	client := http.Client{Transport: c.Transport, Timeout: c.Timeout, CheckRedirect: NoRedirect}
	response, err := client.Do(request)
	if err != nil {
		return nil, &Error{Code: Unreachable, Host: host, cause: withoutURL(err)}
	}
	defer response.Body.Close()
	defer io.CopyN(io.Discard, response.Body, maxRest)
	if status := response.StatusCode; status != http.StatusOK {
		return nil, &Error{Code: statusCode(status), Host: host, Status: status, Wait: retryAfter(response.Header)}
	}
	answer := &wire{Reader: response.Body}
	if err := read(http.MaxBytesReader(nil, io.NopCloser(answer), r.Limit)); err != nil {
		if answer.broken != nil {
			return nil, &Error{Code: Unreachable, Host: host, cause: answer.broken}
		}
		return nil, &Error{Code: BadAnswer, Host: host, cause: err}
	}
	return response.Header, nil
}

func (r Request) build(ctx context.Context) (*http.Request, error) {
	method := http.MethodGet
	if r.Body != nil {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(ctx, method, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	if r.Body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	maps.Copy(request.Header, r.Header)
	return request, nil
}

// NoRedirect is the http.Client's CheckRedirect that takes a redirect for the
// answer.
func NoRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// withoutURL is the reason of a failed call, of which net/http tells the URL.
func withoutURL(err error) error {
	var failed *url.Error
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

// wire is a body that remembers whether its connection broke: a decoder's error
// does not tell.
type wire struct {
	io.Reader
	broken error
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if err != nil && err != io.EOF {
		w.broken = err
	}
	return n, err
}

// retryAfter reads Retry-After (RFC 9110 section 10.2.3): the pause that it
// asks for, 0 for none and at most maxWait. A date is by the clock of whoever
// answered, which Date tells.
func retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	seconds, err := strconv.ParseUint(value, 10, 32)
	switch {
	case err == nil:
		return min(time.Duration(seconds)*time.Second, maxWait)
	case errors.Is(err, strconv.ErrRange):
		return maxWait
	}
	until, err := http.ParseTime(value)
	now, unknown := http.ParseTime(h.Get("Date"))
	if err != nil || unknown != nil {
		return 0
	}
	return min(max(0, until.Sub(now)), maxWait)
}
