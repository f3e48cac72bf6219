package x402

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// DefaultTestFacilitator settles on test networks without an account.
const DefaultTestFacilitator = "https://x402.org/facilitator"

// defaultTimeout is how long a facilitator may take for one call.
const defaultTimeout = 30 * time.Second

// maxReply bounds a facilitator's reply in bytes. The longest one lists what it
// supports.
const maxReply = 256 << 10

// FacilitatorConfig describes a facilitator.
type FacilitatorConfig struct {
	// URL is the address below which /verify, /settle and /supported stand.
	URL string
	// KeyID and KeySecret sign requests to the CDP facilitator; both or none.
	KeyID, KeySecret string
	// Timeout bounds one call. 0 means 30 seconds.
	Timeout time.Duration
	// Transport carries the calls. nil means http.DefaultTransport.
	Transport http.RoundTripper
	// Now is the clock of signed requests and of pauses. nil means time.Now.
	Now func() time.Time
	// Logger hears of changes while Run watches. nil means nobody.
	Logger *slog.Logger
}

// Facilitator verifies and settles payments on the chain for us. It may be
// shared by rails, offers and configurations: what fails for one is not asked
// for another.
type Facilitator struct {
	url     *url.URL
	timeout time.Duration
	client  *http.Client
	signer  *cdpSigner // nil without a key
	health  *health
	log     *slog.Logger

	// networks are those (CAIP-2) on which the facilitator is to settle: true
	// once the log was told that it does not.
	networks sync.Map
	// rests is what the log was told last: whether it is left alone. It is
	// Run's own.
	rests bool
}

// NewFacilitator checks a facilitator's configuration and calls nobody. Errors
// name the host alone, for a URL may carry a key.
func NewFacilitator(c FacilitatorConfig) (*Facilitator, error) {
	u, err := offer.ParseURL(strings.TrimSuffix(c.URL, "/"))
	if err != nil {
		return nil, errors.New("the facilitator's address is not usable; write an absolute https URL, as in " + DefaultTestFacilitator + " (plain http only to loopback)")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	f := &Facilitator{
		url: u, timeout: cmp.Or(c.Timeout, defaultTimeout), health: newHealth(c.Now),
		log: cmp.Or(c.Logger, slog.New(slog.DiscardHandler)),
		// A redirect would carry the payment to an address nobody configured.
		client: &http.Client{Transport: c.Transport, CheckRedirect: source.NoRedirect},
	}
	if c.KeyID != "" || c.KeySecret != "" {
		if f.signer, err = newCDPSigner(c.KeyID, c.KeySecret, c.Now); err != nil {
			return nil, fmt.Errorf("facilitator %s: %w", u.Host, err)
		}
	}
	return f, nil
}

// Host is what may be shown of the facilitator's address.
func (f *Facilitator) Host() string { return f.url.Host }

// facilitatorRequest is the body of /verify and /settle. Payload and
// requirements are JSON.
type facilitatorRequest struct {
	X402Version         int
	PaymentPayload      json.RawMessage
	PaymentRequirements json.RawMessage
}

// body passes the payload on byte by byte: what was checked here is what the
// facilitator reads.
func (r facilitatorRequest) body() []byte {
	return fmt.Appendf(nil, `{"x402Version":%d,"paymentPayload":%s,"paymentRequirements":%s}`, r.X402Version, r.PaymentPayload, r.PaymentRequirements)
}

type verifyReply struct {
	IsValid       *bool  `json:"isValid"`
	InvalidReason string `json:"invalidReason"`
}

type settleReply struct {
	Success     *bool  `json:"success"`
	ErrorReason string `json:"errorReason"`
	Transaction string `json:"transaction"`
	Payer       string `json:"payer"`
	Network     string `json:"network"`
}

// callError says that a facilitator gave no usable reply.
type callError struct {
	// code is a word for logs, never the facilitator's text.
	code string
	// notSent is true where the facilitator certainly did not act: no byte of
	// the request was written, or it refused the caller.
	notSent bool
}

func (e *callError) Error() string { return e.code }

// badReply is a reply that cannot be read, with its HTTP status.
func badReply(status int) *callError {
	return &callError{code: "bad_answer_status_" + strconv.Itoa(status)}
}

// verify asks whether a payment would settle.
func (f *Facilitator) verify(ctx context.Context, r facilitatorRequest) (valid bool, reason string, err error) {
	var reply verifyReply
	if err := f.call(ctx, callVerify, r, &reply, &reply.IsValid); err != nil {
		return false, "", err
	}
	return *reply.IsValid, safeReason(reply.InvalidReason), nil
}

// reasonPending is a facilitator's word for "sent, but not mined yet".
const reasonPending = "settlement_pending"

// settle has a payment settled. The identical request is repeated once when the
// reply is that the transaction waits to be mined.
func (f *Facilitator) settle(ctx context.Context, r facilitatorRequest) (settleReply, error) {
	failpoint.Hit(failpoint.SettleBefore)
	reply, err := f.settleOnce(ctx, r)
	failpoint.Hit(failpoint.SettleAfter)
	if err != nil || *reply.Success || reply.ErrorReason != reasonPending {
		return reply, err
	}
	second, err := f.settleOnce(ctx, r)
	if err != nil || !wordForm.MatchString(second.Transaction) {
		// The first reply still names the transaction to look for.
		return reply, nil
	}
	return second, nil
}

func (f *Facilitator) settleOnce(ctx context.Context, r facilitatorRequest) (settleReply, error) {
	var reply settleReply
	if err := f.call(ctx, callSettle, r, &reply, &reply.Success); err != nil {
		return settleReply{}, err
	}
	reply.ErrorReason = safeReason(reply.ErrorReason)
	return reply, nil
}

// call posts a request and reads a JSON reply of any status, for some
// facilitators say no with 4xx; without a status of success no reply is a yes.
// verdict is the member of out that says yes or no; it is set unless there is
// an error.
func (f *Facilitator) call(ctx context.Context, call string, in facilitatorRequest, out any, verdict **bool) error {
	data, status, err := f.exchange(ctx, http.MethodPost, call, in.body())
	switch {
	case err != nil:
	case json.Unmarshal(data, out) != nil:
		err = badReply(status)
	case *verdict == nil || **verdict && (status < 200 || status > 299):
		err = &callError{code: "bad_answer"}
	}
	f.health.ended(ctx, call, err)
	return err
}

// exchange makes one call. status is 0 where there was no reply; every error is
// a *callError.
func (f *Facilitator) exchange(ctx context.Context, method, call string, body []byte) (reply []byte, status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	request, err := http.NewRequestWithContext(ctx, method, f.url.JoinPath(call).String(), bytes.NewReader(body))
	if err != nil {
		return nil, 0, &callError{code: "bad_request", notSent: true}
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if f.signer != nil {
		if err := f.signer.sign(request); err != nil {
			return nil, 0, &callError{code: "key_unusable", notSent: true}
		}
	}
	response, err := f.client.Do(request)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, 0, &callError{code: "timeout", notSent: !connected.Load()}
	case err != nil:
		return nil, 0, &callError{code: "unreachable", notSent: !connected.Load()}
	}
	defer response.Body.Close()
	status = response.StatusCode
	if status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusNotFound {
		return nil, status, &callError{code: "status_" + strconv.Itoa(status), notSent: true}
	}
	reply, err = io.ReadAll(io.LimitReader(response.Body, maxReply+1))
	if err != nil || len(reply) > maxReply {
		return nil, status, badReply(status)
	}
	return reply, status, nil
}

// reasonForm is what a reason code looks like.
var reasonForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)

// safeReason passes a facilitator's reason code on to a client only if it is a
// code, for it is foreign text.
func safeReason(s string) string {
	if !reasonForm.MatchString(s) {
		return "unspecified"
	}
	return s
}
