package service

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// aPayment may have been sent before.
var aPayment = x402.Attempt{Payload: []byte(`{"x402Version":1,"scheme":"exact","network":"base-sepolia","payload":{
	"signature":"0x` + strings.Repeat("11", 64) + `1b","authorization":{"from":"0x` + strings.Repeat("22", 20) + `","to":"0x` + strings.Repeat("33", 20) + `",
	"value":"42000000","validAfter":"0","validBefore":"99999999999","nonce":"0x` + strings.Repeat("44", 32) + `"}}}`)}

// Whoever paid before would be told another address of the receipt later.
func TestNobodyPaysBeforeTheAddressOfTheReceiptCanBeTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var counted []x402.Status
		ctx, set := context.WithCancel(t.Context())
		svc := &Service{Settings: &Settings{Offer: new(offer.Offer)}, dependencies: &dependencies{ready: &readiness{ctx, set}}}
		svc.Instruments = &Instruments{Attempt: func(_ string, status x402.Status) { counted = append(counted, status) }}
		p := countedPayments{new(x402.Service), svc}
		began := time.Now()
		outcome := p.Pay(t.Context(), aPayment)
		require.Equal(t, x402.Open, outcome.Status)
		require.Equal(t, startRetry, outcome.RetryAfter)
		require.Equal(t, startWait, time.Since(began), "a start is waited for")

		left, leave := context.WithCancel(t.Context())
		leave()
		began = time.Now()
		require.Equal(t, x402.Open, p.Pay(left, aPayment).Status)
		require.Zero(t, time.Since(began), "nobody waits for who has left")

		err := errors.New("the ledger is away")
		svc.trouble.Store(&err)
		began = time.Now()
		require.Equal(t, x402.Open, p.Pay(t.Context(), aPayment).Status)
		require.Zero(t, time.Since(began), "nobody waits for what is not soon")
		require.Len(t, counted, 3)
	})
}
