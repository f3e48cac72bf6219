package charge

import (
	"context"
	"crypto/ecdsa"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// refused tests a charge that the facilitator refuses after the application has answered. Nobody knows then whether a later
// try charges, so the answer is 503, and the payer sends the same payment again.
func (s *table) refused(t *testing.T, way string) {
	s.each(t, "app", "refused", way, func(c *cell) {
		c.facilitator.fail(c.payment, refuses)
		a := c.pays()
		require.Equal(c, http.StatusServiceUnavailable, a.Status, a.Body)
		require.NotEmpty(c, a.Header.Get("Retry-After"))
		require.Equal(c, []string{"no-store"}, a.Header.Values("Cache-Control"))
		c.requireNoContent(a)
		require.Equal(c, bit(!c.first), c.app.runs(c.path))
		a = c.pays()
		require.Equal(c, http.StatusServiceUnavailable, a.Status, a.Body)
		c.requireNoContent(a)
		require.Equal(c, bit(!c.first), c.app.runs(c.path), "a payment whose outcome is unknown does not run the application")
		require.Zero(c, c.facilitator.Settled(c.payment.nonce()))

		c.facilitator.fail(c.payment, nil)
		c.recovers()
	})
}

// recovers sends the same payment until its outcome is known. Its payer gets the content, for one charge.
func (c *cell) recovers() {
	c.Helper()
	var a answer
	server.Eventually(c, "the outcome is known", func() bool {
		a = c.pays()
		return a.Status != http.StatusServiceUnavailable
	})
	require.Equal(c, 1, c.facilitator.Settled(c.payment.nonce()))
	if c.way == "x402 version 1" {
		require.Equal(c, http.StatusConflict, a.Status, a.Body)
		c.requireNoContent(a)
		return
	}
	c.requirePaid(a)
	require.Equal(c, bit(!c.first)+1, c.app.runs(c.path))
	c.requirePaid(c.pays())
	require.Equal(c, 1, c.facilitator.Settled(c.payment.nonce()))
}

// others tests what takes more than one answer of the application.
func (s *table) others(t *testing.T) {
	const way = "x402 version 2"
	// The client leaves while the application works.
	s.each(t, "app", "leaves before the status", way, func(c *cell) {
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
	s.each(t, "app", "leaves after the status", way, func(c *cell) {
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
	s.each(t, "app", "panics after the first bytes", way, func(c *cell) {
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
	// The authorization can no longer be settled when the application answers.
	s.each(t, "app", "answers too late", way, func(c *cell) {
		c.app.on(c.path, func(w http.ResponseWriter, r *http.Request) {
			for time.Now().Unix()+6 <= c.payment.ValidBefore {
				time.Sleep(50 * time.Millisecond)
			}
			answers(200)(w, r)
		})
		a := c.pays()
		c.require(1, bit(c.first), "too late")
		if c.first {
			c.requirePaid(a)
			return
		}
		require.Equal(c, http.StatusServiceUnavailable, a.Status, a.Body)
		require.Contains(c, a.Body, "application_slow")
		c.requireNoContent(a)
	}, func(p *payment) { p.ValidBefore = time.Now().Add(12 * time.Second).Unix() })

	// The facilitator's answer is lost before or after it acted.
	s.each(t, "app", "the facilitator loses the question", way, func(c *cell) {
		c.unknown(once(func(http.ResponseWriter, func(http.ResponseWriter)) { panic(http.ErrAbortHandler) }))
	})
	buyers := make(chan *ecdsa.PrivateKey, 12)
	for range cap(buyers) {
		key := chain.NewKey(t)
		a := chain.NewAuthorization(t, chain.Wallet, chain.Address(key), chain.Funds/20)
		_, err := s.chain.Send(chain.USDC, a.Call(t, []byte("whatever the wallet takes")))
		require.NoError(t, err)
		buyers <- key
	}
	s.chain.Mine(t, 1)
	funded := func(p *payment) { p.key = <-buyers }
	var cancels sync.Map // the calls that make an authorization worthless before it is settled, by nonce
	s.facilitator.OnBroadcast(func(asked payoffertest.Settlement) (string, error) {
		if strings.EqualFold(asked.To, s.payee.Hex()) {
			return "0xfac" + strings.ToLower(asked.Nonce)[5:], nil
		}
		if cancel, found := cancels.LoadAndDelete(strings.ToLower(asked.Nonce)); found {
			if _, err := s.chain.Send(chain.USDC, cancel.([]byte)); err != nil {
				return "", err
			}
			s.chain.Mine(t, 1)
		}
		hash, err := s.chain.Broadcast(t, asked)
		return hash.Hex(), err
	})
	s.each(t, "onchain", "on the chain", way, func(c *cell) { c.follow(rows["200"]) }, funded)
	s.each(t, "onchain", "the facilitators answer is lost", way, func(c *cell) {
		c.unknown(once(func(_ http.ResponseWriter, act func(http.ResponseWriter)) {
			act(discarded{})
			panic(http.ErrAbortHandler)
		}))
	}, funded)
	s.work.Wait()
	s.canceled(t, funded, &cancels)
}

// canceled tests authorizations that their payers make worthless before the facilitator settles them. The chain decides.
func (s *table) canceled(t *testing.T, funded func(*payment), cancels *sync.Map) {
	var cells []*cell
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		for _, first := range []bool{false, true} {
			c := s.cell(t, "onchain", "canceled", "x402 version 2", method, first, funded)
			cancels.Store(c.payment.nonce(), c.payment.Cancel(c, c.payment.key))
			a := c.pays()
			require.Equal(c, http.StatusServiceUnavailable, a.Status, a.Body)
			c.requireNoContent(a)
			cells = append(cells, c)
		}
	}
	s.chain.Finalize(t)
	for _, c := range cells {
		var a answer
		server.Eventually(c, "the chain decides", func() bool {
			a = c.pays()
			return a.Status != http.StatusServiceUnavailable
		})
		require.Equal(c, http.StatusPaymentRequired, a.Status, a.Body)
		c.requireNoContent(a)
		require.Equal(c, bit(!c.first), c.app.runs(c.path))
		require.Zero(c, c.facilitator.Settled(c.payment.nonce()))
	}
}

// unknown pays while the outcome of the settlement is lost, and sends the same payment again.
func (c *cell) unknown(lost fault) {
	c.Helper()
	c.facilitator.fail(c.payment, lost)
	a := c.pays()
	require.Equal(c, http.StatusServiceUnavailable, a.Status, a.Body)
	require.NotEmpty(c, a.Header.Get("Retry-After"))
	c.requireNoContent(a)
	c.recovers()
}

// discarded is a response that nobody gets.
type discarded struct{}

func (discarded) Header() http.Header         { return http.Header{} }
func (discarded) Write(p []byte) (int, error) { return len(p), nil }
func (discarded) WriteHeader(int)             {}
