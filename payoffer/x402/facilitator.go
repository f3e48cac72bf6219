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
	"strings"
	"sync/atomic"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// DefaultTestFacilitator settles on test networks without an account.
const DefaultTestFacilitator = "https://x402.org/facilitator"

// DefaultTimeout is how long a facilitator may take for one call.
const DefaultTimeout = 30 * time.Second

// maxAnswer bounds a facilitator's answer in bytes.
const maxAnswer = 64 << 10

// FacilitatorConfig describes a facilitator.
type FacilitatorConfig struct {
	// URL is the address below which /verify and /settle stand.
	URL string
	// KeyID and KeySecret sign requests to the CDP facilitator; both or none.
	KeyID, KeySecret string
	// Timeout bounds one call. 0 means DefaultTimeout.
	Timeout time.Duration
	// Transport carries the calls. nil means http.DefaultTransport.
	Transport http.RoundTripper
	// Now is the clock of signed requests. nil means time.Now.
	Now func() time.Time
}

// Facilitator verifies and settles payments on the chain for us.
type Facilitator struct {
	url     *url.URL
	timeout time.Duration
	client  *http.Client
	signer  *cdpSigner // nil without a key
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
	f := &Facilitator{url: u, timeout: c.Timeout, client: &http.Client{
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

// facilitatorRequest is the body of /verify and /settle.
type facilitatorRequest struct {
	X402Version         int             `json:"x402Version"`
	PaymentPayload      json.RawMessage `json:"paymentPayload"`
	PaymentRequirements json.RawMessage `json:"paymentRequirements"`
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

func (f *Facilitator) verify(ctx context.Context, r facilitatorRequest) (valid bool, reason string, err error) {
	var answer verifyResponse
	ok, err := f.call(ctx, "verify", r, &answer)
	if err != nil {
		return false, "", err
	}
	if answer.IsValid == nil || *answer.IsValid && !ok {
		return false, "", &callError{code: "bad_answer"}
	}
	return *answer.IsValid, safeReason(answer.InvalidReason), nil
}

func (f *Facilitator) settle(ctx context.Context, r facilitatorRequest) (settleAnswer, error) {
	var answer settleAnswer
	ok, err := f.call(ctx, "settle", r, &answer)
	if err != nil {
		return settleAnswer{}, err
	}
	if answer.Success == nil || *answer.Success && !ok {
		return settleAnswer{}, &callError{code: "bad_answer"}
	}
	answer.ErrorReason = safeReason(answer.ErrorReason)
	return answer, nil
}

// call posts a request and reads a JSON answer of any status, for some
// facilitators answer a negative with 4xx. ok says that the status was one of
// success, without which no answer is a yes.
func (f *Facilitator) call(ctx context.Context, path string, in facilitatorRequest, out any) (ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	body, err := json.Marshal(in)
	if err != nil {
		return false, &callError{code: "bad_request", notSent: true}
	}
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	target := f.url.JoinPath(path)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), bytes.NewReader(body))
	if err != nil {
		return false, &callError{code: "bad_request", notSent: true}
	}
	request.Header.Set("Content-Type", "application/json")
	if f.signer != nil {
		if err := f.signer.sign(request); err != nil {
			return false, &callError{code: "key_unusable", notSent: true}
		}
	}
	response, err := f.client.Do(request)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return false, &callError{code: "timeout", notSent: !connected.Load()}
		}
		return false, &callError{code: "unreachable", notSent: !connected.Load()}
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return false, &callError{code: fmt.Sprintf("status_%d", response.StatusCode), notSent: true}
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil || len(data) > maxAnswer || json.Unmarshal(data, out) != nil {
		return false, &callError{code: fmt.Sprintf("bad_answer_status_%d", response.StatusCode)}
	}
	return response.StatusCode >= 200 && response.StatusCode < 300, nil
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
