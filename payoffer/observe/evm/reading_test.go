package evm

import (
	"encoding/json"
	"math"
	"math/big"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// reading is what is read of an authorization.
func (s *till) reading(key ledger.IntentKey) ledger.Reading {
	s.Helper()
	r, err := s.Read(s.Context(), key)
	require.NoError(s, err)
	return r
}

// covers reports whether the rows answer for a reading.
func (s *till) covers(r ledger.Reading) bool {
	_, through := s.Covered()
	return through >= r.Block
}

// paidBy is the receipt of an authorization's Transfer, if there is one.
func (s *till) paidBy(key ledger.IntentKey) (row ledger.Receipt, found bool) {
	s.Helper()
	row, found, err := s.db.AuthorizationReceipt(s.Context(), s.config.USDC.Account(), key.From, key.Nonce)
	require.NoError(s, err)
	return row, found
}

// use mines a transaction that uses an authorization for a payment to the rail.
func (s *till) use(key ledger.IntentKey) *transaction {
	tx := s.chain.transaction(used(key), transfer(payer, payTo, price))
	s.chain.mine(1, tx)
	return tx
}

func TestAReadingSaysWhatTheHeadShows(t *testing.T) {
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

// lie has a node show another branch, in which the payer has something else.
func (s *till) lie(n *node, funds int64) *branch {
	n.branch = s.chain.fork()
	n.funds = big.NewInt(funds)
	return n.branch
}

// One of several that lies takes nothing from whoever paid, and gives nothing to whoever has nothing.
func TestOneEndpointAloneDecidesNoReading(t *testing.T) {
	t.Parallel()
	for _, endpoints := range []int{2, 3} {
		for liar := range endpoints {
			s := openRead(t, endpoints)
			s.round()
			key := s.chain.authorize()
			tx := s.use(key)

			// It denies the use, and claims to be ahead of all.
			lie := s.lie(s.nodes[liar], 100*price)
			lie.rewind(1)
			lie.mine(500)
			r := s.reading(key)
			require.True(t, r.Used)
			require.EqualValues(t, price, r.Funds)
			require.False(t, s.covers(r))
			require.False(t, s.reading(s.chain.authorize()).Used)
			require.Equal(t, s.chain.blocks[s.chain.head()].time, s.reading(s.chain.authorize()).Time)

			// It calls used what is not, and even for long.
			s.nodes[liar].branch = s.chain
			s.settle()
			unused := s.chain.authorize()
			lie = s.lie(s.nodes[liar], 0)
			copied := *lie.blocks[1]
			copied.transactions = []*transaction{lie.transaction(used(unused))}
			lie.blocks[1] = &copied
			r = s.reading(unused)
			require.True(t, r.Used, "it may be so")
			require.False(t, s.covers(r))
			s.chain.mine(3)
			s.round()
			s.round()
			require.False(t, s.covers(r), "and nobody is refused for it, however long he waits")
			require.EqualValues(t, map[int]int64{2: 0, 3: price}[endpoints], r.Funds)
			r = s.reading(key)
			require.True(t, r.Used)
			require.True(t, s.covers(r))
			row, found := s.paidBy(key)
			require.True(t, found)
			require.Equal(t, tx.hash.Hex(), row.Transaction)
		}
	}
}

// A head from nowhere keeps everybody waiting, and refuses nobody.
func TestAnAbsurdHeadIsABadAnswer(t *testing.T) {
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

// An endpoint that is behind calls unused what was used since: any other one is believed.
func TestAUseThatOneEndpointHasNotReachedIsRead(t *testing.T) {
	t.Parallel()
	for _, behind := range []int{0, 1} {
		s := openRead(t, 2)
		s.round()
		key := s.chain.authorize()
		s.nodes[behind].branch = s.chain.fork()
		s.use(key)
		r := s.reading(key)
		require.True(t, r.Used)
		require.EqualValues(t, uint64(math.MaxUint64), r.Block)
		require.Equal(t, s.chain.blocks[s.chain.head()-1].time, r.Time)
		s.nodes[behind].branch = s.chain
		s.round()
		require.False(t, s.covers(s.reading(key)))
		s.round()
		require.True(t, s.covers(s.reading(key)))
	}
}

func TestAnswersToABatchComeInAnyOrder(t *testing.T) {
	s := openReadBeside(t, 2)
	key := s.chain.authorize()
	s.use(key)
	want := s.reading(key)
	orders := 0
	for _, order := range [][]int{{0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		s.nodes[0].batches(func(answers []json.RawMessage) any {
			if len(answers) != len(order) {
				return answers
			}
			orders++
			return []any{answers[order[0]], answers[order[1]], answers[order[2]], object{"id": 9, "result": "0x"}, object{"method": "x"}}
		})
		require.Equal(t, want, s.reading(key))
	}
	require.Equal(t, 5, orders)
}

// hostile are answers to a batch, and errors in one, that leave an endpoint unreadable.
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
	"no word":           {func(n *node) { n.answer("eth_call", nil) }, "bad_answer"},
	"no truth value":    {func(n *node) { n.spendsNow(common.HexToHash("0x02").Hex()) }, "bad_answer"},
	"no head":           {func(n *node) { n.answer("eth_getBlockByNumber", nil) }, "bad_answer"},
	"a head of text":    {func(n *node) { n.atBlock("latest", func(b object) { b["number"] = "seven" }) }, "bad_answer"},
	"one error for all": {func(n *node) {
		n.batches(func([]json.RawMessage) any { return object{"id": nil, "error": object{"code": -32600}} })
	}, "bad_answer"},
	"one answer for all": {func(n *node) { n.batches(func(a []json.RawMessage) any { return a[0] }) }, "bad_answer"},
	"nothing in it":      {func(n *node) { n.batches(func([]json.RawMessage) any { return []any{} }) }, "bad_answer"},
	"a member too few":   {func(n *node) { n.batches(func(a []json.RawMessage) any { return a[1:] }) }, "bad_answer"},
	"ids of its own":     {func(n *node) { n.batches(func(a []json.RawMessage) any { return renumbered(a) }) }, "bad_answer"},
	"numbers":            {func(n *node) { n.batches(func([]json.RawMessage) any { return []any{1, 2, 3} }) }, "bad_answer"},
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

func renumbered(answers []json.RawMessage) []json.RawMessage {
	for i, a := range answers {
		answers[i] = json.RawMessage(strings.Replace(string(a), `"id":`, `"id":1`, 1))
	}
	return answers
}

// A reading that fails says why, and speaks against nobody: a buyer may bring about as many as he likes.
func TestAReadingThatFailsTouchesNeitherHealthNorEndpoints(t *testing.T) {
	t.Parallel()
	for name, c := range hostile {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, endpoints := range []int{1, 2, 3} {
				s := openRead(t, endpoints)
				key := s.chain.authorize()
				before, spans := s.Health(), s.endpoints[0].span.size()
				c.disturb(s.nodes[0])
				for range 2 * backoffAfter {
					r, err := s.Read(t.Context(), key)
					if endpoints == 3 {
						require.NoError(t, err, "two of three are enough")
						continue
					}
					require.EqualError(t, err, c.problem+" (one.example)")
					require.Zero(t, r)
				}
				require.Equal(t, before, s.Health())
				require.Equal(t, spans, s.endpoints[0].span.size())
				require.Zero(t, s.endpoints[0].failures)
				require.True(t, s.endpoints[0].checked)
				require.Empty(t, s.log.String())
				s.nodes[0].honest()
				s.round()
				s.requireObserved()
			}
		})
	}
}

func TestAReadingEndsAfterTwoSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openRead(t, 2)
		key := s.chain.authorize()
		before := s.Health()
		s.nodes[0].answer("*", fault{hangs: true})
		start := time.Now()
		_, err := s.Read(t.Context(), key)
		require.EqualError(t, err, "unreachable (one.example)")
		require.Equal(t, 2*time.Second, time.Since(start))
		s.nodes[0].honest()

		// The second look shares the time with the first.
		s.use(key)
		s.settle()
		s.nodes[0].on("eth_call", func(c call, pass func() any) any {
			if c.text(1) != "latest" {
				return fault{hangs: true}
			}
			time.Sleep(750 * time.Millisecond)
			return pass()
		})
		start = time.Now()
		require.False(t, s.covers(s.reading(key)))
		require.Equal(t, 2*time.Second, time.Since(start))
		require.Equal(t, before.LastError, s.Health().LastError)
		require.Zero(t, s.endpoints[0].failures)
	})
}

func TestNothingIsReadWhileFinalHistoryHasChanged(t *testing.T) {
	s := openReadBeside(t, 1)
	s.chain.mineFinal(1)
	s.settle()
	s.chain.rewind(1)
	s.chain.mine(2)
	s.requireError("final_history_changed (one.example)", true)
	_, err := s.Read(t.Context(), s.chain.authorize())
	require.EqualError(t, err, "final_history_changed (one.example)")
}

// FuzzBatch reads answers to a batch as endpoints send them. What is taken for an answer stands in it under its id.
func FuzzBatch(f *testing.F) {
	word := `"0x` + strings.Repeat("0", 63) + `1"`
	f.Add([]byte(`[{"id":0,"result":{"number":"0x1","hash":` + word + `,"timestamp":"0x2"}},{"id":1,"result":` + word + `}]`))
	f.Add([]byte(`[{"id":1,"result":` + word + `},{"id":0,"result":null}]`))
	f.Add([]byte(`[{"id":1,"error":{"code":-32000,"message":"x"}},{"id":0,"result":{}}]`))
	f.Add([]byte(`{"id":null,"error":{"code":-32600}}`))
	f.Add([]byte(`[{"id":"0","result":{}},{"id":1.0,"result":` + word + `},null,7]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var head block
		var answer common.Hash
		if decodeBatch(text, []member{{result: &head}, {result: &answer}}) != nil {
			return
		}
		var all []struct {
			ID     json.RawMessage
			Result json.RawMessage
		}
		require.NoError(t, json.Unmarshal(text, &all))
		shown := map[string]string{}
		for _, one := range all {
			shown[string(one.ID)] = string(one.Result)
		}
		require.Contains(t, shown, "0")
		require.True(t, strings.EqualFold(`"`+answer.Hex()+`"`, shown["1"]), "%s", shown["1"])
		var again block
		require.NoError(t, json.Unmarshal([]byte(shown["0"]), &again))
		require.Equal(t, again, head)
	})
}
