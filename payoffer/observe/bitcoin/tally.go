package bitcoin

import (
	"cmp"
	"maps"
	"slices"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// candidate is a transaction that hosts show alike.
type candidate struct {
	tx  transaction
	own bool
	// depths are the confirmations, by host.
	depths map[string]int64
}

// tally is what the hosts say of one transaction.
type tally struct {
	need int
	// candidates are sorted by the number of hosts that show them.
	candidates []*candidate
	// tips are the hosts' heights.
	tips map[string]int64
	// absent has the hosts that do not know the transaction, and passed those that have not known it for long.
	// replaced has those that show a replacement, with its block or 0.
	absent, passed map[string]bool
	replaced       map[string]int64
}

func (v *view) tally(id string) *tally {
	t := &tally{
		need: v.need, tips: make(map[string]int64), absent: make(map[string]bool), passed: make(map[string]bool), replaced: make(map[string]int64),
	}
	for _, r := range v.readers {
		host := r.host()
		t.tips[host] = max(t.tips[host], r.tip.height)
		c, spoke := r.reports[id]
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

func (t *tally) show(host string, c report) {
	i := slices.IndexFunc(t.candidates, func(other *candidate) bool { return other.own == c.own && alike(other.tx, c.tx) })
	if i < 0 {
		i = len(t.candidates)
		t.candidates = append(t.candidates, &candidate{c.tx, c.own, make(map[string]int64)})
	}
	depths := t.candidates[i].depths
	depths[host] = max(depths[host], c.depth)
}

// alike reports whether two transactions are the same in everything that a receipt uses.
func alike(a, b transaction) bool {
	return a.Status == b.Status && slices.Equal(a.Outputs, b.Outputs) &&
		slices.EqualFunc(a.Inputs, b.Inputs, func(a, b input) bool { return a.outpoint == b.outpoint })
}

// denied counts the hosts that have reached a candidate's block and do not show it.
func (t *tally) denied(c *candidate) (denied int) {
	for host, tip := range t.tips {
		if _, shows := c.depths[host]; !shows && tip >= c.tx.Status.Height {
			denied++
		}
	}
	return denied
}

// in returns the candidates in a block.
func (t *tally) in(block string) (found []*candidate) {
	for _, c := range t.candidates {
		if c.tx.Status.Block == block {
			found = append(found, c)
		}
	}
	return found
}

// elsewhere counts the hosts that report the transaction, but not as one of the candidates.
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

// decision is what becomes of a transaction and its receipts.
type decision struct {
	// decided says that enough hosts agree.
	decided bool
	// shown is the transaction to record, at a depth that enough hosts have; nil for none, depth 0 is unconfirmed.
	// own means that it spends the operator's money.
	shown *transaction
	depth int64
	own   bool
	// state and cause replace those of the receipts if nothing is shown; empty keeps them. replaced is the height of the
	// replacement, or 0.
	state    ledger.Status
	cause    string
	replaced int64
	// disputed is the lowest block in which it may be although that is undecided; 0 for none.
	disputed int64
	// problem is empty if normal differences between mempools explain it. outvoted means that enough hosts agree
	// in spite of it.
	problem  string
	outvoted bool
}

// decide returns the state of a transaction. rows are its receipts, and counts is the depth at which it counts. A
// quorum of hosts confirms or denies it. Otherwise a new payment is pending and not counted. A receipt leaves its block
// only if a quorum of hosts says so.
func (t *tally) decide(rows []ledger.Receipt, counts int64) (d decision) {
	var held evidence
	if len(rows) > 0 {
		held = evidenceOf(rows[0])
	}
	if len(t.candidates) > 0 {
		if best := t.candidates[0]; len(best.depths) >= t.need {
			d = decision{decided: true, shown: &best.tx, own: best.own}
			d.depth, _ = nth(best.depths, t.need)
			if d.depth > 0 && t.elsewhere(best) > 0 && t.denied(best) > 0 {
				d.problem, d.outvoted = observe.ErrDisagree, true
			}
			return d
		}
	}
	switch {
	case len(rows) == 0:
	case len(t.replaced) >= t.need:
		height, _ := nth(t.replaced, t.need)
		return decision{decided: true, state: ledger.StatusDropped, cause: "replaced", replaced: height}
	case len(t.passed) >= t.need:
		return decision{decided: true, state: ledger.StatusDropped, cause: "evicted"}
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
			d.shown, d.own = &c.tx, c.own // one host alone cannot make it own money
		}
	}
	d.dispute(t, counts)
	return d
}

// dispute adds the problem of blocks that too few hosts show.
func (d *decision) dispute(t *tally, counts int64) {
	blocks := slices.DeleteFunc(slices.Clone(t.candidates), func(c *candidate) bool { return !c.tx.Status.Confirmed })
	for _, c := range blocks {
		depth, _ := nth(c.depths, 1)
		switch denied := t.denied(c); {
		case denied >= t.need && len(blocks) == 1:
			d.problem, d.outvoted = observe.ErrDisagree, true
			return
		case denied > 0:
			d.problem = observe.ErrDisagree
		case depth >= counts && d.problem == "": // the other hosts have not reached it
			d.problem = observe.ErrLagging
		}
		if d.disputed == 0 || c.tx.Status.Height < d.disputed {
			d.disputed = c.tx.Status.Height
		}
	}
}
