package settlement

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

const aKey = "a key"

// withEachAccount runs a test with an account of every kind.
func withEachAccount(t *testing.T, test func(s *shop, kind string, account chain.Account)) {
	t.Parallel()
	for _, kind := range append([]string{aKey}, chain.WalletKinds...) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := openShop(t)
			if kind == aKey {
				test(s, kind, s.chain.Account(s.chain.Buyers[0]))
				return
			}
			test(s, kind, s.chain.OpenWallet(t, kind))
		})
	}
}

// requireCharges requires so many charges of the payer on the chain.
func (s *shop) requireCharges(count int) []chain.Transfer {
	s.Helper()
	transfers := s.chain.TransfersTo(s, s.payee)
	require.Len(s, transfers, count, "charges")
	return transfers
}

func TestEveryAccountTypePays(t *testing.T) {
	withEachAccount(t, func(s *shop, _ string, account chain.Account) {
		p := s.paymentOf(account)
		transaction := s.paidFirst(p)
		s.requirePaid(p, transaction)
		s.requireCharges(1)

		second := s.paymentOf(account)
		require.Equal(s, x402.Settled, s.pay(second).Status, "another purchase")
		s.requireCharges(2)
	})
}

// The signature of somebody else in the name of an account costs no call of the facilitator, and does not stand in the way.
func TestWrongSignatureReachesNoFacilitator(t *testing.T) {
	withEachAccount(t, func(s *shop, _ string, account chain.Account) {
		forged := s.paymentOf(account)
		owner := s.chain.Owner
		s.chain.Owner = s.chain.Buyers[1]
		forged.signature = account.Sign(s, forged.Authorization)
		s.chain.Owner = owner
		if account.Address == chain.Address(s.chain.Buyers[0]) {
			forged.signature = forged.Sign(s, s.chain.Buyers[1])
		}
		forged.encode(s.T)
		outcome := s.pay(forged)
		require.Equal(s, x402.Refused, outcome.Status, "%+v", outcome)
		require.Equal(s, "invalid_exact_evm_signature", outcome.Reason)
		require.Empty(s, s.facilitator.Calls(payoffertest.CallVerify))
		s.book.requireUnknown(s.T, forged)
		s.paidFirst(s.paymentOf(account))
	})
}

// While the first payment is open another authorization is not sent. Sent again once the first one was charged and answered, it
// gets that charge's 200.
func TestSecondAuthorizationIsNotCharged(t *testing.T) {
	withEachAccount(t, func(s *shop, _ string, account chain.Account) {
		s.facilitator.Script(payoffertest.CallSettle, reply{Fault: payoffertest.FaultCloseRead}, reply{})
		first, second := s.paymentOf(account), s.paymentOf(account)
		s.requireOpen(first)
		s.requireConflict(second, first)
		s.resolve(soon)
		transaction := s.requireCharges(1)[0].Tx
		s.requirePaid(first, transaction)
		for _, after := range []time.Duration{0, late} {
			s.clock.pass(after)
			outcome := s.pay(second)
			s.requireCharges(1)
			require.Equal(s, x402.Settled, outcome.Status, "%+v", outcome)
			require.Equal(s, transaction.Hex(), outcome.Response.Transaction)
			require.Equal(s, first.Nonce.Hex(), outcome.Intent)
		}
	})
}

// requireConflict requires that a payment was not sent because of another.
func (s *shop) requireConflict(p, other payment) {
	s.Helper()
	outcome := s.pay(p)
	require.Equal(s, x402.Conflict, outcome.Status, "%+v", outcome)
	require.Equal(s, "payer_has_open_payment", outcome.Reason)
	require.Equal(s, other.Nonce.Hex(), outcome.Intent)
	require.NotContains(s, outcome.Detail, "Nothing was charged")
}

// Without rpc a wallet's signature is the facilitator's to check. What was answered 409 is never sent all the same.
func TestSecondAuthorizationNotChargedWithoutChain(t *testing.T) {
	withEachAccount(t, func(s *shop, kind string, account chain.Account) {
		rail, _ := s.rail("usdc", cents, s.payee, s.chain.URL)
		rail.Chain = nil
		s.service = newService(s.T, s.clock, s.book, &s.log, cents, s.former, rail)
		s.facilitator.Script(payoffertest.CallSettle, reply{Fault: payoffertest.FaultCloseRead}, reply{})
		first, second := s.paymentOf(account), s.paymentOf(account)
		s.requireOpen(first)
		s.requireConflict(second, first)
		s.resolve(soon)
		transaction := s.requireCharges(1)[0].Tx
		s.requirePaid(first, transaction)
		for _, after := range []time.Duration{0, late} {
			s.clock.pass(after)
			outcome := s.pay(second)
			s.requireCharges(1)
			if kind == aKey {
				require.Equal(s, first.Nonce.Hex(), outcome.Intent, "%+v", outcome)
				continue
			}
			require.Equal(s, x402.Conflict, outcome.Status, "%+v", outcome)
			require.Nil(s, outcome.Response, "an unproven signature gets no other payment's 200")
		}
	})
}

// Somebody broadcasts the authorization before it comes here.
func TestFrontRunAuthorizationIsPaid(t *testing.T) {
	withEachAccount(t, func(s *shop, _ string, account chain.Account) {
		p := s.paymentOf(account)
		transaction := s.front(p)
		s.requireOpen(p)
		require.NoError(s, s.evm.Poll(s.Context()))
		s.resolve(soon)
		s.requirePaid(p, transaction)
		s.requireCharges(1)
		require.Empty(s, s.facilitator.Calls(payoffertest.CallSettle))
	})
}

// The operator restores a ledger from before the payment.
func TestPaymentFoundAfterLedgerRestore(t *testing.T) {
	withEachAccount(t, func(s *shop, _ string, account chain.Account) {
		before := s.service
		s.book = openBook(s.T, s.clock.Now)
		restored, observer := s.serve(cents, s.payee, s.chain.URL)
		require.NoError(s, observer.Poll(s.Context()))
		p := s.paymentOf(account)
		s.service = before
		transaction := s.paidFirst(p)

		s.service = restored
		require.NoError(s, observer.Poll(s.Context()))
		s.requirePaid(p, transaction)
		s.requireCharges(1)
		require.Len(s, s.facilitator.Calls(payoffertest.CallSettle), 1)
	})
}

// The transfer is on its way to a block while the facilitator refuses the payment.
func TestPendingTransferStaysOpenDespiteRefusal(t *testing.T) {
	withEachAccount(t, func(s *shop, _ string, account chain.Account) {
		p := s.paymentOf(account)
		s.facilitator.Script(payoffertest.CallVerify, reply{Reason: "invalid_exact_evm_transaction_simulation_failed"}, reply{})
		signature := s.chain.Deploy(s, p.signature)
		// The block comes once the state was read twice: when the payment came, and when it was refused.
		var readings atomic.Int32
		s.service, s.evm = s.serve(cents, s.payee, s.watched("authorizationState(address,bytes32)", func() {
			if readings.Add(1) == 2 {
				s.chain.Mine(s, 1)
			}
		}))
		require.NoError(s, s.evm.Poll(s.Context()))
		transaction := lab.Must(s.chain.Send(s.chain.USDC, p.Call(s, signature)))(s)
		outcome := s.pay(p)
		require.NotContains(s, outcome.Detail, "Nothing was charged")
		require.Equal(s, x402.Open, outcome.Status, "%+v", outcome)
		s.book.requireIntent(s.T, p, ledger.IntentSettling)
		require.NoError(s, s.evm.Poll(s.Context()))
		s.resolve(soon)
		s.requirePaid(p, transaction)
		s.requireCharges(1)
	})
}

// watched is the chain's endpoint, with something done after each call of a function of the token.
func (s *shop) watched(function string, after func()) string {
	s.Helper()
	to := lab.Must(url.Parse(s.chain.URL))(s)
	selector := hexutil.Encode(crypto.Keccak256([]byte(function))[:4])
	passing := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		passing.ServeHTTP(w, r)
		if strings.Contains(string(body), selector) {
			after()
		}
	}))
	s.Cleanup(proxy.Close)
	return proxy.URL
}
