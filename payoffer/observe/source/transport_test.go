package source

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A burst of calls finds the connections of the burst before it.
func TestConnectionsAreKeptForTheNextBurst(t *testing.T) {
	const burst = 32
	var arrived sync.WaitGroup
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived.Done()
		arrived.Wait() // all at once
	}))
	defer server.Close()
	transport := NewTransport()
	defer transport.CloseIdleConnections()
	var dialed atomic.Int64
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed.Add(1)
		return dial(ctx, network, address)
	}
	for range 3 {
		arrived.Add(burst)
		var calls sync.WaitGroup
		for range burst {
			calls.Go(func() {
				response, err := (&http.Client{Transport: transport}).Get(server.URL)
				if assert.NoError(t, err) {
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
				}
			})
		}
		calls.Wait()
	}
	require.EqualValues(t, burst, dialed.Load())
}
