package gate

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
)

// cutOff tests responses that do not come to their ends.
func (ta *table) cutOff(t *testing.T) {
	const way = "x402 version 2"
	// The client leaves while the application works.
	ta.each(t, "app", "leaves before the status", way, func(c *cell) {
		ctx, leave := context.WithCancel(c.Context())
		defer leave()
		ended := make(chan struct{})
		c.app.on(c.path, func(w http.ResponseWriter, r *http.Request) {
			leave()
			<-r.Context().Done()
			answers(200)(w, r)
			close(ended)
		})
		a := c.send(ctx, clients["HTTP/1.1"], c.method, c.url, c.v2(c.payment))
		require.ErrorIs(c, a.err, context.Canceled)
		<-ended
		c.require(1, bit(c.first), "the client left")
		c.app.on(c.path, nil)
		c.requirePaid(c.pays())
		c.require(2, 1, "the same payment again")
	})
	ta.each(t, "app", "leaves after the status", way, func(c *cell) {
		ended := make(chan struct{})
		c.app.on(c.path, func(w http.ResponseWriter, r *http.Request) {
			answers(200)(w, r)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			close(ended)
		})
		request := lab.Must(http.NewRequestWithContext(c.Context(), c.method, c.url, strings.NewReader("")))(c)
		request.Header = c.v2(c.payment)
		response := lab.Must(clients["HTTP/1.1"].Do(request))(c)
		require.Equal(c, http.StatusOK, response.StatusCode)
		require.NoError(c, response.Body.Close())
		<-ended
		c.require(1, 1, "the client left")
		c.app.on(c.path, nil)
		c.requirePaid(c.pays())
		c.require(2, 1, "the same payment again")
	})
	ta.each(t, "app", "panics after the first bytes", way, func(c *cell) {
		c.app.on(c.path, func(w http.ResponseWriter, r *http.Request) {
			answers(200)(w, r)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
		a := c.pays()
		require.Error(c, a.err, "the payer sees that the response is cut off")
		require.Equal(c, http.StatusOK, a.Status)
		c.require(1, 1, "cut off")
		c.app.on(c.path, nil)
		c.requirePaid(c.pays())
		c.require(2, 1, "the same payment again")
	})
}
