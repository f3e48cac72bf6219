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

func (h *house) acquireWith(share *Share, facilitator, rpc string) *Service {
	h.t.Helper()
	s := h.settings("one")
	for i := range s.USDC {
		s.USDC[i].Facilitators = []x402.FacilitatorConfig{{URL: facilitator, Timeout: time.Second}}
	}
	s.USDC[0].RPC = []string{rpc}
	svc, err := Acquire(share, s)
	require.NoError(h.t, err)
	return svc
}

func TestUpstreamsTellThatTheClockIsWrong(t *testing.T) {
	h := newHouse(t)
	upstream := &dated{ahead: map[string]time.Duration{"one.example": time.Hour, "two.example": time.Hour}}
	h.upstream = upstream
	var log lockedBuffer
	first := h.share(&log)
	svc := h.acquireWith(first, "https://one.example/pay", "https://two.example/v2/secret-key")
	h.open(first, svc)
	require.Zero(t, svc.clock.Offset())
	require.False(t, svc.payments.ClockWrong())
	require.Contains(t, h.ask(svc, http.MethodGet, offer.PathReceived, nil, "").Body.String(), `"clockOffsetSeconds":0,`)

	svc.Settings.Bitcoin.Esplora = []string{"https://three.example"} // does not answer
	require.InDelta(t, -time.Hour, first.CompareClock(t.Context(), svc.Settings), float64(3*time.Second))
	require.ElementsMatch(t, []string{"HEAD https://one.example/", "HEAD https://two.example/", "HEAD https://three.example/"}, upstream.asked,
		"a host is asked once, without what may be a key")
	require.True(t, svc.payments.ClockWrong())
	require.Regexp(t, `"clockOffsetSeconds":-(3599|3600),`, h.ask(svc, http.MethodGet, offer.PathReceived+"?limit=19", nil, "").Body.String())
	require.Contains(t, log.String(), "the clock of this machine is wrong")

	second := h.share(&log)
	require.Same(t, first.Clock, second.Clock, "a reload does not forget")
	h.release(first)
	require.True(t, second.Clock.Wrong())
	h.release(second)
	require.NotSame(t, first.Clock, h.share(&log).Clock)
}

// A chain says how late it is where two endpoints are asked for it.
func TestTheChainTellsTheClock(t *testing.T) {
	h := newHouse(t)
	share := h.share(new(lockedBuffer))
	svc := h.acquire(share, "one")
	defer h.release(share)
	config := reader(svc.USDC[0], svc.ledger, svc.clock, share.Instruments, svc.logger)
	config.HeadTime(time.Now().Add(time.Hour).Unix())
	require.InDelta(t, -time.Hour, svc.clock.Offset(), float64(3*time.Second))
}
