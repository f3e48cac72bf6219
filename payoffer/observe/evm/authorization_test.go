package evm

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// reading is what is read of an authorization.
func (ti *till) reading(key ledger.IntentKey) ledger.Reading {
	ti.Helper()
	r, err := ti.Read(ti.Context(), key)
	require.NoError(ti, err)
	return r
}

// covers reports whether the rows answer for a reading.
func (ti *till) covers(r ledger.Reading) bool {
	_, through := ti.Covered()
	return through >= r.Block
}

// paidBy is the receipt of an authorization's Transfer, if there is one.
func (ti *till) paidBy(key ledger.IntentKey) (row ledger.Receipt, found bool) {
	ti.Helper()
	row, found, err := ti.db.AuthorizationReceipt(ti.Context(), ti.config.USDC.Account(), key.From, key.Nonce)
	require.NoError(ti, err)
	return row, found
}

// use mines a transaction that uses an authorization for a payment to the rail.
func (ti *till) use(key ledger.IntentKey) *transaction {
	tx := ti.chain.transaction(used(key), sends(payer, payTo, price))
	ti.chain.mine(1, tx)
	return tx
}

func TestReadReturnsHeadState(t *testing.T) {
	t.Parallel()
	for _, endpoints := range []int{1, 2, 3} {
		s := openRead(t, endpoints)
		key := s.chain.authorize()
		calls := s.nodes[0].count("eth_call")
		require.Equal(t, ledger.Reading{Funds: price, Block: s.chain.head(), Time: s.chain.blocks[s.chain.head()].time}, s.reading(key))
		require.Equal(t, calls+2, s.nodes[0].count("eth_call"))
		s.use(key)
		r := s.reading(key)
		require.True(t, r.Used)
		require.Equal(t, s.chain.head(), r.Block)
		require.False(t, s.reading(s.chain.authorize()).Used)
	}
}

// A head from nowhere keeps everybody waiting, and refuses nobody.
func TestReadAbsurdHeadIsBadAnswer(t *testing.T) {
	t.Parallel()
	for member, value := range map[string]any{
		"number": "0xffffffffffffffff", "timestamp": "0x20000000000000", "hash": common.Hash{}.Hex(),
	} {
		s := openRead(t, 1)
		s.nodes[0].atBlock("latest", func(b object) { b[member] = value })
		_, err := s.Read(t.Context(), s.chain.authorize())
		require.EqualError(t, err, "bad_answer (one.example)", member)
	}
}

// hostile are answers that leave an endpoint unreadable.
var hostile = map[string]struct {
	disturb func(n *node)
	problem string
}{
	"broken connection": {func(n *node) { n.answer("eth_call", fault{}) }, "unreachable"},
	"server error":      {func(n *node) { n.answer("*", fault{status: 502}) }, "unreachable"},
	"too many requests": {func(n *node) { n.answer("*", fault{status: 429}) }, "rate_limited"},
	"refused":           {func(n *node) { n.answer("*", fault{status: 401}) }, "unauthorized"},
	"too many calls":    {func(n *node) { n.answer("eth_call", fault{code: -32005}) }, "rate_limited"},
	"out of gas":        {func(n *node) { n.answer("eth_call", fault{code: -32000}) }, "bad_answer"},
	"a page":            {func(n *node) { n.answer("*", fault{text: "<html>"}) }, "bad_answer"},
	"half a word":       {func(n *node) { n.answer("eth_call", "0x01") }, "bad_answer"},
	"no truth value":    {func(n *node) { n.spendsNow(common.HexToHash("0x02").Hex()) }, "bad_answer"},
	"no head":           {func(n *node) { n.answer("eth_getBlockByNumber", nil) }, "bad_answer"},
	"a head of text":    {func(n *node) { n.atBlock("latest", func(b object) { b["number"] = "seven" }) }, "bad_answer"},
}

// A reading that fails says why, and speaks against nobody: a payer may bring about as many as he likes. The next
// endpoint is asked.
func TestReadFailureLeavesHealthUnchanged(t *testing.T) {
	t.Parallel()
	for name, c := range hostile {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, endpoints := range []int{1, 2} {
				s := openRead(t, endpoints)
				before := s.Health()
				c.disturb(s.nodes[0])
				for range 2 * backoffAfter {
					r, err := s.Read(t.Context(), s.chain.authorize())
					if endpoints == 2 {
						require.NoError(t, err)
						require.False(t, r.Used)
						continue
					}
					require.EqualError(t, err, c.problem+" (one.example)")
					require.Zero(t, r)
				}
				require.Equal(t, before, s.Health())
				require.Zero(t, s.Observer.chain.endpoints[0].failures)
				require.Empty(t, s.log.String())
				s.nodes[0].honest()
				s.round()
				s.requireObserved()
			}
		})
	}
}

// An endpoint that is silent leaves time for the next one. A payer waits for two seconds at most.
func TestReadTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openRead(t, 2)
		s.nodes[0].answer("*", fault{hangs: true})
		start := time.Now()
		_, err := s.Read(t.Context(), s.chain.authorize())
		require.NoError(t, err)
		require.Equal(t, askWithin, time.Since(start))
		s.nodes[1].answer("*", fault{hangs: true})
		start = time.Now()
		_, err = s.Read(t.Context(), s.chain.authorize())
		require.EqualError(t, err, "unreachable (two.example)")
		require.Equal(t, readWithin, time.Since(start))
	})
}

// spendsNow answers authorizationState at the head.
func (n *node) spendsNow(result any) {
	n.on("eth_call", func(c call, pass func() any) any {
		if strings.Contains(string(c.Params[0]), common.Bytes2Hex(selector("authorizationState(address,bytes32)"))) {
			return result
		}
		return pass()
	})
}

func TestReadErrorsIfFinalHistoryChanged(t *testing.T) {
	s := openReadBeside(t, 1)
	s.chain.mineFinal(1)
	s.settle()
	s.chain.rewind(1)
	s.chain.mine(2)
	s.requireError("final_history_changed (one.example)", true)
	_, err := s.Read(t.Context(), s.chain.authorize())
	require.EqualError(t, err, "final_history_changed (one.example)")
}
