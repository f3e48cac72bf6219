package web

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// stalled is a body that says when it is read, and ends when it is told to.
type stalled struct{ read, end chan struct{} }

func (b stalled) Read([]byte) (int, error) {
	b.read <- struct{}{}
	<-b.end
	return 0, io.EOF
}

func TestBodiesThatStallKeepBoundedPlaces(t *testing.T) {
	for rail, target := range hookTargets {
		w, r := newWorld(t), &receiver{verdict: observe.Recorded}
		w.hooks = allHooks(r)
		s := w.server(t)
		post := func(client string, body io.Reader) *http.Response {
			rec, request := httptest.NewRecorder(), httptest.NewRequest("POST", target, body)
			request.RemoteAddr = client
			require.True(t, s.Serve(rec, request))
			return rec.Result()
		}
		read, end, done := make(chan struct{}), make(chan struct{}), make(chan int)
		stall := func(client string) {
			go func() { done <- post(client, stalled{read, end}).StatusCode }()
			select {
			case <-read:
			case status := <-done:
				t.Fatalf("%s is refused with %d", client, status)
			}
		}
		refused := func(client string) {
			res := post(client, unread{t})
			require.Equal(t, 503, res.StatusCode)
			require.Equal(t, "60", res.Header.Get("Retry-After"))
			require.Equal(t, "urn:pay-offer:problem:delivery-unavailable", readJSON(t, res)["type"])
		}
		for range 16 {
			stall("2001:db8::1")
		}
		refused("2001:db8::1")
		refused("2001:db8::2") // one client has the whole network
		for range 16 {
			stall("2001:db8:0:1::1")
		}
		refused("2001:db8:0:2::1") // and often all networks of a /48
		for n := range 224 {
			stall(fmt.Sprintf("192.0.2.%d", n/16))
		}
		refused("198.51.100.1")
		require.Equal(t, slices.Repeat([]string{rail + " limited"}, 4), w.delivered)
		w.delivered = nil
		for range 256 {
			end <- struct{}{}
			require.Equal(t, 200, <-done)
		}
		require.Len(t, w.delivered, 256)
		require.Equal(t, rail+" recorded", w.delivered[0])
		require.Empty(t, s.bodies.open)
		require.Equal(t, 200, post("2001:db8::1", http.NoBody).StatusCode)
	}
}
