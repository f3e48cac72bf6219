package service

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// dated answers every call, with the Date of a host whose clock is so far ahead.
type dated struct {
	ahead map[string]time.Duration // by host; others do not answer
	mu    sync.Mutex
	asked []string
}

func (d *dated) RoundTrip(r *http.Request) (*http.Response, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, r.Method+" "+r.URL.String())
	ahead, known := d.ahead[r.URL.Host]
	if !known {
		return nil, context.DeadlineExceeded
	}
	return &http.Response{
		StatusCode: http.StatusNotFound, Body: http.NoBody, Request: r,
		Header: http.Header{"Date": {time.Now().Add(ahead).UTC().Format(http.TimeFormat)}},
	}, nil
}

func (h *house) acquireWith(runtime *Runtime, facilitator, rpc string) *Service {
	h.t.Helper()
	s := h.settings("one")
	for i, u := range RailsOf[USDC](s) {
		u.Facilitators = []x402.FacilitatorConfig{{URL: facilitator, Timeout: time.Second}}
		if i == 0 {
			u.RPC = []string{rpc}
		}
		s.Rails[i] = u
	}
	svc, err := Acquire(runtime, s)
	require.NoError(h.t, err)
	return svc
}

func TestUpstreamsTellThatTheClockIsWrong(t *testing.T) {
	h := newHouse(t)
	upstream := &dated{ahead: map[string]time.Duration{"one.example": time.Hour, "two.example": time.Hour}}
	h.upstream = upstream
	var log lockedBuffer
	first := h.runtime(&log)
	svc := h.acquireWith(first, "https://one.example/pay", "https://two.example/v2/secret-key")
	h.open(first, svc)
	require.Zero(t, svc.Clock.Offset())
	require.False(t, svc.payments.ClockWrong())
	require.Contains(t, h.ask(svc, http.MethodGet, offer.PathReceived, nil, "").Body.String(), `"clockOffsetSeconds":0,`)

	svc.Settings.Rails[2] = Bitcoin{Rail: svc.Offer.Bitcoin(), Esplora: []string{"https://three.example"}} // does not answer
	require.InDelta(t, -time.Hour, first.CompareClock(t.Context(), svc.Settings), float64(3*time.Second))
	require.ElementsMatch(t, []string{"HEAD https://one.example/", "HEAD https://two.example/", "HEAD https://three.example/"}, upstream.asked,
		"a host is asked once, without what may be a key")
	require.True(t, svc.payments.ClockWrong())
	require.Regexp(t, `"clockOffsetSeconds":-(3599|3600),`, h.ask(svc, http.MethodGet, offer.PathReceived, nil, "").Body.String())
	require.Contains(t, log.String(), "the clock of this machine is wrong")

	second := h.runtime(&log)
	require.Same(t, first.Clock, second.Clock, "a reload does not forget")
	h.release(first)
	require.True(t, second.Clock.Wrong())
	h.release(second)
	require.NotSame(t, first.Clock, h.runtime(&log).Clock)
}

// A chain says how late it is where two endpoints are asked for it.
func TestTheChainTellsTheClock(t *testing.T) {
	h := newHouse(t)
	runtime := h.runtime(new(lockedBuffer))
	svc := h.acquire(runtime, "one")
	defer h.release(runtime)
	config := RailsOf[USDC](svc.Settings)[0].reader(&runtime.Common, svc.logger)
	config.HeadTime(time.Now().Add(time.Hour).Unix())
	require.InDelta(t, -time.Hour, svc.Clock.Offset(), float64(3*time.Second))
}
