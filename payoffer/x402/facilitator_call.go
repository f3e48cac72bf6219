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
	"sync/atomic"
	"time"
)

// maxReply bounds a facilitator's reply in bytes. The longest one lists what it
// supports.
const maxReply = 256 << 10

// callError says that a facilitator gave no usable reply.
type callError struct {
	// code is a word for logs, never the facilitator's text.
	code string
	// notSent is true where the facilitator certainly did not act, for there was
	// no connection that could have carried a byte of the request. Whatever it
	// answered proves nothing: one that refuses the caller with 401 may have
	// settled before it did.
	notSent bool
}

func (e *callError) Error() string { return e.code }

// badReply is a reply that cannot be read, with its HTTP status.
func badReply(status int) *callError {
	return &callError{code: "bad_answer_status_" + strconv.Itoa(status)}
}

// ask posts a request and reads a JSON reply of any status, for some
// facilitators say no with 4xx; without a status of success no reply is a yes.
// verdict is the member of out that says yes or no; it is set unless there is
// an error, which is a *callError. What is said of the listing stands beside any
// reply to a payment of version 2, which alone asks for it.
func (f *Facilitator) ask(ctx context.Context, timeout time.Duration, call string, in facilitatorRequest, out any, verdict **bool) (said Listing, err error) {
	data, header, status, err := f.exchange(ctx, timeout, http.MethodPost, call, in.body())
	if in.X402Version == 2 {
		said = f.listing(header)
	}
	switch {
	case err != nil:
		return said, err
	case json.Unmarshal(data, out) != nil:
		return said, badReply(status)
	case *verdict == nil || **verdict && (status < 200 || status > 299):
		return said, &callError{code: "bad_answer"}
	}
	return said, nil
}

// exchange makes one call. status is 0 where there was no reply; every error is
// a *callError.
func (f *Facilitator) exchange(ctx context.Context, timeout time.Duration, method, call string, body []byte) (reply []byte, header http.Header, status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// The transport tells of a connection before it writes to it, at each
	// attempt that it makes.
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	request, err := http.NewRequestWithContext(ctx, method, f.url.JoinPath(call).String(), bytes.NewReader(body))
	if err != nil {
		return nil, nil, 0, &callError{code: "bad_request", notSent: true}
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if f.signer != nil {
		if err := f.signer.sign(request); err != nil {
			return nil, nil, 0, &callError{code: "key_unusable", notSent: true}
		}
	}
	if f.header != "" {
		request.Header.Set(f.header, f.headerValue)
	}
	response, err := f.client.Do(request)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, nil, 0, &callError{code: "timeout", notSent: !connected.Load()}
	case err != nil:
		return nil, nil, 0, &callError{code: "unreachable", notSent: !connected.Load()}
	}
	defer response.Body.Close()
	status, header = response.StatusCode, response.Header
	switch status {
	case http.StatusAccepted, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests:
		// The body, whatever it says, is neither a yes nor a no.
		return nil, header, status, &callError{code: "status_" + strconv.Itoa(status)}
	}
	reply, err = io.ReadAll(io.LimitReader(response.Body, maxReply+1))
	if err != nil || len(reply) > maxReply {
		return nil, header, status, badReply(status)
	}
	return reply, header, status, nil
}

const (
	// maxCalls is how many payments one facilitator works on at a time.
	maxCalls = 64
	// maxUnfunded is how many of them may be of payers who were not seen to have
	// the money: anyone can make as many of those as it likes.
	maxUnfunded = maxCalls / 4
)

// slots bound the calls in flight.
type slots struct{ all, unfunded chan struct{} }

func newSlots() *slots {
	return &slots{all: make(chan struct{}, maxCalls), unfunded: make(chan struct{}, maxUnfunded)}
}

var errBusy = &callError{code: "busy", notSent: true}

// enter waits for a slot for at most patience, or returns errBusy. Nobody waits
// behind those who wait for their own share.
func (s *slots) enter(ctx context.Context, patience time.Duration, funded bool) (leave func(), err error) {
	deadline := time.Now().Add(patience)
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
		if !join(ctx, queue, deadline) {
			leave()
			return nil, errBusy
		}
		held++
	}
	return leave, nil
}

// join reports whether there was room before the deadline. Who finds some needs no
// timer.
func join(ctx context.Context, queue chan<- struct{}, deadline time.Time) bool {
	select {
	case queue <- struct{}{}:
		return true
	default:
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	select {
	case queue <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}
