package x402

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// DefaultTestFacilitator settles on test networks without an account.
const DefaultTestFacilitator = "https://x402.org/facilitator"

// DefaultTimeout is how long a facilitator may take for one call.
const DefaultTimeout = 30 * time.Second

// maxAnswer bounds a facilitator's answer in bytes. The longest one lists what
// it supports.
const maxAnswer = 256 << 10

// FacilitatorConfig describes a facilitator.
type FacilitatorConfig struct {
	// URL is the address below which /verify, /settle and /supported stand.
	URL string
	// KeyID and KeySecret sign requests to the CDP facilitator; both or none.
	KeyID, KeySecret string
	// Timeout bounds one call. 0 means DefaultTimeout.
	Timeout time.Duration
	// Transport carries the calls. nil means http.DefaultTransport.
	Transport http.RoundTripper
	// Now is the clock of signed requests and of pauses. nil means time.Now.
	Now func() time.Time
}

// Facilitator verifies and settles payments on the chain for us.
type Facilitator struct {
	url     *url.URL
	timeout time.Duration
	client  *http.Client
	signer  *cdpSigner // nil without a key
	now     func() time.Time
	// health is shared by all rails that the facilitator settles.
	health *health
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
	f := &Facilitator{url: u, timeout: c.Timeout, now: c.Now, health: newHealth(), client: &http.Client{
		Transport: c.Transport,
		// A redirect would carry the payment to an address nobody configured.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if f.timeout == 0 {
		f.timeout = DefaultTimeout
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
	body := make([]byte, 0, len(r.PaymentPayload)+len(r.PaymentRequirements)+80)
	body = append(body, `{"x402Version":`...)
	body = strconv.AppendInt(body, int64(r.X402Version), 10)
	body = append(append(body, `,"paymentPayload":`...), r.PaymentPayload...)
	body = append(append(body, `,"paymentRequirements":`...), r.PaymentRequirements...)
	return append(body, '}')
}

// verifyResponse is the answer of /verify.
type verifyResponse struct {
	IsValid       *bool  `json:"isValid"`
	InvalidReason string `json:"invalidReason"`
}

// settleAnswer is the answer of /settle.
type settleAnswer struct {
	Success     *bool  `json:"success"`
	ErrorReason string `json:"errorReason"`
	Transaction string `json:"transaction"`
	Network     string `json:"network"`
	Payer       string `json:"payer"`
}

// callError says that a facilitator gave no usable answer.
type callError struct {
	// code is a word for logs, never the facilitator's text.
	code string
	// notSent is true where the facilitator certainly did not act: no byte of
	// the request was written, or it refused the caller.
	notSent bool
}

func (e *callError) Error() string { return e.code }

// badAnswer is an answer that cannot be read, with its HTTP status.
func badAnswer(status int) *callError {
	return &callError{code: "bad_answer_status_" + strconv.Itoa(status)}
}

func (f *Facilitator) verify(ctx context.Context, r facilitatorRequest) (valid bool, reason string, err error) {
	var answer verifyResponse
	ok, err := f.call(ctx, callVerify, r, &answer)
	if err == nil && (answer.IsValid == nil || *answer.IsValid && !ok) {
		err = &callError{code: "bad_answer"}
	}
	if f.note(ctx, callVerify, err); err != nil {
		return false, "", err
	}
	return *answer.IsValid, safeReason(answer.InvalidReason), nil
}

func (f *Facilitator) settle(ctx context.Context, r facilitatorRequest) (settleAnswer, error) {
	var answer settleAnswer
	ok, err := f.call(ctx, callSettle, r, &answer)
	if err == nil && (answer.Success == nil || *answer.Success && !ok) {
		err = &callError{code: "bad_answer"}
	}
	if f.note(ctx, callSettle, err); err != nil {
		return settleAnswer{}, err
	}
	answer.ErrorReason = safeReason(answer.ErrorReason)
	return answer, nil
}

// note tells the facilitator's health how a call of a payment ended. A caller
// that has left says nothing of the facilitator.
func (f *Facilitator) note(ctx context.Context, call string, err error) {
	switch {
	case err == nil:
		f.health.answeredCall(call)
	case ctx.Err() == nil:
		f.health.failedCall(call, err.Error(), f.now())
	}
}

// call posts a request and reads a JSON answer of any status, for some
// facilitators answer a negative with 4xx. ok says that the status was one of
// success, without which no answer is a yes.
func (f *Facilitator) call(ctx context.Context, call string, in facilitatorRequest, out any) (ok bool, err error) {
	data, status, err := f.exchange(ctx, http.MethodPost, call, in.body())
	if err != nil {
		return false, err
	}
	if json.Unmarshal(data, out) != nil {
		return false, badAnswer(status)
	}
	return status >= 200 && status < 300, nil
}

// exchange makes one call. status is 0 where there was no answer; every error
// is a *callError.
func (f *Facilitator) exchange(ctx context.Context, method, call string, body []byte) (answer []byte, status int, err error) {
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
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, 0, &callError{code: "timeout", notSent: !connected.Load()}
		}
		return nil, 0, &callError{code: "unreachable", notSent: !connected.Load()}
	}
	defer response.Body.Close()
	status = response.StatusCode
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return nil, status, &callError{code: "status_" + strconv.Itoa(status), notSent: true}
	}
	answer, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil || len(answer) > maxAnswer {
		return nil, status, badAnswer(status)
	}
	return answer, status, nil
}

// safeReason passes a facilitator's reason code on to a client only if it is a
// code, for it is foreign text.
func safeReason(s string) string {
	if s == "" {
		return "unspecified"
	}
	if len(s) > 100 || strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && (r < 'A' || r > 'Z') && r != '-' && r != '.'
	}) {
		return "unspecified"
	}
	return s
}
