package settlement

import (
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
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

// payment is a signed payment of the price, as a version 2 client sends it.
type payment struct {
	chain.Authorization
	buyer     *ecdsa.PrivateKey
	signature hexutil.Bytes
	payload   []byte
}

func (p payment) attempt() x402.Attempt {
	return x402.Attempt{Payload: p.payload, Client: "127.0.0.1"}
}

// key is the payment's name in the ledger.
func (p payment) key() ledger.IntentKey {
	return ledger.IntentKey{
		Network: caip2(p.Network), Asset: strings.ToLower(p.Network.USDC.Hex()),
		From: strings.ToLower(p.From.Hex()), Nonce: p.Nonce.Hex(),
	}
}

// call encodes the transaction that makes the payment.
func (p payment) call(t *testing.T) []byte { return p.Call(t, p.signature) }

// front makes the payment on the chain, as anybody can who has seen it.
func (s *shop) front(p payment) common.Hash {
	s.Helper()
	transaction := lab.Must(s.chain.Send(s.chain.USDC, p.Call(s, s.chain.Deploy(s, p.signature))))(s)
	s.chain.Mine(s, 1)
	require.True(s, s.chain.Succeeded(s, transaction))
	return transaction
}

// payment signs a new payment by a buyer.
func (s *shop) payment(buyer *ecdsa.PrivateKey) payment {
	s.Helper()
	return s.sign(chain.NewAuthorization(s, chain.Address(buyer), s.payee, price).Nonce, buyer)
}

// sign signs a payment with a nonce.
func (s *shop) sign(nonce common.Hash, buyer *ecdsa.PrivateKey) payment {
	s.Helper()
	p := payment{buyer: buyer, Authorization: chain.NewAuthorization(s, chain.Address(buyer), s.payee, price)}
	p.Network, p.Nonce = s.chain.Network, nonce
	p.signature = p.Sign(s, buyer)
	p.encode(s.T)
	return p
}

// paymentOf signs a new payment by an account of any kind.
func (s *shop) paymentOf(account chain.Account) payment {
	s.Helper()
	p := payment{Authorization: chain.NewAuthorization(s, account.Address, s.payee, price)}
	p.Network = s.chain.Network
	p.signature = account.Sign(s, p.Authorization)
	p.encode(s.T)
	return p
}

// encode writes the payload.
func (p *payment) encode(t *testing.T) {
	t.Helper()
	type object = map[string]any
	var err error
	p.payload, err = json.Marshal(object{
		"x402Version": 2,
		"accepted": object{
			"scheme": "exact", "network": caip2(p.Network), "asset": p.Network.USDC.Hex(), "amount": strconv.Itoa(price),
			"payTo": p.To.Hex(), "maxTimeoutSeconds": 300, "extra": object{"name": "USDC", "version": "2"},
		},
		"payload": object{"signature": p.signature, "authorization": p.Authorization},
	})
	require.NoError(t, err)
}

// caip2 is the name of a network in x402 version 2.
func caip2(n chain.Network) string { return "eip155:" + strconv.FormatInt(n.ID, 10) }

// newAddress returns an account that nobody has used.
func newAddress(t *testing.T) common.Address {
	t.Helper()
	key := lab.Must(crypto.GenerateKey())(t)
	return chain.Address(key)
}

// A success is worth what the chain says of the transaction that it names.
func TestASuccessThatTheChainDoesNotShowStaysOpenUntilTheChainDecides(t *testing.T) {
	t.Parallel()
	s := openShop(t, longTimeout)
	first := s.payment(s.chain.NewBuyer(t))
	require.Equal(t, x402.Settled, s.pay(first).Status)
	real := s.awaitTransfers(1)[0].Tx
	spent := s.payment(s.chain.NewBuyer(t))
	other := s.payment(s.chain.NewBuyer(t))
	reverted, err := s.chain.Send(s.chain.USDC, first.call(t)) // its nonce is spent
	require.NoError(t, err)
	s.chain.Mine(t, 1)
	unknown, borrowed, failed := s.payment(s.chain.NewBuyer(t)), s.payment(s.chain.NewBuyer(t)), s.payment(s.chain.NewBuyer(t))
	canceled, err := s.chain.Send(s.chain.USDC, other.Cancel(t, other.buyer)) // in a block once all are sent
	require.NoError(t, err)
	elsewhere := spent.Authorization
	elsewhere.To = newAddress(t)
	_, err = s.chain.Send(s.chain.USDC, elsewhere.Call(t, elsewhere.Sign(t, spent.buyer)))
	require.NoError(t, err)

	lies := map[string]struct {
		payment     payment
		transaction common.Hash
		reason      string
	}{
		"no such transaction":            {unknown, common.HexToHash("0xdead"), "authorization_expired"},
		"another payment's transaction":  {borrowed, real, "authorization_expired"},
		"the payer's own former one":     {s.payment(first.buyer), real, "authorization_expired"},
		"a reverted transaction":         {failed, reverted, "authorization_expired"},
		"a canceled authorization":       {other, canceled, "authorization_canceled"},
		"the nonce spent somewhere else": {spent, common.HexToHash("0xdead"), "authorization_used_elsewhere"},
	}
	// All at once: each waits for its transaction for a while.
	var work sync.WaitGroup
	outcomes := sync.Map{}
	for name, lie := range lies {
		before := len(s.facilitator.Calls(payoffertest.CallSettle))
		s.facilitator.Script(payoffertest.CallSettle, reply{Idle: true, Transaction: lie.transaction.Hex()})
		work.Go(func() { outcomes.Store(name, s.pay(lie.payment)) })
		s.facilitator.Await(payoffertest.CallSettle, before+1)
	}
	s.chain.Mine(t, 1)
	work.Wait()
	for name := range lies {
		outcome, _ := outcomes.Load(name)
		require.Equal(t, x402.Open, outcome.(x402.Outcome).Status, "%s: %+v", name, outcome)
	}
	s.requireAgreement(1, len(lies))

	s.facilitator.Script(payoffertest.CallSettle, reply{Reason: "invalid_exact_evm_transaction_failed"})
	s.expire()
	s.resolve(late)
	for _, lie := range lies {
		s.requireOpen(lie.payment)
	}
	s.chain.Finalize(t)
	s.resolve(late)
	for name, lie := range lies {
		t.Run(name, func(*testing.T) { s.requireDead(lie.payment, lie.reason) })
	}
	s.requirePaid(first, real)
	s.requireAgreement(1, 0)
}

// With a chain that cannot be read, a success is a claim, counted in no sum; the chain proves it or takes it back.
func TestAClaimIsProvenOrTakenBackByTheChain(t *testing.T) {
	t.Parallel()
	s := openShop(t, longTimeout)
	readable := s.service
	s.service, _ = s.serve(cents, s.payee, "http://127.0.0.1:9") // nobody listens there
	honest, lie := s.payment(s.chain.NewBuyer(t)), s.payment(s.chain.NewBuyer(t))
	s.facilitator.Script(payoffertest.CallSettle, reply{}, reply{Idle: true, Transaction: common.HexToHash("0xdead").Hex()})
	for _, p := range []payment{honest, lie} {
		outcome := s.pay(p)
		require.Equal(t, x402.Settled, outcome.Status, "%+v", outcome)
		require.Equal(t, "claimed", outcome.Evidence)
		require.Equal(t, ledger.EvidenceFacilitator, s.book.requireIntent(t, p, ledger.IntentSettled).Evidence)
	}
	rows := lab.Must(s.book.Receipts(t.Context(), offerID, 0, 100))(t)
	require.Empty(t, rows, "a claim is no receipt")

	s.service = readable
	s.facilitator.Script(payoffertest.CallSettle, reply{Reason: "invalid_exact_evm_transaction_failed"})
	s.resolve(soon)
	s.requirePaid(honest, s.awaitTransfers(1)[0].Tx)
	s.requireAgreement(1, 0)
	s.expire()
	s.chain.Finalize(t)
	s.resolve(late) // the claim is false,
	s.resolve(late) // and the payment dead
	s.requireDead(lie, "authorization_expired")
	s.requireAgreement(1, 0)
}
