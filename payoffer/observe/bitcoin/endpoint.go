package bitcoin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	callTimeout = 20 * time.Second
	// maxAnswer bounds a response with transactions, in bytes. The payer decides how large a transaction is, so 75 of
	// the largest must fit.
	maxAnswer = 128 << 20
	// maxHeaders bounds a list of blocks and maxText every other response, in bytes.
	maxHeaders = 1 << 20
	maxText    = 64 << 10
	// minPause and maxPause bound the pause after a failure.
	minPause = 30 * time.Second
	maxPause = 10 * time.Minute
)

var errNotFound = errors.New("not found")

// endpoint is one Esplora API, used only by the observer's cycle.
type endpoint struct {
	base   *url.URL
	client source.Client
	now    func() time.Time
	random func() float64
	shared *Indexes
	// fresh disables responses that other observers got.
	fresh bool

	responses responses
	witness   observe.Witness

	checked  bool // it serves the right network
	failures int  // in a row
	due      time.Time
	last     *observe.Error
}

func newEndpoint(address string, c *Config) (*endpoint, error) {
	u, err := offer.ParseURL(address)
	if err != nil {
		return nil, err
	}
	return &endpoint{
		base: u, client: source.Client{Transport: c.Transport, Timeout: callTimeout}, now: c.Now, random: c.Random, shared: c.Indexes, responses: newResponses(),
	}, nil
}

func (e *endpoint) host() string { return hostOf(e.base) }

// hostOf normalizes a host name.
func hostOf(u *url.URL) string {
	name := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if ip, err := netip.ParseAddr(name); err == nil {
		return ip.Unmap().String()
	}
	return name
}

func (e *endpoint) fail(code string) error {
	return &observe.Error{Code: code, Host: e.host()}
}

// get requests a path and decodes a 200 response of at most limit bytes.
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

// about is get for data of blocks, which observers share.
func about[T any](ctx context.Context, e *endpoint, decode func(io.Reader) (T, error), path ...string) (T, error) {
	return latest(e.shared, e.base.JoinPath(path...).String(), e.fresh, func() (T, error) { return get(ctx, e, maxText, decode, path...) })
}

// note records the outcome and when the endpoint can be called again. A lagging one needs no pause.
func (e *endpoint) note(err error) {
	if err == nil {
		e.failures, e.due, e.last = 0, time.Time{}, nil
		return
	}
	e.witness.Update(err, e.now())
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
	if err != nil {
		return e.required(err)
	}
	if !strings.HasPrefix(first, strings.TrimPrefix(caip2, "bip122:")) {
		return e.fail(observe.ErrWrongChain)
	}
	e.checked = true
	return nil
}

// The calls of the Esplora HTTP API (Blockstream/esplora, API.md). Only calls for a single object
// return errNotFound.

func (e *endpoint) height(ctx context.Context) (int64, error) {
	height, err := about(ctx, e, decodeHeight, "blocks", "tip", "height")
	return height, e.required(err)
}

// blockAt returns the hash of the block at a height of the best chain.
func (e *endpoint) blockAt(ctx context.Context, height int64) (hash string, err error) {
	return about(ctx, e, decodeHash, "block-height", strconv.FormatInt(height, 10))
}

// blockTime returns the time of a block, in Unix seconds.
func (e *endpoint) blockTime(ctx context.Context, hash string) (int64, error) {
	b, err := about(ctx, e, decodeJSON[block], "block", hash)
	if err == nil && b.ID != hash {
		err = e.fail(observe.ErrBadAnswer)
	}
	return b.Timestamp, err
}

// headers lists the block at a height of the best chain and some below it, newest first, without a gap.
func (e *endpoint) headers(ctx context.Context, height int64) ([]header, error) {
	list, err := get(ctx, e, maxHeaders, decodeJSON[[]header], "blocks", strconv.FormatInt(height, 10))
	if err != nil {
		return nil, e.required(err)
	}
	for i, h := range list {
		if h.Height != height-int64(i) {
			return nil, e.fail(observe.ErrBadAnswer)
		}
	}
	if len(list) == 0 {
		return nil, e.fail(observe.ErrBadAnswer)
	}
	return list, nil
}

func (e *endpoint) stats(ctx context.Context, address string) (stats, error) {
	s, err := get(ctx, e, maxText, decodeJSON[stats], "address", address)
	return s, e.required(err)
}

// mempool lists the newest unconfirmed transactions of an address, up to 50.
func (e *endpoint) mempool(ctx context.Context, address string) ([]transaction, error) {
	return e.transactions(ctx, "address", address, "txs", "mempool")
}

// chain lists a page of confirmed transactions of an address, newest first. The page begins behind the transaction
// after; an empty after means the first page. The last page is empty.
func (e *endpoint) chain(ctx context.Context, address, after string) ([]transaction, error) {
	path := []string{"address", address, "txs", "chain"}
	if after != "" {
		path = append(path, after)
	}
	return e.transactions(ctx, path...)
}

func (e *endpoint) transactions(ctx context.Context, path ...string) ([]transaction, error) {
	txs, err := get(ctx, e, maxAnswer, decodeTransactions, path...)
	return txs, e.required(err)
}

func (e *endpoint) transaction(ctx context.Context, txid string) (transaction, error) {
	tx, err := get(ctx, e, maxAnswer, decodeJSON[transaction], "tx", txid)
	if err == nil && tx.ID != txid {
		err = e.fail(observe.ErrBadAnswer)
	}
	return tx, err
}

// spender returns the transaction that spends an output. An output that the endpoint does not know counts as unspent.
func (e *endpoint) spender(ctx context.Context, o outpoint) (spending, error) {
	s, err := get(ctx, e, maxText, decodeJSON[spending], "tx", o.Transaction, "outspend", strconv.FormatUint(uint64(o.Index), 10))
	if errors.Is(err, errNotFound) {
		return spending{}, nil
	}
	return s, err
}

// required turns errNotFound into a bad answer, for objects that every Esplora has.
func (e *endpoint) required(err error) error {
	if errors.Is(err, errNotFound) {
		return e.fail(observe.ErrBadAnswer)
	}
	return err
}
