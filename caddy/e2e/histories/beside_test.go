package histories

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

// beside runs functions beside the bubble in which the time of a history passes: what was made outside of a bubble, as a
// chain that outlives many histories, must not touch the channels of one. While a function runs, no time passes.
type beside struct{ idle chan *hand }

// hand runs one function after the other.
type hand struct {
	work chan func()
	done chan struct{}
}

// hands is how many functions run at once.
const hands = 8

func newBeside(t *testing.T) *beside {
	t.Helper()
	b := &beside{idle: make(chan *hand, hands)}
	var work sync.WaitGroup
	all := make([]*hand, hands)
	for i := range all {
		all[i] = &hand{make(chan func()), make(chan struct{})}
		work.Go(all[i].serve)
		b.idle <- all[i]
	}
	t.Cleanup(func() {
		for _, h := range all {
			close(h.work)
		}
		work.Wait()
	})
	return b
}

func (h *hand) serve() {
	for f := range h.work {
		go func() {
			defer func() { h.done <- struct{}{} }() // also when f fails the test
			f()
		}()
	}
}

// do runs f and returns when it has ended.
func (b *beside) do(f func()) {
	h := <-b.idle
	h.work <- f
	<-h.done
	b.idle <- h
}

// wire is the way to a chain's endpoint. It may be cut.
type wire struct {
	*beside
	url string
	cut atomic.Bool
}

var errCut = errors.New("no way to the node")

// RoundTrip sends a call on a connection of outside the bubble.
func (n *wire) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err = errors.Join(err, request.Body.Close()); err != nil {
		return nil, err
	}
	if n.cut.Load() {
		return nil, errCut
	}
	var answer []byte
	var status int
	n.do(func() {
		var response *http.Response
		if response, err = http.Post(n.url, "application/json", bytes.NewReader(body)); err != nil {
			return
		}
		defer response.Body.Close()
		status = response.StatusCode
		answer, err = io.ReadAll(response.Body)
	})
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(answer)),
		Body: io.NopCloser(bytes.NewReader(answer)), Request: request, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}, nil
}

// line is the way of one process of the service to a facilitator: calls take their time, and end with the process.
type line struct {
	http.RoundTripper
	life  context.Context
	delay func()
}

func (l line) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(request.Context())
	context.AfterFunc(l.life, cancel)
	l.delay()
	response, err := l.RoundTripper.RoundTrip(request.WithContext(ctx))
	if err == nil {
		l.delay()
	}
	return response, err
}
