package bitcoin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
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
	client source.Client
	now    func() time.Time
	random func() float64

	checked  bool // that it serves the right network
	failures int  // in a row, of those that call for a pause
	due      time.Time
	last     *observe.Error
}

func newEndpoint(address string, c *Config) (*endpoint, error) {
	u, err := offer.ParseURL(address)
	if err != nil {
		return nil, err
	}
	return &endpoint{
		base: u, client: source.Client{Transport: c.Transport, Timeout: callTimeout}, now: c.Now, random: c.Random,
	}, nil
}

func (e *endpoint) fail(code string) error {
	return &observe.Error{Code: code, Host: e.base.Hostname()}
}

// get asks for a path and decodes the body of a 200, of which no more than limit
// bytes are read.
func get[T any](ctx context.Context, e *endpoint, limit int64, decode func(io.Reader) (T, error), path ...string) (found T, err error) {
	request := source.Request{URL: e.base.JoinPath(path...).String(), Limit: limit}
	_, err = e.client.Stream(ctx, request, func(answer io.Reader) (err error) {
		found, err = decode(answer)
		return err
	})
	var failed *observe.Error
	if errors.As(err, &failed) && failed.Status == http.StatusNotFound {
		err = errNotFound
	}
	return found, err
}

// note decides when the endpoint may be asked again. One that answers but is
// behind needs no pause.
func (e *endpoint) note(err error) {
	if err == nil {
		e.failures, e.due, e.last = 0, time.Time{}, nil
		return
	}
	var known *observe.Error
	if !errors.As(err, &known) || known.Code == observe.ErrLagging {
		return
	}
	e.failures++
	e.due = e.now().Add(max(min(known.Wait, maxPause), source.Backoff(e.failures, minPause, maxPause, e.random())))
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
	if err != nil {
		return e.required(err)
	}
	if !strings.HasPrefix(first, strings.TrimPrefix(caip2, "bip122:")) {
		return e.fail(observe.ErrWrongChain)
	}
	e.checked = true
	return nil
}
