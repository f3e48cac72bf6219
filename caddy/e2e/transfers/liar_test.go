package transfers

import (
	"encoding/json"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// nobody is the hash of no transaction and no block.
var nobody = common.HexToHash("0xdead")

// requirePartial requires that the rail says that it does not know all.
func (s *till) requirePartial(code string) {
	s.Helper()
	health := s.observer.Health()
	require.False(s, health.Blind)
	require.True(s, health.Partial)
	require.Equal(s, code, health.LastError)
}

// A payment that one endpoint shows and another denies is seen, and the cursor waits for it.
func TestAPaymentThatOneEndpointHidesIsSeenUntilBothShowIt(t *testing.T) {
	t.Parallel()
	s := openTill(t, 2)
	require.NoError(t, s.round())
	before := s.chain.Head()
	payment := s.send()
	s.rpc[1].hide(payment)
	s.chain.Mine(t, 1)
	s.chain.Finalize(t)
	s.requireCode("sources_disagree")
	s.requirePartial("sources_disagree")
	require.Equal(t, ledger.StatusSeen, s.receipt(payment).Status)
	require.LessOrEqual(t, s.cursor(), before)

	s.rpc[1].honest()
	s.settle()
	s.requireObserved()
	require.True(t, s.receipt(payment).Final)
	require.Greater(t, s.cursor(), before)
}

// The other way round: what was confirmed and is denied by one is not confirmed any more, and not dropped either.
func TestAConfirmedPaymentThatOneEndpointDeniesIsSeen(t *testing.T) {
	t.Parallel()
	s := openTill(t, 2)
	require.NoError(t, s.round())
	payment := s.pay()
	require.NoError(t, s.round())
	s.requireRight()
	s.rpc[0].hide(payment)
	s.restart()
	s.requireCode("sources_disagree")
	require.Equal(t, ledger.StatusSeen, s.receipt(payment).Status)
	s.rpc[0].honest()
	s.settle()
}

// forge makes an endpoint show a transaction that is not on the chain: a copy of a real one.
func forge(p *proxy, real, forged common.Hash) {
	rename := func(text json.RawMessage) json.RawMessage {
		return json.RawMessage(strings.ReplaceAll(string(text), real.Hex(), forged.Hex()))
	}
	p.on("eth_getTransactionReceipt", func(c call, pass func(call) json.RawMessage) (json.RawMessage, error) {
		if common.HexToHash(c.first()) == forged {
			return rename(pass(c.with(real))), nil
		}
		return pass(c), nil
	})
	p.logs(func(logs []map[string]any) []map[string]any {
		for _, l := range logs {
			if common.HexToHash(l["transactionHash"].(string)) == real {
				var copied map[string]any
				_ = json.Unmarshal(rename(encode(l)), &copied)
				return append(logs, copied)
			}
		}
		return logs
	})
}

func TestAPaymentThatOneEndpointMakesUpDoesNotCount(t *testing.T) {
	t.Parallel()
	s := openTill(t, 2)
	require.NoError(t, s.round())
	a := chain.NewAuthorization(t, chain.Address(s.chain.Buyers[0]), s.payee, price)
	real, err := s.chain.Send(s.chain.USDC, a.Call(t, a.Sign(t, s.chain.Buyers[0])))
	require.NoError(t, err)
	s.chain.Mine(t, 1)
	forge(s.rpc[0], real, nobody)
	for range 3 {
		s.requireCode("sources_disagree")
		s.requireRight()
		require.Equal(t, ledger.StatusSeen, s.receipt(nobody).Status)
	}
	_, found, err := s.observer.Prove(t.Context(), s.key(a), nobody.Hex())
	require.NoError(t, err)
	require.False(t, found, "one endpoint proves nothing")
	observation, found, err := s.observer.Prove(t.Context(), s.key(a), real.Hex())
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, ledger.StatusConfirmed, observation.State)

	s.rpc[0].honest()
	s.restart()
	s.settle()
	require.Equal(t, ledger.StatusDropped, s.receipt(nobody).Status)
}

func TestAnAmountThatOneEndpointRaisesDoesNotCount(t *testing.T) {
	t.Parallel()
	s := openTill(t, 2)
	require.NoError(t, s.round())
	s.rpc[0].on("eth_getTransactionReceipt", func(c call, pass func(call) json.RawMessage) (json.RawMessage, error) {
		real := common.BigToHash(big.NewInt(price)).Hex()[2:]
		return json.RawMessage(strings.ReplaceAll(string(pass(c)), real, "7"+real[1:])), nil
	})
	s.pay()
	s.requireCode("sources_disagree")
	require.Empty(t, s.confirmed())
	s.rpc[0].honest()
	s.restart()
	s.settle()
}

// An endpoint may cut a long answer off without a word.
func TestAnEndpointThatTruncatesHidesNothing(t *testing.T) {
	t.Parallel()
	s := openTill(t, 1)
	require.NoError(t, s.round())
	for range 8 {
		for range 20 {
			s.chain.Pay(t, s.payee, 10_000)
		}
		s.chain.Mine(t, 1)
	}
	s.rpc[0].logs(func(logs []map[string]any) []map[string]any { return logs[:min(len(logs), 100)] })
	require.NoError(t, s.round())
	s.requireRight()
	require.Len(t, s.receipts(), 160)
}

// With one of two endpoints gone, what is known is followed, and what is new waits for it.
func TestOneEndpointOfTwoConfirmsNothingNew(t *testing.T) {
	t.Parallel()
	s := openTill(t, 2)
	require.NoError(t, s.round())
	known := s.pay()
	require.NoError(t, s.round())
	s.rpc[1].fail(fault{status: http.StatusBadGateway})
	a := chain.NewAuthorization(t, chain.Address(s.chain.Buyers[0]), s.payee, price)
	fresh, err := s.chain.Send(s.chain.USDC, a.Call(t, a.Sign(t, s.chain.Buyers[0])))
	require.NoError(t, err)
	s.chain.Mine(t, 1)
	s.chain.Finalize(t)
	for range 5 {
		s.requireCode("unreachable")
		s.requirePartial("unreachable")
		require.Equal(t, ledger.StatusConfirmed, s.receipt(known).Status)
		require.Equal(t, ledger.StatusSeen, s.receipt(fresh).Status)
		require.Zero(t, s.cursor())
	}
	_, found, err := s.observer.Prove(t.Context(), s.key(a), fresh.Hex())
	require.Error(t, err)
	require.False(t, found)
	reason, err := s.observer.Dead(t.Context(), s.key(a), a.ValidBefore)
	require.Error(t, err)
	require.Empty(t, reason)

	s.rpc[1].honest()
	s.clock.passed.Add(int64(time.Minute))
	s.settle()
	s.requireObserved()
	require.True(t, s.receipt(fresh).Final)
}

func TestAnEndpointThatStandsStillIsLeftOut(t *testing.T) {
	t.Parallel()
	s := openTill(t, 2)
	require.NoError(t, s.round())
	s.rpc[1].lagAt(s.chain.Head())
	payment := s.pay()
	require.NoError(t, s.round())
	require.Empty(t, s.receipts(), "the lower head holds")
	s.clock.passed.Add(int64(time.Minute))
	s.pay()
	s.requireCode("lagging")
	s.requirePartial("lagging")
	require.Equal(t, ledger.StatusSeen, s.receipt(payment).Status)
	s.rpc[1].honest()
	s.settle()
	s.requireObserved()
}

func TestOneEndpointThatLagsConfirmsNothing(t *testing.T) {
	t.Parallel()
	s := openTill(t, 1)
	before := s.chain.Head()
	require.NoError(t, s.round())
	payment := s.pay()
	require.NoError(t, s.round())
	s.rpc[0].lagAt(before)
	s.restart()
	s.requireCode("lagging")
	require.Equal(t, ledger.StatusSeen, s.receipt(payment).Status)
	s.rpc[0].honest()
	s.settle()
}

// An endpoint that calls everything final makes nothing final alone.
func TestOneEndpointAloneMakesNothingFinal(t *testing.T) {
	t.Parallel()
	s := openTill(t, 2)
	require.NoError(t, s.round())
	payment := s.pay()
	s.rpc[0].finalAt(s.chain.Head())
	require.NoError(t, s.round())
	require.False(t, s.receipt(payment).Final)
	s.chain.Reorganize(t, 1)
	s.settle()
	require.Equal(t, ledger.StatusDropped, s.receipt(payment).Status)
}

// When a block that was final changes, the rail stops until it is back.
func TestAChangeOfFinalHistoryStopsTheRail(t *testing.T) {
	t.Parallel()
	s := openTill(t, 1)
	require.NoError(t, s.round())
	old := s.pay()
	s.chain.Finalize(t)
	require.NoError(t, s.round())
	anchor := s.cursor()
	require.NotZero(t, anchor)
	rows := s.receipts()
	s.rpc[0].on("eth_getBlockByNumber", func(c call, pass func(call) json.RawMessage) (json.RawMessage, error) {
		if c.first() == hexutil.EncodeUint64(anchor) {
			var b map[string]any
			_ = json.Unmarshal(pass(c), &b)
			b["hash"] = nobody.Hex()
			return encode(b), nil
		}
		return pass(c), nil
	})
	a := chain.NewAuthorization(t, chain.Address(s.chain.Buyers[0]), s.payee, price)
	fresh, err := s.chain.Send(s.chain.USDC, a.Call(t, a.Sign(t, s.chain.Buyers[0])))
	require.NoError(t, err)
	s.chain.Mine(t, 1)
	for range 2 {
		s.requireCode("final_history_changed")
		require.True(t, s.observer.Health().Blind)
		require.Equal(t, rows, s.receipts())
		require.Equal(t, anchor, s.cursor())
	}
	_, _, err = s.observer.Prove(t.Context(), s.key(a), fresh.Hex())
	require.ErrorContains(t, err, "final_history_changed")

	s.rpc[0].honest()
	s.settle()
	s.requireObserved()
	require.True(t, s.receipt(old).Final)
}

// The chain and the token are checked at the start, and again after the connection failed: somebody else may answer.
func TestAnotherChainOrTokenIsNotRead(t *testing.T) {
	t.Parallel()
	for name, lie := range map[string]func(p *proxy){
		"another chain": func(p *proxy) { p.on("eth_chainId", answer("0x1")) },
		"no token":      func(p *proxy) { p.on("eth_getCode", answer("0x")) },
		"eighteen decimals": func(p *proxy) {
			p.on("eth_call", answer(common.BytesToHash([]byte{18}).Hex()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openTill(t, 1)
			lie(s.rpc[0])
			s.requireCode("wrong_chain")
			require.True(t, s.observer.Health().Blind)
			s.rpc[0].honest()
			s.settle()

			s.rpc[0].fail(fault{status: http.StatusBadGateway})
			s.requireCode("unreachable")
			s.rpc[0].honest()
			lie(s.rpc[0])
			s.pay()
			s.requireCode("wrong_chain")
			require.Empty(t, s.receipts())
			s.rpc[0].honest()
			s.settle()
		})
	}
}

func answer(result any) rule {
	return func(call, func(call) json.RawMessage) (json.RawMessage, error) { return encode(result), nil }
}

func TestAnEndpointThatRefusesSaysWhy(t *testing.T) {
	t.Parallel()
	for code, f := range map[string]fault{
		"unreachable":  {status: http.StatusServiceUnavailable},
		"unauthorized": {status: http.StatusForbidden},
		"bad_answer":   {code: -32601},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			s := openTill(t, 1)
			require.NoError(t, s.round())
			s.pay()
			s.rpc[0].fail(f)
			for range 6 {
				s.requireCode(code)
				require.True(t, s.observer.Health().Blind)
			}
			s.rpc[0].honest()
			s.clock.passed.Add(int64(time.Minute))
			s.settle()
			s.requireObserved()
		})
	}
}

// Where a chain has no final blocks, those far below its head count as such.
func TestAnEndpointWithoutFinalBlocksUsesDeepOnes(t *testing.T) {
	t.Parallel()
	s := openTill(t, 1)
	s.rpc[0].on("eth_getBlockByNumber", func(c call, pass func(call) json.RawMessage) (json.RawMessage, error) {
		if c.first() == "finalized" {
			return nil, fault{code: -32602}
		}
		return pass(c), nil
	})
	require.NoError(t, s.round())
	payment := s.pay()
	s.chain.Mine(t, 299)
	require.NoError(t, s.round())
	require.False(t, s.receipt(payment).Final)
	s.chain.Mine(t, 1)
	require.NoError(t, s.round())
	require.True(t, s.receipt(payment).Final)
	require.Equal(t, s.chain.Head()-300, s.cursor())
	s.requireRight()
}
