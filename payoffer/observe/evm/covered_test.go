package evm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// Rows answer for a block when it was read whole, and again by the round after.
func TestWatermarkNeedsTwoCycles(t *testing.T) {
	s := openBeside(t, 2)
	requireCovered := func(through uint64) {
		t.Helper()
		since, got := s.Covered()
		require.Equal(t, through, got)
		if through > 0 {
			require.EqualValues(t, genesis+399*blockTime+1, since)
		}
	}
	roundCovers := func(through uint64) {
		t.Helper()
		s.round()
		requireCovered(through)
	}
	requireCovered(0)
	roundCovers(0)
	roundCovers(399)
	paid := s.chain.authorize()
	s.use(paid)
	requireCovered(399)
	roundCovers(399)
	_, found := s.paidBy(paid)
	require.True(t, found, "the row is there before its block is covered")
	roundCovers(400)

	// What is open is not covered, and what was covered stays so.
	hidden := s.use(s.chain.authorize())
	s.nodes[0].hide(hidden)
	for range 3 {
		_ = s.look()
		requireCovered(400)
	}
	s.nodes[0].honest()
	s.nodes[1].answer("*", fault{status: 502})
	for range 3 {
		require.Error(t, s.look())
		requireCovered(400)
	}
	s.nodes[1].honest()
	s.now.Add(int64(backoffMost))
	roundCovers(400)
	roundCovers(401)
}

func TestFollowOnlyHasNoWatermark(t *testing.T) {
	s := openReadBeside(t, 1)
	s.config.FollowOnly = true
	s.restart()
	s.round()
	s.round()
	since, through := s.Covered()
	require.Zero(t, since)
	require.Zero(t, through)
}

// A use that is covered has its row, or paid somebody else.
func TestReceiptsAreCompleteBelowWatermark(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		events func(ledger.IntentKey) [][]event
		paid   bool
	}{
		"paid":     {func(k ledger.IntentKey) [][]event { return [][]event{used(k), sends(payer, payTo, price)} }, true},
		"canceled": {func(k ledger.IntentKey) [][]event { return [][]event{canceled(k)} }, false},
		"paid to somebody else": {func(k ledger.IntentKey) [][]event {
			return [][]event{used(k), sends(payer, stranger, price), sends(payer, payTo, price)}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := openReadBeside(t, 2)
			s.round()
			key := s.chain.authorize()
			s.chain.mine(1, s.chain.transaction(c.events(key)...))
			waiting := s.reading(key)
			require.True(t, waiting.Used)
			require.False(t, s.covers(waiting))
			s.settle()
			require.True(t, s.covers(waiting), "whoever waits has an answer")
			require.True(t, s.covers(s.reading(key)), "and whoever asks again")
			row, found := s.paidBy(key)
			require.Equal(t, c.paid, found)
			if found {
				require.Equal(t, strings.ToLower(key.Nonce), row.Nonce)
			}
		})
	}
}

// After a reorganization of the same height the rows answer again only once a round has begun on the new branch.
func TestWatermarkAfterReorg(t *testing.T) {
	s := openReadBeside(t, 2)
	s.chain.mine(3)
	s.settle()
	key := s.chain.authorize()
	s.chain.rewind(2)
	s.chain.mine(1, s.chain.transaction(used(key), sends(payer, payTo, price)))
	for range 2 {
		r := s.reading(key)
		require.True(t, r.Used)
		require.False(t, s.covers(r))
		_, found := s.paidBy(key)
		require.False(t, found)
		s.chain.mine(1)
	}
	waiting := s.reading(key)
	s.round()
	require.False(t, s.covers(waiting))
	_, found := s.paidBy(key)
	require.True(t, found)
	s.round()
	require.True(t, s.covers(s.reading(key)))
}

func TestDroppedReceiptResetsWatermark(t *testing.T) {
	s := openReadBeside(t, 2)
	key := s.chain.authorize()
	s.use(key)
	s.settle()
	before := s.chain.fork()
	require.True(t, s.covers(s.reading(key)))
	s.chain.rewind(1)
	s.chain.mine(2)
	require.False(t, s.reading(key).Used)
	s.round()
	_, found := s.paidBy(key)
	require.False(t, found)

	// The chain returns to the first branch.
	for _, n := range s.nodes {
		n.branch = before
	}
	s.chain = before
	r := s.reading(key)
	require.True(t, r.Used)
	require.False(t, s.covers(r), "it has no row, and was paid")
	s.settle()
	require.True(t, s.covers(s.reading(key)))
	_, found = s.paidBy(key)
	require.True(t, found)
}

// Every way to a receipt brings the nonce, and one that is there already gets it.
func TestReceiptHasAuthorizationNonce(t *testing.T) {
	s := openReadBeside(t, 2)
	first, second := s.chain.authorize(), s.chain.authorize()
	batch := s.chain.transaction(used(first), sends(payer, payTo, price), sends(payer, payTo, 2*price),
		used(second), sends(payer, payTo, price), []event{{stranger, used(first)[0].topics, nil}}, sends(payer, payTo, price),
		used(s.chain.authorize()), sends(stranger, payTo, price))
	s.chain.mine(1, batch)
	require.Equal(t, first.Nonce, s.requireProof(first, batch, true).Nonce)
	require.Equal(t, second.Nonce, s.requireProof(second, batch, true).Nonce)
	old := s.requireProof(second, batch, true)
	old.Nonce = ""
	_, err := s.db.Record(t.Context(), nil, old)
	require.NoError(t, err)
	s.round()
	nonces := map[string]string{}
	for id, row := range s.rows() {
		nonces[id[strings.LastIndex(id, ":"):]] = row.Nonce
		require.EqualValues(t, 1, row.Version)
	}
	require.Equal(t, map[string]string{":1": first.Nonce, ":2": "", ":4": second.Nonce, ":6": "", ":8": ""}, nonces)
	written := s.db.recorded
	s.round()
	require.Equal(t, written, s.db.recorded, "once")
}
