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
	// callTimeout bounds one call to an endpoint.
	callTimeout = 20 * time.Second
	// maxAnswer bounds an answer that holds transactions, in bytes. It is wide
	// because whoever pays decides how large a transaction is: seventy-five of
	// the largest kind must not make the rail blind.
	maxAnswer = 128 << 20
	// maxHeaders bounds a list of blocks, in bytes: some Esplora APIs tell more of
	// each than others.
	maxHeaders = 1 << 20
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
	shared *Indexes
	// anew says that answers to others will not do.
	anew bool

	words   words
	witness observe.Witness

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
		base: u, client: source.Client{Transport: c.Transport, Timeout: callTimeout}, now: c.Now, random: c.Random, shared: c.Indexes, words: newWords(),
	}, nil
}

// host is one of Hosts.
func (e *endpoint) host() string { return hostOf(e.base) }

// hostOf is the one name of a host, however an address writes it.
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

// about is get of what is said of blocks, which was maybe said to others a moment
// ago.
func about[T any](ctx context.Context, e *endpoint, decode func(io.Reader) (T, error), path ...string) (T, error) {
	return latest(e.shared, e.base.JoinPath(path...).String(), e.anew, func() (T, error) { return get(ctx, e, maxText, decode, path...) })
}

// note decides when the endpoint may be asked again. One that answers but is
// behind needs no pause.
func (e *endpoint) note(err error) {
	if err == nil {
		e.failures, e.due, e.last = 0, time.Time{}, nil
		return
	}
	e.witness.Note(err, e.now())
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

// The calls of the Esplora HTTP API (Blockstream/esplora, API.md) that are
// used. errNotFound is returned only by those that look up one thing.

// height is the number of the newest block.
func (e *endpoint) height(ctx context.Context) (int64, error) {
	height, err := about(ctx, e, decodeHeight, "blocks", "tip", "height")
	return height, e.required(err)
}

// blockAt is the hash of the block at a height of the best chain.
func (e *endpoint) blockAt(ctx context.Context, height int64) (hash string, err error) {
	return about(ctx, e, decodeHash, "block-height", strconv.FormatInt(height, 10))
}

// blockTime is the time of a block, in Unix seconds.
func (e *endpoint) blockTime(ctx context.Context, hash string) (int64, error) {
	b, err := about(ctx, e, decodeJSON[block], "block", hash)
	if err == nil && b.ID != hash {
		err = e.fail(observe.ErrBadAnswer)
	}
	return b.Timestamp, err
}

// headers lists the block at a height of the best chain and some below it, newest
// first and without a gap.
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

// stats counts the transactions of an address.
func (e *endpoint) stats(ctx context.Context, address string) (stats, error) {
	s, err := get(ctx, e, maxText, decodeJSON[stats], "address", address)
	return s, e.required(err)
}

// mempool lists the newest unconfirmed transactions of an address, up to 50.
func (e *endpoint) mempool(ctx context.Context, address string) ([]transaction, error) {
	return e.transactions(ctx, "address", address, "txs", "mempool")
}

// chain lists confirmed transactions of an address, newest first: a page of
// those that follow the transaction after, or the first page when it is empty.
// The last page is empty.
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

// transaction looks one transaction up.
func (e *endpoint) transaction(ctx context.Context, txid string) (transaction, error) {
	tx, err := get(ctx, e, maxAnswer, decodeJSON[transaction], "tx", txid)
	if err == nil && tx.ID != txid {
		err = e.fail(observe.ErrBadAnswer)
	}
	return tx, err
}

// spender says what spends an output. An output that the endpoint does not
// know is not spent as far as it can tell.
func (e *endpoint) spender(ctx context.Context, o outpoint) (spending, error) {
	s, err := get(ctx, e, maxText, decodeJSON[spending], "tx", o.Transaction, "outspend", strconv.FormatUint(uint64(o.Index), 10))
	if errors.Is(err, errNotFound) {
		return spending{}, nil
	}
	return s, err
}

// required turns the absence of what every Esplora has into a bad answer.
func (e *endpoint) required(err error) error {
	if errors.Is(err, errNotFound) {
		return e.fail(observe.ErrBadAnswer)
	}
	return err
}
