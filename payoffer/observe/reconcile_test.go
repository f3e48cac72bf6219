package observe

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// simBlock is a block of a simulated chain, with the amounts that it pays.
type simBlock struct {
	hash string
	pays map[string]int64
}

// simChain is a simulated chain. Blocks up to final stay. A chain with a mempool waits there with what is not in a block.
type simChain struct {
	random  *rand.Rand
	blocks  []simBlock // from height 1
	final   int
	mempool map[string]int64 // nil for a chain without one
	gone    map[string]bool  // replaced in the mempool
	hashes  int
	ids     int
}

func (c *simChain) mine(pays map[string]int64) {
	c.hashes++
	c.blocks = append(c.blocks, simBlock{fmt.Sprint("hash", c.hashes), pays})
}

// step mines, reorganizes, finalizes or replaces.
func (c *simChain) step() {
	switch n := c.random.IntN(10); {
	case n < 5:
		pays := map[string]int64{}
		for range c.random.IntN(3) {
			c.ids++
			pays[fmt.Sprint("tx", c.ids, ":0")] = int64(c.random.IntN(9000) + 1)
		}
		if c.mempool == nil {
			c.mine(pays)
			return
		}
		mined := map[string]int64{}
		for id, amount := range c.mempool {
			if c.random.IntN(2) == 0 {
				mined[id] = amount
				delete(c.mempool, id)
			}
		}
		maps.Copy(c.mempool, pays)
		c.mine(mined)
	case n < 7 && len(c.blocks) > c.final:
		c.reorganize(c.final + c.random.IntN(len(c.blocks)-c.final))
	case n < 9:
		c.final += c.random.IntN(len(c.blocks) - c.final + 1)
	case len(c.mempool) > 0:
		id := slices.Sorted(maps.Keys(c.mempool))[0]
		delete(c.mempool, id)
		c.gone[id] = true
	}
}

// reorganize replaces the blocks above a height. Each payment is lost, moves, or changes its amount.
func (c *simChain) reorganize(above int) {
	lost := map[string]int64{}
	for _, b := range c.blocks[above:] {
		maps.Copy(lost, b.pays)
	}
	length := len(c.blocks) - above + c.random.IntN(3)
	c.blocks = slices.Clone(c.blocks[:above])
	if c.mempool != nil {
		maps.Copy(c.mempool, lost)
		lost = nil
	}
	for range length {
		pays := map[string]int64{}
		for _, id := range slices.Sorted(maps.Keys(lost)) {
			switch c.random.IntN(4) {
			case 0:
				delete(lost, id)
			case 1:
				pays[id] = lost[id]
				delete(lost, id)
			case 2:
				pays[id] = lost[id] + 1
				delete(lost, id)
			}
		}
		c.mine(pays)
	}
}

// read is a reading up to a height, in any order and with repetitions.
func (c *simChain) read(head int, confirmations int64) (found []Movement, tip Tip) {
	tip = Tip{Head: int64(head), Final: int64(min(head, c.final)), Confirmations: confirmations}
	for i, b := range c.blocks[:head] {
		for id, amount := range b.pays {
			found = append(found, movementOf(id, amount, int64(i+1), b.hash))
		}
	}
	for _, b := range c.blocks[head:] { // a block that this source has not reached
		for id, amount := range b.pays {
			if c.mempool != nil {
				found = append(found, movementOf(id, amount, 0, ""))
			}
		}
	}
	for id, amount := range c.mempool {
		found = append(found, movementOf(id, amount, 0, ""))
	}
	for id := range c.gone {
		found = append(found, Movement{Observation: ledger.Observation{ExternalID: id}, Gone: "replaced"})
	}
	slices.SortFunc(found, func(a, b Movement) int { return c.random.IntN(3) - 1 })
	return append(found, found[:c.random.IntN(len(found)+1)]...), tip
}

func movementOf(id string, amount, block int64, hash string) Movement {
	o := observation(id, amount)
	o.EvidenceLevel, o.Evidence = ledger.LevelChain, offer.JSON(map[string]any{"block": block, "blockHash": hash})
	return Movement{Observation: o, Block: block, BlockHash: hash}
}

// simRows are receipts as the ledger merges them.
type simRows map[string]ledger.Receipt

func (r simRows) apply(t *testing.T, found []Movement, tip Tip) {
	t.Helper()
	var open []ledger.Receipt
	for _, id := range slices.Sorted(maps.Keys(r)) {
		if !r[id].Final {
			open = append(open, r[id])
		}
	}
	for _, o := range Reconcile(open, found, tip) {
		before := r[o.ExternalID]
		next, _ := accounting.Merge(before, nil, o)
		next.Version++
		r[o.ExternalID] = next
		if before.Final {
			require.Equal(t, before.Status, next.Status, "%s is final", o.ExternalID)
		}
	}
	var again []ledger.Receipt
	for _, row := range r {
		if !row.Final {
			again = append(again, row)
		}
	}
	fresh := func(m Movement) bool { return r[m.ExternalID].Final || m.Gone != "" }
	require.Empty(t, Reconcile(again, slices.DeleteFunc(slices.Clone(found), fresh), tip), "the same reading changes nothing")
}

// stand is what a reader of the rows sees of a payment.
type stand struct {
	state    ledger.Status
	amount   int64
	final    bool
	evidence string
}

func (r simRows) stands() map[string]stand {
	all := map[string]stand{}
	for id, row := range r {
		if row.State != ledger.StatusDropped {
			all[id] = stand{row.State, row.Amount, row.Final, string(row.Evidence)}
		}
	}
	return all
}

func TestReconcileEndsAsOneCleanReading(t *testing.T) {
	confirmed, dropped := 0, 0
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 42))
		c := &simChain{random: random, gone: map[string]bool{}}
		if seed%2 == 1 {
			c.mempool = map[string]int64{}
		}
		confirmations := int64(1 + random.IntN(4))
		rows := simRows{}
		for range 40 {
			c.step()
			if random.IntN(3) > 0 { // otherwise the reading failed
				found, tip := c.read(c.final+random.IntN(len(c.blocks)-c.final+1), confirmations)
				rows.apply(t, found, tip)
			}
		}
		found, tip := c.read(len(c.blocks), confirmations)
		rows.apply(t, found, tip)
		clean := simRows{}
		clean.apply(t, found, tip)
		want, got := clean.stands(), rows.stands()
		for id, w := range want {
			// A payment counts once, also if the head moves back a little.
			if g := got[id]; w.state == ledger.StatusSeen && g.state == ledger.StatusConfirmed {
				w.state = g.state
				want[id] = w
			}
			if w.state == ledger.StatusConfirmed {
				confirmed++
			}
		}
		require.Equal(t, want, got, "seed %d", seed)
		for _, row := range rows {
			if row.State == ledger.StatusDropped {
				dropped++
			}
		}
	}
	require.Greater(t, confirmed, 1000)
	require.Greater(t, dropped, 1000)
}

func rowAt(state ledger.Status, block int64) ledger.Receipt {
	o := movementOf("a", 42, block, fmt.Sprint("h", block)).Observation
	o.State = state
	row, _ := accounting.Merge(ledger.Receipt{}, nil, o)
	row.Version = 1
	return row
}

func TestReconcile(t *testing.T) {
	const seen, confirmed, dropped = ledger.StatusSeen, ledger.StatusConfirmed, ledger.StatusDropped
	at := func(block int64) *Movement {
		m := movementOf("a", 42, block, fmt.Sprint("h", block))
		return &m
	}
	worthless := at(0)
	worthless.USDCents = nil
	held := func(m *Movement) *Movement {
		m.Held = true
		return m
	}
	gone := &Movement{Observation: ledger.Observation{ExternalID: "a"}, Gone: "evicted"}
	unread := &Movement{Observation: ledger.Observation{ExternalID: "a"}, Held: true}
	other := at(10)
	other.Amount = 43
	own := at(5)
	own.State = ledger.StatusMoved
	row := func(state ledger.Status, block int64) *ledger.Receipt {
		r := rowAt(state, block)
		return &r
	}
	for name, c := range map[string]struct {
		row   *ledger.Receipt
		shown *Movement
		tip   Tip
		want  ledger.Status // "" for no change
		final bool
	}{
		"new":                                {nil, at(10), Tip{Head: 10, Confirmations: 2}, seen, false},
		"new and deep":                       {nil, at(9), Tip{Head: 10, Confirmations: 2}, confirmed, false},
		"new and final":                      {nil, at(9), Tip{Head: 10, Confirmations: 2, Final: 9}, confirmed, true},
		"final before it counts":             {nil, at(9), Tip{Head: 10, Confirmations: 3, Final: 9}, seen, false},
		"new in the mempool":                 {nil, at(0), Tip{Head: 10, Confirmations: 1}, seen, false},
		"new above the head":                 {nil, at(11), Tip{Head: 10, Confirmations: 1}, seen, false},
		"new and held":                       {nil, held(at(5)), Tip{Head: 10, Confirmations: 1, Final: 9}, seen, false},
		"new and gone":                       {nil, gone, Tip{Head: 10, Confirmations: 1}, "", false},
		"deeper":                             {row(seen, 10), at(10), Tip{Head: 11, Confirmations: 2}, confirmed, false},
		"no deeper":                          {row(seen, 10), at(10), Tip{Head: 10, Confirmations: 2}, "", false},
		"lower head":                         {row(confirmed, 10), at(10), Tip{Head: 9, Confirmations: 1}, "", false},
		"final":                              {row(confirmed, 10), at(10), Tip{Head: 12, Confirmations: 1, Final: 10}, confirmed, true},
		"final above a lower head":           {row(confirmed, 10), at(10), Tip{Head: 9, Confirmations: 1, Final: 10}, "", false},
		"another amount":                     {row(confirmed, 10), other, Tip{Head: 10, Confirmations: 1}, confirmed, false},
		"moved to a young block":             {row(confirmed, 10), at(12), Tip{Head: 12, Confirmations: 2}, seen, false},
		"moved to the mempool":               {row(confirmed, 10), at(0), Tip{Head: 12, Confirmations: 2}, seen, false},
		"gone from its block":                {row(confirmed, 10), nil, Tip{Head: 10, Confirmations: 1}, dropped, false},
		"gone from an unreached block":       {row(confirmed, 10), nil, Tip{Head: 9, Confirmations: 1}, "", false},
		"gone from the mempool":              {row(seen, 0), nil, Tip{Head: 10, Confirmations: 1}, "", false},
		"evicted from the mempool":           {row(seen, 0), gone, Tip{Head: 10, Confirmations: 1}, dropped, false},
		"still gone":                         {row(dropped, 10), nil, Tip{Head: 12, Confirmations: 1}, "", false},
		"forgotten":                          {row(dropped, 10), nil, Tip{Head: 12, Confirmations: 1, Forgotten: 1_795_250_001}, dropped, true},
		"returned":                           {row(dropped, 10), at(12), Tip{Head: 12, Confirmations: 1}, confirmed, false},
		"held while confirmed":               {row(confirmed, 10), held(at(11)), Tip{Head: 12, Confirmations: 1, Final: 12}, "", false},
		"held while seen":                    {row(seen, 10), held(at(10)), Tip{Head: 12, Confirmations: 1, Final: 12}, "", false},
		"held after it was dropped":          {row(dropped, 10), held(at(12)), Tip{Head: 12, Confirmations: 1}, seen, false},
		"unread":                             {row(confirmed, 10), unread, Tip{Head: 12, Confirmations: 1}, "", false},
		"unread after it was dropped":        {row(dropped, 10), unread, Tip{Head: 12, Confirmations: 1, Forgotten: 1_795_250_001}, "", false},
		"lost its value while it waits":      {row(seen, 0), worthless, Tip{Head: 10, Confirmations: 1}, seen, false},
		"moved within the account":           {nil, own, Tip{Head: 5, Confirmations: 1}, ledger.StatusMoved, false},
		"moved within the account and final": {nil, own, Tip{Head: 9, Confirmations: 1, Final: 5}, ledger.StatusMoved, true},
	} {
		t.Run(name, func(t *testing.T) {
			var rows []ledger.Receipt
			var found []Movement
			if c.row != nil {
				rows = append(rows, *c.row)
			}
			if c.shown != nil {
				found = append(found, *c.shown)
			}
			changes := Reconcile(rows, found, c.tip)
			if c.want == "" {
				require.Empty(t, changes)
				return
			}
			require.Len(t, changes, 1)
			require.Equal(t, c.want, changes[0].State)
			require.Equal(t, c.final, changes[0].Final)
			require.Equal(t, "a", changes[0].ExternalID)
		})
	}
}

func TestReconcileTakesTheLatestPlaceOfAPayment(t *testing.T) {
	pool, block := movementOf("a", 42, 0, ""), movementOf("a", 42, 7, "h7")
	for _, found := range [][]Movement{{pool, block}, {block, pool}} {
		changes := Reconcile(nil, found, Tip{Head: 7, Confirmations: 1})
		require.Len(t, changes, 1)
		require.Equal(t, ledger.StatusConfirmed, changes[0].State)
	}
}
