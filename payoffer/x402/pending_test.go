package x402

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// pendingReplies are answers to /settle that are neither a yes nor a no.
var pendingReplies = map[string]struct {
	reply  payoffertest.FacilitatorReply
	reason string
}{
	"202 with a yes":                {payoffertest.FacilitatorReply{Status: http.StatusAccepted}, "status_202"},
	"202 with a paymentId":          {payoffertest.FacilitatorReply{Status: http.StatusAccepted, Body: `{"paymentId":"p-1"}`}, "status_202"},
	"a yes with a paymentId":        {payoffertest.FacilitatorReply{Body: `{"success":true,"paymentId":"p-1",` + settledAs}, reasonPending},
	"a yes with settlement_pending": {payoffertest.FacilitatorReply{Body: `{"success":true,"errorReason":"settlement_pending",` + settledAs}, reasonPending},
	"a no with settlement_pending":  {payoffertest.FacilitatorReply{Body: `{"success":false,"errorReason":"settlement_pending",` + settledAs}, reasonPending},
	"401 with a yes":                {payoffertest.FacilitatorReply{Status: http.StatusUnauthorized}, "status_401"},
}

// settledAs is the rest of an answer that names a transaction.
var settledAs = `"transaction":"` + someTransaction + `","network":"eip155:84532"}`

// The payer keeps the payment, signs no other one, and the chain decides.
func TestWhatAFacilitatorSettlesLaterIsOpenUntilTheChainShowsIt(t *testing.T) {
	for name, c := range pendingReplies {
		bubble(t, name, func(t *testing.T) {
			s, f, chain, b := onChain(t)
			f.Script(settleCall, c.reply)

			got := s.pay(b.v2(t))
			require.Equal(t, Open, got.Status, got.Detail)
			require.Equal(t, "settlement_unknown", got.Reason)
			require.Positive(t, got.RetryAfter)
			require.Nil(t, got.Response)
			require.Equal(t, c.reason, s.requireState(b, ledger.IntentSettling).Reason)

			calls := len(f.Calls(settleCall))
			second := s.pay(newBuyer(2).v2(t))
			require.Equal(t, Conflict, second.Status)
			require.Equal(t, "payer_has_open_payment", second.Reason)
			s.requireState(newBuyer(2), "")
			require.Len(t, f.Calls(settleCall), calls, "a second authorization is not sent")
			require.Equal(t, Open, s.pay(b.v2(t)).Status, "the first one is still open")

			chain.Transfer(b.key(), someTransaction, 42_000_000, false)
			s.run(10 * time.Second)
			shown := s.pay(b.v2(t))
			require.Equal(t, Settled, shown.Status, shown.Detail)
			require.Equal(t, "seen", shown.Evidence)
			require.Equal(t, someTransaction, shown.Response.Transaction)
			receipts := s.receipts()
			require.Len(t, receipts, 1, "one charge")
		})
	}
}

func TestWhatAFacilitatorSettlesLaterIsAskedForAgain(t *testing.T) {
	for name, c := range pendingReplies {
		withShop(t, name, func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
			b := newBuyer(1)
			f.Script(settleCall, c.reply)
			require.Equal(t, Open, s.pay(b.v2(t)).Status)
			require.Equal(t, c.reason, s.requireState(b, ledger.IntentSettling).Reason)

			f.Script(settleCall, payoffertest.FacilitatorReply{Idle: true, Transaction: someTransaction})
			s.run(10 * time.Second)
			got := s.pay(b.v2(t))
			require.Equal(t, Settled, got.Status)
			require.Equal(t, "claimed", got.Evidence)
			for _, call := range f.Calls(settleCall) {
				require.Equal(t, string(f.Calls(settleCall)[0].Body), string(call.Body))
			}
		})
	}
}
