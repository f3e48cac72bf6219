// Package settlement proves that no payment is charged twice and none is lost: the settlement service, its ledger and
// its observer of the chain work in this process against a simulated chain, with a facilitator that fails as scripted.
package settlement

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"math/big"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/evm"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// price is 42 USDC in atomic units, and cents the same in US cents.
const (
	price = 42_000_000
	cents = 4200
)

// offerID is the offer's name in the ledger.
const offerID = "sponsor"

// patience is how long something may take that happens in the background.
const patience = 30 * time.Second

// clock is the service's time: that of the day, and what a test lets pass.
type clock struct{ passed atomic.Int64 }

func (c *clock) Now() time.Time { return time.Now().Add(time.Duration(c.passed.Load())) }

func (c *clock) pass(d time.Duration) { c.passed.Add(int64(d)) }

// shop is an offer at work on one chain.
type shop struct {
	*testing.T
	chain       *chain.Chain
	payee       common.Address
	facilitator *payoffertest.Facilitator
	clock       *clock
	book        *book
	evm         *evm.Observer
	service     *x402.Service

	log bytes.Buffer
	// rails are all that the shop ever had, by account.
	rails map[string]x402.Rail
}

// openShop starts everything.
func openShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{T: t, payee: chain.NewAddress(t), clock: new(clock), rails: make(map[string]x402.Rail)}
	s.start(chain.BaseSepolia)
	s.book = openBook(t, s.clock.Now)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("The service's log:\n%s", &s.log)
		}
	})
	s.service, s.evm = s.serve(cents, s.payee, s.chain.URL)
	require.NoError(t, s.evm.Poll(t.Context()))
	return s
}

// start starts a chain and its facilitator.
func (s *shop) start(network chain.Network) {
	s.Helper()
	s.chain = chain.StartNetwork(s, network)
	s.chain.Pause()
	s.facilitator = payoffertest.NewFacilitator(s)
	s.facilitator.OnBroadcast(s.broadcast)
}

// serve makes another service of the same offer on the same ledger, with a price in cents and an address of its own.
func (s *shop) serve(price offer.USD, payee common.Address, rpc string) (*x402.Service, *evm.Observer) {
	s.Helper()
	rail, evm := s.rail("usdc", price, payee, rpc)
	s.rails[rail.USDC.Account()] = rail
	return newService(s.T, s.clock, s.book, &s.log, price, s.former, rail), evm
}

// former finds a rail that the shop had, as the plugin does for accounts that were removed from its configuration.
func (s *shop) former(account string) (x402.Rail, bool) {
	rail, found := s.rails[account]
	return rail, found
}

// rail makes a USDC rail on the shop's chain, which is read through rpc.
func (s *shop) rail(name string, price offer.USD, payee common.Address, rpc string) (x402.Rail, *evm.Observer) {
	s.Helper()
	network := lab.Must(offer.LookupNetwork(caip2(s.chain.Network)))(s)
	usdc := lab.Must(offer.NewUSDC(name, network, payee.Hex(), price))(s)
	facilitator, err := x402.NewFacilitator(x402.FacilitatorConfig{URL: s.facilitator.URL(), Timeout: 10 * time.Second, Now: s.clock.Now})
	require.NoError(s, err)
	evm, err := evm.New(evm.Config{
		OfferID: offerID, USDC: usdc, Confirm: evm.Latest,
		ChainConfig: evm.ChainConfig{Endpoints: []string{rpc}, Ledger: s.book, Now: s.clock.Now},
	})
	require.NoError(s, err)
	return x402.Rail{USDC: usdc, Facilitators: []*x402.Facilitator{facilitator}, Chain: evm}, evm
}

// newService registers the rails' accounts and puts a service to them, which ends before the ledger closes.
func newService(t *testing.T, clock *clock, book *book, log *bytes.Buffer, price offer.USD, former func(string) (x402.Rail, bool), rails ...x402.Rail) *x402.Service {
	t.Helper()
	card, err := offer.NewCard("https://checkout.example/pay", nil, price)
	require.NoError(t, err)
	var published []offer.Rail
	for _, rail := range rails {
		published = append(published, rail.USDC)
		require.NoError(t, book.Register(t.Context(), ledger.Account{
			Offer: offerID, ID: rail.USDC.Account(), Rail: rail.USDC.Name(), Testnet: rail.USDC.Network.Test,
		}))
	}
	o, err := offer.New(offer.Terms{
		ID: offerID, BaseURL: "https://pay.example", SiteURL: "https://pay.example", Name: "Sponsor", Amount: price,
	}, card, published...)
	require.NoError(t, err)
	service, err := x402.New(x402.Config{
		Offer: o, Rails: rails, Ledger: book, Limiter: x402.NewLimiter(x402.Limit{Attempts: 1000, Period: time.Minute}), Owner: rand.Text(), RemovedRail: former,
		Hold: func() (func(), bool) { return func() {}, true },
		Own:  func(string) bool { return false }, Signer: keyless{}, Now: clock.Now, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, service.Wait(ctx), "a settlement does not end")
	})
	return service
}

// keyless is a signer before it has a key.
type keyless struct{}

func (keyless) Sign(any) string { return "" }

// broadcast is what the facilitator does: as the reference one, it deploys a contract wallet, tries a call before it pays
// for it, and answers when the transaction is in a block.
func (s *shop) broadcast(settlement payoffertest.Settlement) (string, error) {
	signature, err := hexutil.Decode(settlement.Signature)
	if err != nil {
		return "", err
	}
	settlement.Signature = hexutil.Encode(s.chain.Deploy(s.T, signature))
	hash, err := s.chain.Broadcast(s.T, settlement)
	if err != nil {
		return "", err
	}
	s.chain.Mine(s.T, 1)
	if !s.chain.Succeeded(s.T, hash) {
		return "", errors.New("the transaction was reverted")
	}
	return hash.Hex(), nil
}

// pay sends a payment to the service.
func (s *shop) pay(p payment) x402.Outcome {
	s.Helper()
	attempt := p.attempt()
	attempt.Response = new(x402.Response)
	defer attempt.Response.End(true)
	return s.service.Pay(s.Context(), attempt)
}

// paidFirst sends a payment that must settle, and returns its transaction.
func (s *shop) paidFirst(p payment) common.Hash {
	s.Helper()
	outcome := s.pay(p)
	require.Equal(s, x402.Settled, outcome.Status, "%+v", outcome)
	transaction := s.awaitTransfers(1)[0].Tx
	require.Equal(s, transaction.Hex(), outcome.Response.Transaction)
	return transaction
}

// requirePaid asks for the final answer of a payment that a transaction made.
func (s *shop) requirePaid(p payment, transaction common.Hash) {
	s.Helper()
	outcome := s.pay(p)
	require.Equal(s, x402.Settled, outcome.Status, "%+v", outcome)
	require.True(s, outcome.Response.Success)
	require.Equal(s, transaction.Hex(), outcome.Response.Transaction)
	require.Equal(s, caip2(s.chain.Network), outcome.Response.Network)
	require.Equal(s, strings.ToLower(p.From.Hex()), outcome.Response.Payer)
}

// requireOpen asks for an answer that leaves the outcome open.
func (s *shop) requireOpen(p payment) {
	s.Helper()
	outcome := s.pay(p)
	require.Equal(s, x402.Open, outcome.Status, "%+v", outcome)
	require.Equal(s, strings.ToLower(p.Nonce.Hex()), outcome.Intent)
	require.Nil(s, outcome.Response)
}

// requireDead asks for the answer to a payment that did not happen and cannot happen any more.
func (s *shop) requireDead(p payment, reason string) {
	s.Helper()
	outcome := s.pay(p)
	require.Equal(s, x402.Refused, outcome.Status, "%+v", outcome)
	require.Equal(s, reason, outcome.Reason)
	require.False(s, outcome.Response.Success)
	require.Empty(s, outcome.Response.Transaction)
}

// Times after which an open payment is looked at again: while it is young, and later on.
const (
	soon = 20 * time.Second
	late = 3 * time.Minute
)

// resolve lets time pass and looks at the open payments.
func (s *shop) resolve(after time.Duration) {
	s.Helper()
	s.clock.pass(after)
	s.service.Resolve(s.Context())
}

// expire lets the validity of every payment end, in a block that is not final.
func (s *shop) expire() {
	s.Helper()
	s.clock.pass(15 * time.Minute)
	s.chain.Elapse(s, 15*time.Minute)
}

// awaitTransfers returns the transfers to the payee when there are so many.
func (s *shop) awaitTransfers(count int) []chain.Transfer {
	s.Helper()
	var transfers []chain.Transfer
	for deadline := time.Now().Add(patience); ; {
		transfers = s.chain.TransfersTo(s, s.payee)
		if len(transfers) >= count {
			require.Len(s, transfers, count)
			return transfers
		}
		require.False(s, time.Now().After(deadline), "%d of %d transfers", len(transfers), count)
		time.Sleep(10 * time.Millisecond)
	}
}

// requireAgreement compares the chain with the ledger: so many payments happened, each once; so many are open.
func (s *shop) requireAgreement(paid, open int) {
	s.Helper()
	transfers := s.chain.TransfersTo(s, s.payee)
	require.Len(s, transfers, paid)
	require.Zero(s, s.chain.BalanceOf(s, s.payee).Cmp(big.NewInt(int64(paid)*price)), "the balance on the chain")
	s.book.requireReceipts(s.T, s.chain, transfers)
	s.book.requireOpenIntents(s.T, open)
}
