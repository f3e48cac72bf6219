package bitcoin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	// callTimeout bounds one call to an endpoint.
	callTimeout = 20 * time.Second
	// maxAnswer bounds an answer that holds transactions, in bytes. It is wide
	// because whoever pays decides how large a transaction is: seventy-five of
	// the largest kind must not make the rail blind.
	maxAnswer = 128 << 20
	// maxText bounds every other answer, in bytes.
	maxText = 64 << 10
	// minPause and maxPause bound how long an endpoint that failed is left alone.
	minPause = 30 * time.Second
	maxPause = 10 * time.Minute
)

// errNotFound is an endpoint's word that it knows no such thing.
var errNotFound = errors.New("not found")

// endpoint is one Esplora API. Only the observer's round uses it.
type endpoint struct {
	base   *url.URL
	client *http.Client
	now    func() time.Time
	random func() float64

	checked  bool // that it serves the right network
	failures int  // in a row, of those that call for a pause
	due      time.Time
	asked    time.Duration // the pause that it asked for last
	last     *observe.Error
}

func newEndpoint(address string, c *Config, random func() float64) (*endpoint, error) {
	u, err := offer.ParseURL(address)
	if err != nil {
		return nil, err
	}
	return &endpoint{base: u, now: c.Now, random: random, client: &http.Client{
		Transport: c.Transport, Timeout: callTimeout,
		// A redirect would take the URL's key elsewhere: it is an answer without content.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func (e *endpoint) fail(code string) error {
	return &observe.Error{Code: code, Host: e.base.Hostname()}
}

// get asks for a path and hands the body of a 200 to decode, which reads no
// more than limit bytes of it.
func (e *endpoint) get(ctx context.Context, limit int64, decode func(io.Reader) error, path ...string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.base.JoinPath(path...).String(), nil)
	if err != nil {
		return e.fail(observe.ErrUnreachable)
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return e.fail(observe.ErrUnreachable)
	}
	defer resp.Body.Close()
	switch status := resp.StatusCode; {
	case status == http.StatusNotFound:
		return errNotFound
	case status == http.StatusTooManyRequests:
		e.asked = retryAfter(resp.Header)
		return e.fail(observe.ErrLimited)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return e.fail(observe.ErrUnauthorized)
	case status >= 500 || status == http.StatusRequestTimeout:
		return e.fail(observe.ErrUnreachable)
	case status != http.StatusOK:
		return e.fail(observe.ErrBadAnswer)
	}
	if err := decode(io.LimitReader(resp.Body, limit)); err != nil {
		return e.fail(observe.ErrBadAnswer)
	}
	return nil
}

// retryAfter is the pause that a 429 asks for in seconds (RFC 9110 section
// 10.2.3), or 0.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.ParseUint(h.Get("Retry-After"), 10, 16)
	if err != nil {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxPause)
}

// note decides when the endpoint may be asked again. One that answers but is
// behind needs no pause.
func (e *endpoint) note(err error) {
	if err == nil {
		e.failures, e.due, e.asked, e.last = 0, time.Time{}, 0, nil
		return
	}
	var known *observe.Error
	if !errors.As(err, &known) || known.Code == observe.ErrLagging {
		return
	}
	pause := min(minPause<<min(e.failures, 8), maxPause)
	e.failures++
	e.due = e.now().Add(max(e.asked, pause-time.Duration(e.random()*float64(pause)/2)))
	e.last = known
}

// ready checks once that the endpoint serves the network of the rail, by the
// hash of the first block: another network's answers would be silent
// blindness.
func (e *endpoint) ready(ctx context.Context, caip2 string) error {
	if e.checked {
		return nil
	}
	first, err := e.blockAt(ctx, 0)
	if errors.Is(err, errNotFound) {
		return e.fail(observe.ErrBadAnswer)
	}
	if err != nil {
		return err
	}
	if !strings.HasPrefix(first, strings.TrimPrefix(caip2, "bip122:")) {
		return e.fail(observe.ErrWrongChain)
	}
	e.checked = true
	return nil
}
