package transfers

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/evm"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

func TestMoneyFromBeforeTheFirstStartIsNotCounted(t *testing.T) {
	t.Parallel()
	s := openTill(t, 1)
	s.pay()
	require.True(t, s.observer.Health().Blind)
	require.NoError(t, s.round())
	s.requireObserved()
	require.Empty(t, s.receipts())

	later := s.pay()
	s.restart()
	require.NoError(t, s.round())
	require.Len(t, s.receipts(), 1)
	require.Equal(t, ledger.StatusConfirmed, s.receipt(later).Status)
}

func TestAConfiguredBlockIsTheFirstThatCounts(t *testing.T) {
	t.Parallel()
	s := openTill(t, 1)
	s.pay()
	s.config.FromBlock = s.chain.Head() + 1
	first := s.pay()
	s.restart()
	require.NoError(t, s.round())
	require.Len(t, s.receipts(), 1)
	s.receipt(first)

	// An earlier one takes the blocks between in.
	s.config.FromBlock = 1
	s.restart()
	require.NoError(t, s.round())
	s.requireObserved()
	s.requireRight()
	require.Len(t, s.receipts(), 2)
}

// What was paid after the process was started counts, however late the chain answers for the first time.
func TestMoneyFromTheStartOnCounts(t *testing.T) {
	t.Parallel()
	s := openTill(t, 2)
	s.pay()
	require.NoError(t, s.ledger.Register(t.Context(), ledger.Account{
		Offer: offerID, ID: s.config.USDC.Account(), Rail: "usdc", Since: s.chain.Time(),
	}))
	s.rpc[0].fail(fault{status: 502})
	s.rpc[1].fail(fault{status: 502})
	payment := s.pay()
	s.requireCode("unreachable")
	require.True(t, s.observer.Health().Blind)
	s.rpc[0].honest()
	s.rpc[1].honest()
	later := s.pay()
	require.NoError(t, s.round())
	s.requireObserved()
	require.Len(t, s.receipts(), 2)
	s.receipt(payment)
	s.receipt(later)
}

// What the account sends to itself was paid by nobody.
func TestWhatTheAccountSendsToItselfIsNoPayment(t *testing.T) {
	t.Parallel()
	s := openTill(t, 2)
	network, err := offer.LookupNetwork("base-sepolia")
	require.NoError(t, err)
	self := chain.Address(s.chain.Payer)
	s.config.USDC, err = offer.NewUSDC("usdc", network, self.Hex(), 4200)
	require.NoError(t, err)
	require.NoError(t, s.ledger.Register(t.Context(), ledger.Account{Offer: offerID, ID: s.config.USDC.Account(), Rail: "usdc"}))
	s.restart()
	require.NoError(t, s.observer.Poll(t.Context()))
	hash := s.chain.Pay(t, self, price)
	s.chain.Mine(t, 1)
	s.chain.Finalize(t)
	require.NoError(t, s.observer.Poll(t.Context()))
	row := s.receipt(hash)
	require.Equal(t, ledger.StatusMoved, row.Status)
	require.True(t, row.Own)
	require.True(t, row.Final)
}

// What was paid while the observer was down is found, however small the ranges are that the endpoint answers for.
func TestWhatWasPaidDuringAnOutageIsFound(t *testing.T) {
	t.Parallel()
	s := openTill(t, 2)
	require.NoError(t, s.round())
	for range 4 {
		s.pay()
		s.chain.Mine(t, 149)
	}
	last := s.pay()
	s.rpc[0].atMost(40)
	s.restart()
	require.NoError(t, s.round())
	s.requireRight()
	s.requireObserved()
	require.Len(t, s.receipts(), 5)
	require.False(t, s.receipt(last).Final)
	final := s.chain.Head() / 32 * 32
	require.Equal(t, final, s.cursor())

	// The cursor spares a second reading.
	s.restart()
	var low hexutil.Uint64
	s.rpc[0].on("eth_getLogs", func(c call, pass func(call) json.RawMessage) (json.RawMessage, error) {
		var query struct{ FromBlock hexutil.Uint64 }
		require.NoError(t, json.Unmarshal(c.Params[0], &query))
		low = query.FromBlock
		return pass(c), nil
	})
	require.NoError(t, s.round())
	require.EqualValues(t, final+1, low)
	s.chain.Finalize(t)
	require.NoError(t, s.round())
	require.True(t, s.receipt(last).Final)
	s.requireRight()
}

func TestEachTransferOfABatchIsAReceipt(t *testing.T) {
	t.Parallel()
	s := openTill(t, 2)
	require.NoError(t, s.round())
	hash, err := s.chain.Send(chain.Multicall3, s.chain.Batch(t, s.authorized(price), s.authorized(price)))
	require.NoError(t, err)
	s.chain.Mine(t, 1)
	require.True(t, s.chain.Succeeded(t, hash))
	require.NoError(t, s.round())
	s.requireRight()
	require.Len(t, s.receipts(), 2)
}

// A settlement by x402 and a plain transfer of the same payer are one receipt each, whoever reads the chain first.
func TestAPaymentByProgramAndOneByWalletAreOneReceiptEach(t *testing.T) {
	t.Parallel()
	for name, scanFirst := range map[string]bool{"scanned first": true, "proven first": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openTill(t, 2)
			payer := chain.Address(s.chain.Payer)
			s.config.Own = func(address string) bool { return address == strings.ToLower(payer.Hex()) }
			s.restart()
			require.NoError(t, s.round())
			a := chain.NewAuthorization(t, payer, s.payee, price)
			program, err := s.chain.Send(s.chain.USDC, a.Call(t, a.Sign(t, s.chain.Payer)))
			require.NoError(t, err)
			wallet := s.chain.Pay(t, s.payee, price)
			s.chain.Mine(t, 1)
			if scanFirst {
				require.NoError(t, s.round())
			}
			observation, found, err := s.observer.Prove(t.Context(), s.key(a), program.Hex())
			require.NoError(t, err)
			require.True(t, found)
			observation.Via = "x402"
			_, err = s.ledger.Record(t.Context(), nil, observation)
			require.NoError(t, err)
			require.NoError(t, s.round())
			s.requireRight()
			require.Len(t, s.receipts(), 2)
			require.Equal(t, "x402", s.receipt(program).Via)
			require.Empty(t, s.receipt(wallet).Via)
			require.True(t, s.receipt(wallet).Own)
		})
	}
}

// key is an authorization's name in the ledger.
func (s *till) key(a chain.Authorization) ledger.IntentKey {
	return ledger.IntentKey{
		Network: "eip155:84532", Asset: strings.ToLower(s.chain.USDC.Hex()), From: strings.ToLower(a.From.Hex()), Nonce: a.Nonce.Hex(),
	}
}

func TestDustIsNoReceipt(t *testing.T) {
	t.Parallel()
	s := openTill(t, 1)
	require.NoError(t, s.round())
	s.chain.Pay(t, s.payee, 0)
	s.chain.Pay(t, s.payee, 9_999)
	cent := s.chain.Pay(t, s.payee, 10_000)
	s.chain.Mine(t, 1)
	require.NoError(t, s.round())
	s.requireObserved()
	require.Len(t, s.receipts(), 1)
	require.EqualValues(t, 1, *s.receipt(cent).USDCents)
}

// Many small payments must not delay a large one: all that is not final is looked at in every round.
func TestManyReceiptsThatAreNotFinalAreAllFollowed(t *testing.T) {
	t.Parallel()
	s := openTill(t, 2)
	s.chain.Finalize(t)
	require.NoError(t, s.round())
	for range 13 {
		for range 20 {
			s.chain.Pay(t, s.payee, 10_000)
		}
		s.chain.Mine(t, 1)
	}
	large := s.pay()
	require.NoError(t, s.round())
	s.requireRight()
	require.Len(t, s.receipts(), 261)
	calls := s.rpc[0].count("eth_getTransactionReceipt")

	s.chain.Reorganize(t, 1)
	require.NoError(t, s.round())
	s.requireRight()
	require.Equal(t, ledger.StatusDropped, s.receipt(large).Status)
	require.Equal(t, calls+1, s.rpc[0].count("eth_getTransactionReceipt"), "what stands in the same block is not read again")
}

// An account of the past is followed, and not scanned.
func TestAFormerAccountIsOnlyFollowed(t *testing.T) {
	t.Parallel()
	s := openTill(t, 1)
	require.NoError(t, s.round())
	known := s.pay()
	require.NoError(t, s.round())
	s.config.FollowOnly = true
	s.restart()
	s.pay()
	s.chain.Finalize(t)
	require.NoError(t, s.round())
	require.Len(t, s.receipts(), 1)
	require.True(t, s.receipt(known).Final)
}

// A receipt counts at the level that was configured.
func TestAPaymentCountsAtItsLevelOfFinality(t *testing.T) {
	t.Parallel()
	s := openTill(t, 1)
	s.config.Confirm = evm.Finalized
	s.restart()
	require.NoError(t, s.round())
	payment := s.pay()
	require.NoError(t, s.round())
	require.Equal(t, ledger.StatusSeen, s.receipt(payment).Status)
	require.Empty(t, s.confirmed())
	s.chain.Finalize(t)
	require.NoError(t, s.round())
	require.True(t, s.receipt(payment).Final)
	s.requireRight()
}

// A chain that became shorter shows nothing of what was further on.
func TestAPaymentIsNotConfirmedWhileTheChainIsTooShort(t *testing.T) {
	t.Parallel()
	s := openTill(t, 2)
	require.NoError(t, s.round())
	payment := s.pay()
	require.NoError(t, s.round())
	s.chain.Rewind(t, 1)
	s.requireCode("lagging")
	require.Equal(t, ledger.StatusSeen, s.receipt(payment).Status)
	s.chain.Mine(t, 1)
	s.settle()
	s.requireObserved()
}

// book is a ledger that refuses to write.
type book struct {
	*ledger.Ledger
	refuse bool
}

var errRefused = errors.New("refused by the test")

func (b *book) Record(ctx context.Context, c *ledger.Cursor, s ...ledger.Observation) ([]ledger.Receipt, error) {
	if b.refuse {
		return nil, errRefused
	}
	return b.Ledger.Record(ctx, c, s...)
}

func TestALedgerThatCannotBeWrittenLosesNothing(t *testing.T) {
	t.Parallel()
	s := openTill(t, 1)
	require.NoError(t, s.round())
	s.pay()
	s.chain.Finalize(t)
	b := &book{s.ledger, true}
	s.config.Ledger = b
	s.restart()
	require.Error(t, s.observer.Poll(t.Context()))
	require.Equal(t, "ledger_unavailable", s.observer.Health().LastError)
	require.True(t, s.observer.Health().Blind)
	require.Zero(t, s.cursor())
	b.refuse = false
	require.NoError(t, s.observer.Poll(t.Context()))
	s.requireRight()
	s.requireObserved()
}
