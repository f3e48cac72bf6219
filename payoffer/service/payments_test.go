package service

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// Whoever paid before would be told another address of the receipt later.
func TestNobodyPaysBeforeTheAddressOfTheReceiptCanBeTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var counted []x402.Status
		p := countedPayments{count: func(_ string, status x402.Status) { counted = append(counted, status) }, told: make(chan struct{})}
		began := time.Now()
		outcome := p.Pay(t.Context(), x402.Attempt{})
		require.Equal(t, x402.Unavailable, outcome.Status)
		require.Equal(t, startRetry, outcome.RetryAfter)
		require.Equal(t, startRetry, time.Since(began), "a start is waited for")

		left, leave := context.WithCancel(t.Context())
		leave()
		began = time.Now()
		require.Equal(t, x402.Unavailable, p.Pay(left, x402.Attempt{}).Status)
		require.Zero(t, time.Since(began), "nobody waits for who has left")
		require.Len(t, counted, 2)
	})
}
