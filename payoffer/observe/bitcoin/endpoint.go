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
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

const (
	callTimeout = 20 * time.Second
	// maxAnswer bounds a response with transactions, in bytes. The payer decides how large a transaction is, so 75 of
	// the largest must fit.
	maxAnswer = 128 << 20
	// maxText bounds every other response, in bytes.
	maxText = 1 << 20
	// minPause and maxPause bound the pause after a failure.
	minPause = 30 * time.Second
	maxPause = 10 * time.Minute
)

// endpoint is one Esplora API, used only by the observer's cycle.
type endpoint struct {
	base   *url.URL
	client source.Client
	now    func() time.Time
	random func() float64
	// tip and lists are what the endpoint said last. witness says whether it is live.
	tip     block
	lists   map[string]list // by address
	witness observe.Witness
	search  search
	checked bool // it serves the right network
	// failures counts those in a row, and last is the last one. The endpoint is not called before due.
	failures int
	last     *observe.Error
	due      time.Time
}

func (e *endpoint) host() string { return strings.ToLower(e.base.Hostname()) }

func (e *endpoint) fail(code string) error { return &observe.Error{Code: code, Host: e.host()} }

// get requests a path and decodes a 200 response of at most limit bytes.
func get[T any](ctx context.Context, e *endpoint, limit int64, decode func(io.Reader) (T, error), path ...string) (found T, err error) {
	request := source.Request{URL: e.base.JoinPath(path...).String(), Limit: limit}
	_, err = e.client.Stream(ctx, request, func(answer io.Reader) (err error) {
		found, err = decode(answer)
		return err
	})
	return found, err
}

// isNotFound reports whether an endpoint does not have an object.
func isNotFound(err error) bool {
	var failed *observe.Error
	return errors.As(err, &failed) && failed.Status == http.StatusNotFound
}

// recordOutcome records the outcome and when the endpoint can be called again. A lagging one needs no pause.
func (e *endpoint) recordOutcome(err error) {
	e.witness.Update(err, e.now())
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

// ready checks once, by the hash of the first block, that the endpoint serves the rail's network.
func (e *endpoint) ready(ctx context.Context, caip2 string) error {
	if e.checked {
		return nil
	}
	first, err := e.blockAt(ctx, 0)
	if e.checked = err == nil && strings.HasPrefix(first, strings.TrimPrefix(caip2, "bip122:")); err == nil && !e.checked {
		err = e.fail(observe.ErrWrongChain)
	}
	return err
}

// The calls of the Esplora HTTP API (Blockstream/esplora, API.md).

func (e *endpoint) tipHash(ctx context.Context) (string, error) {
	return get(ctx, e, maxText, decodeHash, "blocks", "tip", "hash")
}

// blockAt returns the hash of the block at a height of the best chain.
func (e *endpoint) blockAt(ctx context.Context, height int64) (hash string, err error) {
	return get(ctx, e, maxText, decodeHash, "block-height", strconv.FormatInt(height, 10))
}

func (e *endpoint) block(ctx context.Context, hash string) (block, error) {
	b, err := get(ctx, e, maxText, decodeJSON[block], "block", hash)
	if err == nil && b.ID != hash {
		err = e.fail(observe.ErrBadAnswer)
	}
	return b, err
}

func (e *endpoint) stats(ctx context.Context, address string) (stats, error) {
	return get(ctx, e, maxText, decodeJSON[stats], "address", address)
}

// transactions lists transactions of an address, newest first: with "mempool" up to 50 unconfirmed ones, with "chain" a
// page of confirmed ones, and with "chain" and a transaction the page behind it. The last page is empty.
func (e *endpoint) transactions(ctx context.Context, address string, of ...string) ([]transaction, error) {
	return get(ctx, e, maxAnswer, decodeTransactions, append([]string{"address", address, "txs"}, of...)...)
}

func (e *endpoint) transaction(ctx context.Context, txid string) (transaction, error) {
	tx, err := get(ctx, e, maxAnswer, decodeJSON[transaction], "tx", txid)
	if err == nil && tx.ID != txid {
		err = e.fail(observe.ErrBadAnswer)
	}
	return tx, err
}
