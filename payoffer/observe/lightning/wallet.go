package lightning

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	callTimeout = 10 * time.Second
	// The largest answers in bytes. The parameters may have a picture.
	maxAnswer, maxParameters = 8 << 10, 256 << 10
	// leastTime and mostTime bound how long a wallet's invoice can be paid.
	leastTime, mostTime = 30 * time.Second, 60 * 24 * time.Hour
)

// wallet is a client of a Lightning address (LUD-16, LUD-06, LUD-21).
type wallet struct {
	rail   *offer.Lightning
	client source.Client
	now    func() time.Time
}

func newWallet(c Config) wallet {
	return wallet{c.Rail, source.Client{Transport: c.Transport, Timeout: callTimeout}, c.Now}
}

// errAmount is the error of a wallet that does not take the price.
var errAmount = &source.Error{Code: observe.ErrBadAnswer, Host: "the wallet takes only other amounts"}

// invoice makes an invoice. It reads the parameters again for each one: a wallet may return the invoice of an earlier
// payer for the same callback. 0 satoshis are the least that the wallet takes.
func (w wallet) invoice(ctx context.Context, satoshis int64) (made request, err error) {
	var terms struct {
		Tag, Callback string
		Least         int64 `json:"minSendable"` // millisatoshis
		Most          int64 `json:"maxSendable"`
	}
	if err := w.get(ctx, w.rail.ParametersURL(), maxParameters, &terms); err != nil {
		return made, err
	}
	callback, err := w.parseURL(terms.Callback)
	if err != nil || terms.Tag != "payRequest" || terms.Least <= 0 || terms.Most < terms.Least {
		return made, w.fail(w.rail.ParametersURL())
	}
	millisatoshis := satoshis * 1000
	if satoshis == 0 {
		millisatoshis = (terms.Least + 999) / 1000 * 1000 // whole satoshis
	}
	if millisatoshis < terms.Least || millisatoshis > terms.Most {
		return made, errAmount
	}
	callback.RawQuery = strings.TrimPrefix(callback.RawQuery+"&amount="+strconv.FormatInt(millisatoshis, 10), "&")
	var answer struct {
		Request string `json:"pr"`
		Verify  string
	}
	if err := w.get(ctx, callback.String(), maxAnswer, &answer); err != nil {
		return made, err
	}
	made, err = parseRequest(answer.Request)
	now := w.now()
	left := made.expireAt.Sub(now)
	if err != nil || made.network != "bc" || made.millisatoshis != millisatoshis || made.at.After(now.Add(time.Hour)) || left < leastTime || left > mostTime {
		return request{}, w.fail(callback.String())
	}
	if verify, err := w.parseURL(answer.Verify); err == nil {
		made.verify, made.foreign = verify.String(), domain(verify.Hostname()) != domain(callback.Hostname())
	}
	return made, nil
}

// domain is the registrable domain of a host.
func domain(host string) string {
	if registered, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return registered
	}
	return host
}

// Answers of a wallet about an invoice. They are no failures of the connection.
var (
	errUnknown       = &source.Error{Code: observe.ErrBadAnswer, Host: "not found"}
	errContradiction = &source.Error{Code: observe.ErrDisagree, Host: "another payment"}
)

// isPaid asks whether an invoice was paid, and whether the wallet named the preimage: its answer is its word.
func (w wallet) isPaid(ctx context.Context, i ledger.Invoice) (paid, preimage bool, err error) {
	var answer struct {
		Settled  bool
		Preimage string
		Request  string `json:"pr"`
	}
	if err := w.get(ctx, i.Verify, maxAnswer, &answer); err != nil {
		return false, false, err
	}
	if answer.Request != "" && !strings.EqualFold(answer.Request, i.Request) {
		return false, false, errContradiction
	}
	if !answer.Settled || answer.Preimage == "" {
		return answer.Settled, false, nil
	}
	secret, err := hex.DecodeString(answer.Preimage)
	if sum := sha256.Sum256(secret); err != nil || hex.EncodeToString(sum[:]) != i.Hash {
		return false, false, errContradiction
	}
	return true, true, nil
}

// get reads JSON. A wallet reports an error with any status.
func (w wallet) get(ctx context.Context, address string, limit int64, into any) error {
	body, _, err := w.client.Do(ctx, source.Request{URL: address, Limit: limit})
	var failed struct{ Status string }
	answered := (*source.Error)(nil)
	switch {
	case errors.As(err, &answered) && answered.Status >= 400 && answered.Code == source.BadAnswer,
		err == nil && json.Unmarshal(body, &failed) == nil && strings.EqualFold(failed.Status, "error"):
		return errUnknown
	case err == nil && json.Unmarshal(body, into) != nil:
		return w.fail(address)
	}
	return err
}

func (w wallet) fail(address string) error {
	return &source.Error{Code: observe.ErrBadAnswer, Host: offer.Hostname(address)}
}

// parseURL reads an address that the wallet names. Only a wallet on this machine may name one on this machine.
func (w wallet) parseURL(address string) (*url.URL, error) {
	u, err := offer.ParseURL(address)
	if err == nil && offer.IsLoopback(u.Hostname()) && !w.rail.IsLocal() {
		err = w.fail(address)
	}
	return u, err
}
