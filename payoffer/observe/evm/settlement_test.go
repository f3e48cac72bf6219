package evm

import (
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// requireProof requires that Prove and Find answer alike: by a observation of the transaction, or that there is none.
func (ti *till) requireProof(key ledger.IntentKey, tx *transaction, found bool) (proof ledger.Observation) {
	ti.Helper()
	proof, proven, err := ti.Prove(ti.Context(), key, tx.hash.Hex())
	require.NoError(ti, err)
	require.Equal(ti, found, proven)
	sought, seen, err := ti.Find(ti.Context(), key, ti.clock().Unix())
	require.NoError(ti, err)
	require.Equal(ti, found, seen)
	require.Equal(ti, proof, sought)
	if found {
		require.Equal(ti, tx.hash.Hex(), proof.Transaction)
	}
	return proof
}

// requireDead requires why an authorization can never be used; empty while it can.
func (ti *till) requireDead(reason string, key ledger.IntentKey, until int64, about ...any) {
	ti.Helper()
	got, err := ti.Dead(ti.Context(), key, until)
	require.NoError(ti, err)
	require.Equal(ti, reason, got, about...)
}

// requireUndecided requires that neither Prove nor Find answers.
func (ti *till) requireUndecided(problem string, key ledger.IntentKey, tx *transaction) {
	ti.Helper()
	_, found, err := ti.Prove(ti.Context(), key, tx.hash.Hex())
	require.EqualError(ti, err, problem)
	require.False(ti, found)
	_, found, err = ti.Find(ti.Context(), key, 0)
	require.EqualError(ti, err, problem)
	require.False(ti, found)
}

// requireFound requires whether an authorization was used since a time.
func (ti *till) requireFound(found bool, key ledger.IntentKey, since int64) {
	ti.Helper()
	_, got, err := ti.Find(ti.Context(), key, since)
	require.NoError(ti, err)
	require.Equal(ti, found, got)
}

// The Transfer that an authorization made is the log after its AuthorizationUsed, from the same payer to the rail.
func TestProveNeedsTransferAfterUse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		events  func(key, other ledger.IntentKey) [][]event
		ordinal string
	}{
		"used and paid":      {func(k, _ ledger.IntentKey) [][]event { return [][]event{used(k), sends(payer, payTo, price)} }, "1"},
		"even if it is dust": {func(k, _ ledger.IntentKey) [][]event { return [][]event{used(k), sends(payer, payTo, 1)} }, "1"},
		"one of a batch": {func(k, o ledger.IntentKey) [][]event {
			return [][]event{used(o), sends(payer, payTo, price), used(k), sends(payer, payTo, price)}
		}, "3"},
		"another authorization": {func(_, o ledger.IntentKey) [][]event { return [][]event{used(o), sends(payer, payTo, price)} }, ""},
		"another payer":         {func(k, _ ledger.IntentKey) [][]event { return [][]event{used(k), sends(stranger, payTo, price)} }, ""},
		"another payee":         {func(k, _ ledger.IntentKey) [][]event { return [][]event{used(k), sends(payer, stranger, price)} }, ""},
		"not at once": {func(k, _ ledger.IntentKey) [][]event {
			return [][]event{used(k), sends(payer, stranger, 1), sends(payer, payTo, price)}
		}, ""},
		"before its use": {func(k, _ ledger.IntentKey) [][]event { return [][]event{sends(payer, payTo, price), used(k)} }, ""},
		"another token's event": {func(k, _ ledger.IntentKey) [][]event {
			return [][]event{{{stranger, used(k)[0].topics, nil}}, sends(payer, payTo, price)}
		}, ""},
		"canceled":  {func(k, _ ledger.IntentKey) [][]event { return [][]event{canceled(k), sends(payer, payTo, price)} }, ""},
		"only paid": {func(_, _ ledger.IntentKey) [][]event { return [][]event{sends(payer, payTo, price)} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := openBeside(t, 2)
			key := s.chain.authorize()
			tx := s.chain.transaction(c.events(key, s.chain.authorize())...)
			s.chain.mine(1, tx)
			proof := s.requireProof(key, tx, c.ordinal != "")
			if c.ordinal != "" {
				require.Equal(t, "eip155:84532:"+tx.hash.Hex()+":"+c.ordinal, proof.ExternalID)
				require.Equal(t, ledger.StatusConfirmed, proof.State)
				require.Equal(t, "0xde709f2102306220921060314715629080e2fb77", proof.Payer)
			}
			tx.failed = true
			s.restart()
			s.requireProof(key, tx, false)
		})
	}
}

// A proof counts at the configured level, and is final where the chain is.
func TestProofFinality(t *testing.T) {
	t.Parallel()
	s := openAt(t, 2, Safe)
	key := s.chain.authorize()
	tx := s.use(key)
	require.Equal(t, ledger.StatusSeen, s.requireProof(key, tx, true).State)
	s.chain.safe++
	require.Equal(t, ledger.StatusConfirmed, s.requireProof(key, tx, true).State)
	require.False(t, s.requireProof(key, tx, true).Final)
	s.chain.final++
	require.True(t, s.requireProof(key, tx, true).Final)
	s.chain.rewind(1)
	s.requireProof(key, tx, false)
}

// One endpoint proves nothing.
func TestProveNeedsTwoEndpoints(t *testing.T) {
	t.Parallel()
	for liar := range 2 {
		s := open(t, 2)
		key := s.chain.authorize()
		tx := s.use(key)
		s.nodes[liar].hide(tx)
		s.requireProof(key, tx, false)

		// The liar shows another amount, or another transaction.
		s.nodes[liar].honest()
		s.nodes[liar].branch = s.chain.fork()
		s.nodes[liar].replace(tx, &transaction{hash: tx.hash, events: slices.Concat(used(key), sends(payer, payTo, 9*price))})
		s.restart()
		s.requireProof(key, tx, false)
		s.nodes[liar].branch = s.chain.fork()
		forged := s.chain.transaction(used(key), sends(payer, payTo, price))
		s.nodes[liar].replace(tx, forged)
		s.restart()
		_, proven, err := s.Prove(t.Context(), key, forged.hash.Hex())
		require.NoError(t, err)
		require.False(t, proven)
		s.nodes[liar].branch = s.chain
		s.restart()
		s.requireProof(key, tx, true)
	}
}

// While a live witness cannot be read there is no decision, and an error.
func TestProveWithoutWitnessErrors(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"*", "eth_getTransactionReceipt"} {
		s := openRead(t, 2)
		key := s.chain.authorize()
		tx := s.use(key)
		s.nodes[1].answer(method, fault{status: 503})
		s.requireUndecided("unreachable (two.example)", key, tx)
	}
	s := openRead(t, 2)
	key := s.chain.authorize()
	s.nodes[1].answer("eth_getLogs", fault{status: 503})
	_, found, err := s.Find(t.Context(), key, 0)
	require.EqualError(t, err, "unreachable (two.example)")
	require.False(t, found)
	s.nodes[1].answer("*", fault{})
	s.chain.mineFinal(1000)
	reason, err := s.Dead(t.Context(), key, genesis)
	require.EqualError(t, err, "unreachable (two.example)")
	require.Empty(t, reason)
}

// The search goes backwards as far as the authorization may have been used, and no farther.
func TestFindSearchesBackToSignature(t *testing.T) {
	s := openBeside(t, 1)
	key := s.chain.authorize()
	s.use(key)
	signed := s.chain.blocks[s.chain.head()].time
	s.chain.mine(3 * searchStep)
	s.requireFound(true, key, signed+searchSlack)
	asked := s.nodes[0].count("eth_getLogs")
	s.requireFound(false, key, s.chain.blocks[s.chain.head()].time)
	require.Equal(t, asked+1, s.nodes[0].count("eth_getLogs"))
	s.requireFound(false, s.chain.authorize(), 0)

	// A block that cannot be read is no end.
	s.nodes[0].on("eth_getBlockByNumber", func(c call, pass func() any) any {
		if _, err := hexutil.DecodeUint64(c.text(0)); err == nil {
			return fault{code: -32000}
		}
		return pass()
	})
	_, found, err := s.Find(t.Context(), key, signed)
	require.EqualError(t, err, "bad_answer (one.example)")
	require.False(t, found)
}

// An authorization is dead when it was canceled, paid to another account, or expired unused, and only final blocks show it.
func TestAuthorizationDeadNeedsFinalBlocks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		events func(ledger.IntentKey) [][]event
		reason string
	}{
		"canceled":          {func(k ledger.IntentKey) [][]event { return [][]event{canceled(k)} }, reasonCanceled},
		"paid elsewhere":    {func(k ledger.IntentKey) [][]event { return [][]event{used(k), sends(payer, stranger, price)} }, reasonElsewhere},
		"paid with nothing": {func(k ledger.IntentKey) [][]event { return [][]event{used(k)} }, reasonElsewhere},
		"paid to the rail":  {func(k ledger.IntentKey) [][]event { return [][]event{used(k), sends(payer, payTo, price)} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := openBeside(t, 2)
			key := s.chain.authorize()
			s.chain.mine(1, s.chain.transaction(c.events(key)...))
			until := s.chain.blocks[s.chain.head()].time + 600
			s.requireDead("", key, until, "it is not final yet")
			s.chain.finalize()
			s.requireDead(c.reason, key, until)
			s.chain.mineFinal(1000)
			s.requireDead(c.reason, key, until, "its end is past, which is not why")
		})
	}
	s := open(t, 2)
	key, until := s.chain.authorize(), s.chain.blocks[s.chain.head()].time+2*blockTime
	for blocks, want := range []string{"", "", "", reasonExpired} {
		s.requireDead(want, key, until, "%d blocks later", blocks)
		s.chain.mine(1)
		s.requireDead(want, key, until, "%d blocks later, and one that is not final", blocks)
		s.chain.finalize()
	}
}

// The buyer signs another payment when an authorization is called dead: one liar must not bring that about.
func TestAuthorizationDeadNeedsTwoEndpoints(t *testing.T) {
	t.Parallel()
	for liar := range 2 {
		s := open(t, 2)
		key, until := s.chain.authorize(), s.chain.blocks[s.chain.head()].time+600
		s.nodes[liar].branch = s.chain.fork()
		s.nodes[liar].mine(400)
		s.nodes[liar].finalize()
		reason, _ := s.Dead(t.Context(), key, until)
		require.Empty(t, reason)
		s.nodes[liar].branch = s.chain.fork()
		s.nodes[liar].atBlock("finalized", func(block object) { block["timestamp"] = number(genesis * 2) })
		reason, _ = s.Dead(t.Context(), key, until)
		require.Empty(t, reason)
		s.nodes[liar].honest()
		s.nodes[liar].branch = s.chain
		s.chain.mineFinal(400)
		s.requireDead(reasonExpired, key, until)
	}
}

// An authorization that one endpoint shows to have paid is not dead, whatever the other one says.
func TestAuthorizationDeadDeniedByOneEndpoint(t *testing.T) {
	t.Parallel()
	for liar := range 2 {
		s := open(t, 2)
		key := s.chain.authorize()
		tx := s.chain.transaction(used(key), sends(payer, payTo, price))
		s.chain.mineFinal(1000, tx)
		s.nodes[liar].hide(tx)
		s.nodes[liar].spends(common.Hash{}.Hex())
		s.requireDead("", key, genesis)
	}
}

// Whoever cannot say how an authorization was spent has no vote on its death.
func TestAuthorizationDeadNeedsKnownOutcome(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(n *node, tx *transaction)
		problem string
	}{
		"its state cannot be read":    {func(n *node, _ *transaction) { n.spends("0x") }, "bad_answer (two.example)"},
		"its state is no truth value": {func(n *node, _ *transaction) { n.spends(common.HexToHash("0x02").Hex()) }, "bad_answer (two.example)"},
		"its logs cannot be read":     {func(n *node, _ *transaction) { n.answer("eth_getLogs", fault{code: -32005}) }, "bad_answer (two.example)"},
		"its use cannot be read": {func(n *node, _ *transaction) {
			n.on("eth_getLogs", func(c call, pass func() any) any {
				if c.query().Topics[0][0] == topicUsed {
					return fault{status: 500}
				}
				return pass()
			})
		}, "unreachable (two.example)"},
		"its logs are hidden":        {func(n *node, tx *transaction) { n.hide(tx) }, ""},
		"its receipt is hidden":      {func(n *node, _ *transaction) { n.answer("eth_getTransactionReceipt", nil) }, ""},
		"its receipt cannot be read": {func(n *node, _ *transaction) { n.answer("eth_getTransactionReceipt", fault{status: 500}) }, "unreachable (two.example)"},
	} {
		t.Run(name, func(t *testing.T) {
			s := openBeside(t, 2)
			key := s.chain.authorize()
			tx := s.chain.transaction(used(key), sends(payer, stranger, price))
			s.chain.mineFinal(1000, tx)
			c.change(s.nodes[1], tx)
			reason, err := s.Dead(t.Context(), key, s.chain.blocks[s.chain.head()].time)
			require.Empty(t, reason)
			if c.problem == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.problem)
			s.nodes[1].honest()
			s.now.Add(int64(backoffMost))
			s.requireDead(reasonElsewhere, key, s.chain.blocks[s.chain.head()].time)
		})
	}
}
