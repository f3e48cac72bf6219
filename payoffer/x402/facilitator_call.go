package x402

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// maxReply bounds a facilitator's reply in bytes.
const maxReply = 256 << 10

// callError says that a facilitator gave no usable reply.
type callError struct {
	// code is for logs and never the facilitator's text.
	code string
	// notSent: no connection was made that could have carried a byte of the request. A reply of any
	// status does not prove that: after a 401 the payment may be settled.
	notSent bool
}

func (c *callError) Error() string { return c.code }

func badReply(status int) *callError {
	return &callError{code: "bad_answer_status_" + strconv.Itoa(status)}
}

// request posts a request and reads a JSON reply of any status, because some facilitators say no with 4xx. A yes needs a
// 2xx. Every error is a *callError; the reply has its listing and its rejection also with an error.
func (f *Facilitator) request(ctx context.Context, call string, in facilitatorRequest) (r reply, err error) {
	data, header, status, err := f.exchange(ctx, call, offer.JSON(in))
	unread := json.Unmarshal(data, &r)
	isCode, answer := f.sanitizeReply(&r), r.IsValid
	if call == callSettle {
		answer = r.Success
		if r.PaymentID != "" {
			r.reason = reasonPending
		}
	}
	if status/100 == 4 {
		r.rejection = f.explain(call, status, r, data)
	}
	if in.X402Version == 2 { // only these payments ask for a listing
		r.listing = f.listing(header)
	}
	switch {
	case err != nil:
	case unread != nil && !errors.As(unread, new(*json.UnmarshalTypeError)): // members of other types stay empty
		err = badReply(status)
	case answer == nil && !(isCode && status/100 == 4), answer != nil && *answer && status/100 != 2:
		err = &callError{code: "bad_answer"}
	}
	if err != nil && r.rejection != "" && strings.HasPrefix(err.Error(), "bad_answer") {
		err = &callError{code: "unexpected_" + call + "_error"} // a code of the specification
	}
	pending := call == callSettle && r.reason == reasonPending
	r.yes = err == nil && answer != nil && *answer && !pending
	if call == callSettle || err != nil && r.rejection != "" { // a no of verify is about the payer
		f.rejection.Store(r.rejection)
	}
	if err != nil {
		f.probeSoon(ctx)
	}
	return r, err
}

// exchange makes one call, a GET without a body. status is 0 without a reply. Every error is a *callError; data may be set
// with it.
func (f *Facilitator) exchange(ctx context.Context, call string, body []byte) (data []byte, header http.Header, status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout(call))
	defer cancel()
	// The transport calls GotConn before it writes to a connection, at each attempt.
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url.JoinPath(call).String(), bytes.NewReader(body))
	if err != nil {
		return nil, nil, 0, &callError{code: "bad_request", notSent: true}
	}
	if body != nil {
		request.Method = http.MethodPost
		request.Header.Set("Content-Type", "application/json")
	}
	if f.signer != nil {
		if err := f.signer.sign(request); err != nil {
			return nil, nil, 0, &callError{code: "key_unusable", notSent: true}
		}
	}
	if f.config.Header != "" {
		request.Header.Set(f.config.Header, f.config.HeaderValue)
	}
	response, err := f.client.Do(request)
	if err != nil {
		failed := &callError{code: "unreachable", notSent: !connected.Load()}
		if errors.Is(err, context.DeadlineExceeded) {
			failed.code = "timeout"
		}
		return nil, nil, 0, failed
	}
	defer response.Body.Close()
	status, header = response.StatusCode, response.Header
	data, err = io.ReadAll(io.LimitReader(response.Body, maxReply+1))
	if unread := err != nil || len(data) > maxReply; unread {
		data, err = nil, badReply(status)
	}
	switch status {
	case http.StatusAccepted, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests:
		// Neither a yes nor a no, whatever the body says.
		err = &callError{code: "status_" + strconv.Itoa(status)}
	}
	return data, header, status, err
}

const (
	// maxCalls bounds the calls in flight of one facilitator.
	maxCalls = 64
	// maxUnfunded bounds those of payers who were not seen to have the money, so that a flood of such
	// payments cannot keep the others waiting.
	maxUnfunded = maxCalls / 4
)

// slots bounds the calls in flight.
type slots struct{ all, unfunded chan struct{} }

var errBusy = &callError{code: "busy", notSent: true}

// waitForSlot waits for a slot until the timeout, or returns errBusy.
func (s *slots) waitForSlot(ctx context.Context, timeout time.Duration, funded bool) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	queues := []chan struct{}{s.unfunded, s.all}
	if funded {
		queues = queues[1:]
	}
	held := 0
	leave = func() {
		for _, queue := range queues[:held] {
			<-queue
		}
	}
	for _, queue := range queues {
		select {
		case queue <- struct{}{}:
			held++
		case <-ctx.Done():
			leave()
			return nil, errBusy
		}
	}
	return leave, nil
}
