package bitcoin

import (
	"cmp"
	"maps"
	"slices"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// candidate is a transaction as hosts show it alike.
type candidate struct {
	tx  transaction
	own bool
	// depths are those at which the hosts show it.
	depths map[string]int64
}

// tally is what the hosts say of one transaction.
type tally struct {
	need int
	// candidates are what is shown, that which most hosts show first.
	candidates []*candidate
	// tips are the heights that the hosts have reached.
	tips map[string]int64
	// absent are the hosts that do not know it, passed those of them that have not
	// for long, and replaced those that show another transaction in its place, with
	// the height of its block or 0.
	absent, passed map[string]bool
	replaced       map[string]int64
}

// tally counts what is said of a transaction.
func (v *view) tally(id string) *tally {
	t := &tally{
		need: v.need, tips: make(map[string]int64), absent: make(map[string]bool), passed: make(map[string]bool), replaced: make(map[string]int64),
	}
	for _, r := range v.readers {
		host := r.host()
		t.tips[host] = max(t.tips[host], r.tip.height)
		c, spoke := r.claims[id]
		switch {
		case !spoke:
		case c.gone == nil:
			t.show(host, c)
		default:
			t.absent[host] = true
			if c.gone.long {
				t.passed[host] = true
			}
			if c.gone.replaced {
				t.replaced[host] = max(t.replaced[host], c.gone.block)
			}
		}
	}
	slices.SortStableFunc(t.candidates, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(len(b.depths), len(a.depths)), cmp.Compare(b.tx.Status.Height, a.tx.Status.Height))
	})
	return t
}

// show adds what one host shows.
func (t *tally) show(host string, c claim) {
	i := slices.IndexFunc(t.candidates, func(other *candidate) bool { return other.own == c.own && alike(other.tx, c.tx) })
	if i < 0 {
		i = len(t.candidates)
		t.candidates = append(t.candidates, &candidate{c.tx, c.own, make(map[string]int64)})
	}
	depths := t.candidates[i].depths
	depths[host] = max(depths[host], c.depth)
}

// alike reports whether two transactions are the same in what a receipt takes
// from them: where they stand, what they pay and what they spend.
func alike(a, b transaction) bool {
	return a.Status == b.Status && slices.Equal(a.Outputs, b.Outputs) &&
		slices.EqualFunc(a.Inputs, b.Inputs, func(a, b input) bool { return a.outpoint == b.outpoint })
}

// denied counts the hosts that have reached the block of a candidate and do not show
// it: their lists lack it.
func (t *tally) denied(c *candidate) (denied int) {
	for host, tip := range t.tips {
		if _, shows := c.depths[host]; !shows && tip >= c.tx.Status.Height {
			denied++
		}
	}
	return denied
}

// in are the candidates in a block.
func (t *tally) in(block string) (found []*candidate) {
	for _, c := range t.candidates {
		if c.tx.Status.Block == block {
			found = append(found, c)
		}
	}
	return found
}

// elsewhere counts the hosts that say anything of the transaction but that it is one
// of the candidates: those that were not asked say nothing.
func (t *tally) elsewhere(of ...*candidate) int {
	hosts := maps.Clone(t.absent)
	for _, c := range t.candidates {
		for host := range c.depths {
			hosts[host] = true
		}
	}
	for _, c := range of {
		maps.DeleteFunc(hosts, func(host string, _ bool) bool { _, shows := c.depths[host]; return shows })
	}
	return len(hosts)
}

// verdict is what is to be made of a transaction and of its receipts.
type verdict struct {
	// decided says that enough hosts agree on it.
	decided bool
	// shown is the transaction to be recorded, at a depth that enough hosts have; nil
	// for none. At depth 0 it is seen. own says that it spends the operator's money.
	shown *transaction
	depth int64
	own   bool
	// state restates its receipts, for a cause, where nothing is shown; empty leaves
	// them. replaced is the height of the block of what took its place, or 0.
	state    ledger.Status
	cause    string
	replaced int64
	// disputed is the lowest block in which it may stand and is not decided to; 0
	// for none.
	disputed int64
	// problem is what is wrong, empty where a mempool's ways explain it; tolerated
	// says that enough hosts know better.
	problem   string
	tolerated bool
}

// decide on a transaction by its tally. rows are its receipts so far, and counts is
// the depth at which it counts.
//
// Enough hosts confirm, and as many deny. Between these new money is seen: it
// is not counted, and not forgotten. A receipt that stands in a block by the word of
// enough hosts leaves it by no less.
func (t *tally) decide(rows []ledger.Receipt, counts int64) (d verdict) {
	var held evidence
	if len(rows) > 0 {
		held = evidenceOf(rows[0])
	}
	if len(t.candidates) > 0 {
		if best := t.candidates[0]; len(best.depths) >= t.need {
			d = verdict{decided: true, shown: &best.tx, own: best.own}
			d.depth, _ = nth(best.depths, t.need)
			if d.depth > 0 && t.elsewhere(best) > 0 && t.denied(best) > 0 {
				d.problem, d.tolerated = observe.ErrDisagree, true
			}
			return d
		}
	}
	switch {
	case len(rows) == 0:
	case len(t.replaced) >= t.need:
		height, _ := nth(t.replaced, t.need)
		return verdict{decided: true, state: ledger.StatusDropped, cause: "replaced", replaced: height}
	case len(t.passed) >= t.need:
		return verdict{decided: true, state: ledger.StatusDropped, cause: "evicted"}
	case held.Block == 0:
	case t.elsewhere(t.in(held.BlockHash)...) >= t.need:
		d.state, d.cause = ledger.StatusSeen, "reorg"
	default:
		if len(t.candidates) > 1 || t.elsewhere(t.in(held.BlockHash)...) > 0 {
			d.problem, d.disputed = observe.ErrDisagree, held.Block
		}
		return d
	}
	for _, c := range t.candidates {
		if d.shown == nil && (!c.own || len(rows) > 0 && rows[0].Own) {
			d.shown, d.own = &c.tx, c.own // not to be taken for own money on one word
		}
	}
	d.dispute(t, counts)
	return d
}

// dispute adds what is wrong with blocks that too few hosts show.
func (d *verdict) dispute(t *tally, counts int64) {
	blocks := slices.DeleteFunc(slices.Clone(t.candidates), func(c *candidate) bool { return !c.tx.Status.Confirmed })
	for _, c := range blocks {
		depth, _ := nth(c.depths, 1)
		switch denied := t.denied(c); {
		case denied >= t.need && len(blocks) == 1:
			d.problem, d.tolerated = observe.ErrDisagree, true
			return
		case denied > 0:
			d.problem = observe.ErrDisagree
		case depth >= counts && d.problem == "": // the others have not come so far
			d.problem = observe.ErrLagging
		}
		if d.disputed == 0 || c.tx.Status.Height < d.disputed {
			d.disputed = c.tx.Status.Height
		}
	}
}
