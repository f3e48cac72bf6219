package service

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/desk"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

var soundingToken = strings.Repeat("5a", 16)

func TestWhatArrivesOfASoundingIsToldToTheOperatorAlone(t *testing.T) {
	h := newHouse(t)
	share := h.share(new(lockedBuffer))
	svc := h.acquire(share, "")
	h.open(share, svc)
	ask := func(token string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/humans.txt", nil)
		r.RemoteAddr = "[::ffff:10.0.0.2]:4000"
		r.Header.Set(HeaderSounding, token)
		r.Header.Set("X-Forwarded-For", "198.51.100.1")
		w := httptest.NewRecorder()
		require.True(t, svc.Serve(w, r))
		return w
	}
	without := httptest.NewRecorder()
	require.True(t, svc.Serve(without, httptest.NewRequest(http.MethodGet, "/humans.txt", nil)))

	before := ask(soundingToken)
	require.Empty(t, svc.Desk.Inspect(t.Context(), desk.Sounding{Token: soundingToken}).Arrivals, "it was not begun")
	after := ask(soundingToken)
	ask("another")
	told := svc.Desk.Inspect(t.Context(), desk.Sounding{Token: soundingToken})

	require.Equal(t, []desk.Arrival{{Method: http.MethodGet, Peer: "10.0.0.2", Counted: "192.0.2.1", Forwarded: true}}, told.Arrivals)
	require.Equal(t, "pay.example", told.ID)
	require.Equal(t, svc.Key.String(), told.Settings)
	require.Len(t, told.Keys, 1)
	require.True(t, strings.HasPrefix(told.Keys[0], svc.Offer.DID()+"#"))
	require.True(t, told.Ledger.Writable)
	require.False(t, told.Ledger.Shared)
	require.Positive(t, told.Ledger.Free)
	require.Equal(t, []desk.HookState{{Rail: "card"}, {Rail: "pack"}}, told.Hooks)
	require.Len(t, told.Rails, len(svc.Health()))
	for _, w := range []*httptest.ResponseRecorder{before, after} {
		require.Equal(t, without.Header(), w.Header())
		require.Equal(t, without.Body.String(), w.Body.String())
	}
	h.release(share)
}

func TestTheLastDeliveryToAWebhookIsRemembered(t *testing.T) {
	h := newHouse(t)
	share := h.share(new(lockedBuffer))
	svc := h.acquire(share, "")
	h.open(share, svc)
	w := httptest.NewRecorder()
	require.True(t, svc.Serve(w, httptest.NewRequest(http.MethodPost, "/v1/hook/card", strings.NewReader("{}"))))
	require.Equal(t, http.StatusForbidden, w.Code)
	hooks := svc.Desk.Inspect(t.Context(), desk.Sounding{}).Hooks
	require.Equal(t, string(observe.Unverified), hooks[0].Verdict)
	at, err := time.Parse(time.RFC3339, hooks[0].At)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), at, time.Minute)
	h.release(share)
}

func TestSoundingsEndAndAreFew(t *testing.T) {
	var s soundings
	now := time.Unix(1_000, 0)
	require.Empty(t, s.look(soundingToken, now))
	for range 2 * maxArrivals {
		s.note(soundingToken, desk.Arrival{}, now)
	}
	require.Len(t, s.look(soundingToken, now), maxArrivals)
	for n := range 2 * maxSoundings {
		s.look(fmt.Sprintf("%032x", n), now.Add(time.Duration(n+1)*time.Millisecond))
	}
	require.Len(t, s.open, maxSoundings)
	require.NotContains(t, s.open, soundingToken, "the oldest is forgotten")

	last := fmt.Sprintf("%032x", 2*maxSoundings-1)
	s.note(last, desk.Arrival{}, now.Add(2*soundingLife))
	require.Empty(t, s.open[last].arrivals, "it is over")
	s.look(soundingToken, now.Add(2*soundingLife))
	require.Len(t, s.open, 1)
}

func TestAnArrivalSaysWhoAskedAndForWhom(t *testing.T) {
	for name, c := range map[string]struct {
		peer, header, value string
		encrypted           bool
		want                desk.Arrival
	}{
		"nobody else":         {"198.51.100.1:4000", "", "", true, desk.Arrival{Peer: "198.51.100.1", Encrypted: true}},
		"a proxy":             {"10.0.0.2:4000", "X-Forwarded-For", "198.51.100.1", false, desk.Arrival{Peer: "10.0.0.2", Forwarded: true}},
		"a network":           {"10.0.0.2:4000", "Cf-Connecting-Ip", "198.51.100.1", false, desk.Arrival{Peer: "10.0.0.2", Forwarded: true}},
		"a proxy, for itself": {"127.0.0.1:4000", "X-Forwarded-For", "127.0.0.1", false, desk.Arrival{Peer: "127.0.0.1", Forwarded: true, Itself: true}},
		"a socket":            {"@", "", "", false, desk.Arrival{Peer: "@"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = c.peer
			if c.header != "" {
				r.Header.Set(c.header, c.value)
			}
			if c.encrypted {
				r.TLS = new(tls.ConnectionState)
			}
			c.want.Method, c.want.Counted = http.MethodGet, "192.0.2.1"
			require.Equal(t, c.want, arrival(r, "192.0.2.1"))
		})
	}
}
