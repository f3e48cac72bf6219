package settlement

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// The process is asked to leave while the facilitator is at work: it waits for the outcome and writes it, whether or not
// the buyer is still there, and the next process knows it, at another price and address.
func TestAProcessThatStopsWaitsForItsSettlement(t *testing.T) {
	for name, leaves := range map[string]bool{"the buyer waits": false, "the buyer has left": true} {
		t.Run(name, func(t *testing.T) {
			s := openSite(t)
			p := s.payment(s.chain.Buyers[0])
			s.facilitator.Script(payoffertest.CallSettle, reply{Fault: payoffertest.FaultHang})
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			answers := make(chan answer, 1)
			go func() { answers <- s.pay(ctx, p) }()
			s.awaitSettle(answers)
			if leaves {
				leave()
				require.ErrorIs(t, (<-answers).err, context.Canceled)
			}
			s.process.Terminate()
			s.eventually("the port is closed", func() bool {
				conn, err := net.Dial("tcp", "127.0.0.1:"+s.port)
				if err == nil {
					_ = conn.Close()
				}
				return err != nil
			})
			require.Empty(t, s.chain.TransfersTo(t, s.payee))
			s.facilitator.Release()
			s.process.Await(t)
			transaction := s.awaitTransfers(1)[0].Tx
			if !leaves {
				s.requirePaid(<-answers, transaction)
			}
			s.audit(func(b *book) {
				b.requireReceipts(t, s.chain, s.chain.TransfersTo(t, s.payee))
				b.requireOpenIntents(t, 0)
				b.requireIntent(t, p, ledger.IntentSettled)
			})

			s.run("99", newAddress(t))
			s.requirePaid(s.pay(t.Context(), p), transaction)
			require.Len(t, s.facilitator.Calls(payoffertest.CallSettle), 1)
		})
	}
}

// The configuration is replaced while the facilitator is at work.
func TestAReloadLosesNoSettlement(t *testing.T) {
	s := openSite(t)
	p := s.payment(s.chain.Buyers[0])
	s.facilitator.Script(payoffertest.CallSettle, reply{Fault: payoffertest.FaultHang})
	answers, loaded := make(chan answer, 1), make(chan answer, 1)
	go func() { answers <- s.pay(context.Background(), p) }()
	s.awaitSettle(answers)
	go func() { loaded <- s.load(s.config("99", newAddress(t))) }()
	s.eventually("the new price", func() bool { return strings.Contains(s.get("/v1/quote").body, `"99000000"`) })
	require.Empty(t, s.chain.TransfersTo(t, s.payee))

	s.facilitator.Release()
	transaction := s.awaitTransfers(1)[0].Tx
	s.requirePaid(<-answers, transaction)
	result := <-loaded
	require.NoError(t, result.err)
	require.Equal(t, http.StatusOK, result.status, result.body)
	s.requirePaid(s.pay(t.Context(), p), transaction)
	require.Len(t, s.facilitator.Calls(payoffertest.CallSettle), 1)
	s.process.Terminate()
	s.process.Await(t)
	s.audit(func(b *book) {
		b.requireReceipts(t, s.chain, s.chain.TransfersTo(t, s.payee))
		b.requireOpenIntents(t, 0)
	})
}

// An unknown outcome is a 503 that says to send the same payment again, and that becomes the 200 in the background.
func TestAnUnknownOutcomeIs503UntilItIsKnown(t *testing.T) {
	s := openSite(t)
	p := s.payment(s.chain.Buyers[0])
	s.facilitator.Script(payoffertest.CallSettle, reply{Status: http.StatusInternalServerError, Body: "boom", Idle: true}, reply{})
	first := s.pay(t.Context(), p)
	require.NoError(t, first.err)
	require.Equal(t, http.StatusServiceUnavailable, first.status, first.body)
	require.Equal(t, "10", first.header.Get("Retry-After"))
	require.Equal(t, "no-store", first.header.Get("Cache-Control"))
	require.Empty(t, first.header.Get("PAYMENT-REQUIRED"), "a quote would make a client sign again")
	require.Empty(t, first.header.Get("PAYMENT-RESPONSE"))
	var problem struct{ Reason, Intent string }
	require.NoError(t, json.Unmarshal([]byte(first.body), &problem))
	require.Equal(t, "settlement_unknown", problem.Reason)
	require.Equal(t, p.Nonce.Hex(), problem.Intent)

	var last answer
	s.eventually("the payment is settled in the background", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		last = s.pay(ctx, p)
		return last.status == http.StatusOK
	})
	s.requirePaid(last, s.awaitTransfers(1)[0].Tx)
	require.Len(t, s.facilitator.Calls(payoffertest.CallSettle), 2)
	s.process.Terminate()
	s.process.Await(t)
	s.audit(func(b *book) { b.requireReceipts(t, s.chain, s.chain.TransfersTo(t, s.payee)) })
}
