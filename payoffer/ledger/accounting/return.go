package accounting

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
)

// ReturnKind is the kind of a return: a refund or a dispute.
type ReturnKind string

// The kinds of returns.
const (
	ReturnRefund ReturnKind = "refund" // one refund; the sum of those with Gone counts
	// ReturnTotal is the provider's sum of all refunds, unknown ones too. Known refunds
	// without Gone are subtracted. It counts if it is more than the known refunds.
	ReturnTotal    ReturnKind = "refund_total"
	ReturnReversal ReturnKind = "reversal" // a dispute or an operator's void, of all or of Amount
	// ReturnCapture is not a return but is reported like one: an authorized payment was
	// captured.
	ReturnCapture ReturnKind = "capture"
)

// Return is one refund or dispute of a payment. The latest report of it counts, whatever
// the order in which reports arrive.
type Return struct {
	ID     string // unique in the payment, such as "re_…" or "dp_…"
	Kind   ReturnKind
	Amount int64 // in atomic units of the payment; 0 of a reversal means all of it
	// Currency is that of Amount if it is not the payment's. A reversal in another currency
	// counts as all of the payment, and a refund in another currency is not counted.
	Currency string
	Gone     bool  // the money is gone now; false after a failed refund or a won dispute
	At       int64 // when the source reported it, in Unix seconds
	Rank     int   // of two in the same second, the higher one counts
}

// Refunds reports whether it is a refund in the payment's asset that was paid or is pending.
// Only a pending one is not Gone and has the Rank 0.
func (r Return) Refunds(asset string) bool {
	return r.Kind == ReturnRefund && !r.Foreign(asset) && (r.Gone || r.Rank == 0)
}

// Foreign reports whether it is a refund in another currency than the payment's asset.
func (r Return) Foreign(asset string) bool {
	return r.Kind != ReturnReversal && r.Currency != "" && r.Currency != asset
}

// ReportedRefunds returns the sum of the reported refunds, which may exceed the payment.
func ReportedRefunds(returns []Return, asset string) (atomic int64) {
	var total int64
	for _, r := range returns {
		switch {
		case !r.Gone || r.Foreign(asset):
		case r.Kind == ReturnRefund:
			atomic = saturatingAdd(atomic, r.Amount)
		case r.Kind == ReturnTotal:
			total = max(total, r.Amount)
		}
	}
	return max(atomic, total)
}

func (r Return) problem() string {
	switch {
	case r.ID == "":
		return "a return needs an id"
	case r.Kind != ReturnRefund && r.Kind != ReturnTotal && r.Kind != ReturnReversal && r.Kind != ReturnCapture:
		return "the kind of a return must be refund, refund_total, reversal or capture"
	case r.Kind == ReturnCapture && (r.Gone || r.Amount != 0):
		return "a capture must have no Amount and must not be Gone"
	case r.Amount < 0:
		return "the amount of a return must not be negative"
	case !Storable(r.ID, r.Currency):
		return "a text of a return is not UTF-8 or contains U+0000"
	default:
		return ""
	}
}

func compareBools(a, b bool) int {
	if a == b {
		return 0
	} else if b {
		return -1
	}
	return 1
}

// compare orders the reports of one return, whatever the order in which they arrive.
func (r Return) compare(other Return) int {
	return cmp.Or(
		cmp.Compare(r.At, other.At), cmp.Compare(r.Rank, other.Rank), compareBools(r.Gone, other.Gone),
		cmp.Compare(r.Amount, other.Amount), strings.Compare(string(r.Kind), string(other.Kind)), strings.Compare(r.Currency, other.Currency))
}

// ReturnRecords are the latest reports of the returns of one payment, by ID.
type ReturnRecords map[string]Return

// join returns the latest reports after an observation. It does not change w.
func (rr ReturnRecords) join(s Observation) ReturnRecords {
	if len(s.Returns) == 0 {
		return rr
	}
	next := make(ReturnRecords, len(rr)+len(s.Returns))
	maps.Copy(next, rr)
	for _, r := range s.Returns {
		if known, found := next[r.ID]; !found || r.compare(known) > 0 {
			next[r.ID] = r
		}
	}
	return next
}

// Step is the state of a receipt after a transition, and the return that the transition reports, if any.
type Step struct {
	Status   Status
	Refunded int64
	Return   Return
}

// Steps returns the transitions from old to r, between which the returns stored became latest. Each return that
// moves money has its own. A payment that becomes known after its refunds comes before them.
func (r Receipt) Steps(old Receipt, stored, latest ReturnRecords) (steps []Step) {
	if !r.Moved(old) {
		return nil
	}
	before, known := Step{Status: old.Status, Refunded: old.Refunded}, maps.Clone(stored)
	if old.Version == 0 {
		before, known = Step{Status: r.State}, nil
		steps = append(steps, before)
	}
	changed := slices.DeleteFunc(slices.Collect(maps.Values(latest)), func(w Return) bool { return w == known[w.ID] })
	slices.SortFunc(changed, func(a, b Return) int {
		return cmp.Or(compareBools(a.Kind == ReturnTotal, b.Kind == ReturnTotal), cmp.Compare(a.At, b.At), strings.Compare(a.ID, b.ID))
	})
	next := ReturnRecords{}
	maps.Copy(next, known)
	for _, w := range changed {
		next[w.ID] = w
		after := r
		after.derive(next)
		reversed := (after.Status == StatusReversed) != (before.Status == StatusReversed)
		if reversed || after.Refunded != before.Refunded {
			before = Step{after.Status, after.Refunded, w}
			steps = append(steps, before)
		}
	}
	if len(steps) == 0 { // it moved no money back
		steps = []Step{{Status: r.Status, Refunded: r.Refunded}}
	}
	return steps
}

// total returns the refunded and the disputed amount in atomic units.
func (rr ReturnRecords) total(asset string) (refunded, reversed int64) {
	var failed int64
	var stated Return
	for _, r := range rr {
		switch {
		case r.Foreign(asset):
		case r.Kind == ReturnReversal:
			switch {
			case !r.Gone:
			case r.Amount == 0 || r.Currency != "" && r.Currency != asset:
				reversed = math.MaxInt64
			default:
				reversed = saturatingAdd(reversed, r.Amount)
			}
		case r.Kind == ReturnTotal:
			if r.Gone && (stated.ID == "" || r.compare(stated) > 0) {
				stated = r
			}
		case r.Gone:
			refunded = saturatingAdd(refunded, r.Amount)
		default:
			failed = saturatingAdd(failed, r.Amount)
		}
	}
	return max(refunded, stated.Amount-failed), reversed
}

// captured returns when the payment was captured, in Unix seconds, or 0.
func (rr ReturnRecords) captured() (at int64) {
	for _, r := range rr {
		if r.Kind == ReturnCapture {
			at = max(at, r.At)
		}
	}
	return at
}

func saturatingAdd(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
