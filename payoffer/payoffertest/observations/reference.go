package observations

import (
	"cmp"
	"slices"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

// Facts are what the reference model computes.
type Facts struct {
	Status           accounting.Status
	Level            accounting.EvidenceLevel
	Asset            string
	Amount, Refunded int64
	USD              *int64
	Basis            accounting.ValueBasis
	RefundedCents    int64
	Final            bool
	Revision         int64
	Nonce            string
}

// FactsOf are those of a receipt.
func FactsOf(r accounting.Receipt) Facts {
	return Facts{
		r.Status, r.EvidenceLevel, r.Asset, r.Amount, r.Refunded, r.USDCents, r.ValueBasis, r.RefundedCents, r.Final, r.Revision, r.Nonce,
	}
}

// Reference looks at the whole history at once, where accounting.Merge goes step by step.
func Reference(history []accounting.Observation) (f Facts) {
	payments := slices.DeleteFunc(slices.Clone(history), func(s accounting.Observation) bool { return s.Addendum })
	if len(payments) == 0 {
		return f
	}
	on := func(levels ...accounting.EvidenceLevel) (told []accounting.Observation) {
		for _, s := range payments {
			if slices.Contains(levels, s.EvidenceLevel) {
				told = append(told, s)
			}
		}
		return told
	}
	var state accounting.Status
	if told := on(accounting.LevelChain); len(told) > 0 {
		state = f.ofChain(told)
	} else {
		for _, levels := range [][]accounting.EvidenceLevel{{accounting.LevelSigned, accounting.LevelProvider}, {accounting.LevelManual}} {
			if told = on(levels...); len(told) > 0 {
				break
			}
		}
		state = f.ofOthers(told)
	}
	first := slices.IndexFunc(history, func(s accounting.Observation) bool { return !s.Addendum })
	f.state(history[first:]) // nobody can value what is not known
	refunded, disputed, whole := referenceReturns(history, f.Asset)
	if f.Refunded = refunded; f.Amount > 0 && refunded > f.Amount {
		f.Refunded = f.Amount
	}
	reversed := whole || disputed > 0 && f.Refunded+disputed >= f.Amount
	if !reversed {
		f.Refunded += disputed
	}
	f.Status = state
	if never := state == accounting.StatusDropped || state == accounting.StatusMoved; !never && reversed {
		f.Status = accounting.StatusReversed
	} else if !never && f.Amount > 0 && f.Refunded >= f.Amount {
		f.Status = accounting.StatusRefunded
	}
	if f.USD != nil && f.Amount > 0 {
		f.RefundedCents = *f.USD * f.Refunded / f.Amount
	}
	return f
}

// state takes the last value that the operator states where no source knows one.
func (f *Facts) state(history []accounting.Observation) {
	if f.USD != nil {
		return
	}
	var last *accounting.StatedValue
	for _, s := range history {
		if v := s.Stated; v != nil && (last == nil || v.At > last.At || v.At == last.At && v.USDCents > last.USDCents) {
			last = v
		}
	}
	if last != nil {
		f.USD, f.Basis = &last.USDCents, accounting.BasisStated
	}
}

// ofChain takes the first final word, or else the last.
func (f *Facts) ofChain(told []accounting.Observation) accounting.Status {
	last := slices.IndexFunc(told, func(s accounting.Observation) bool { return s.Final })
	if last < 0 {
		last = len(told) - 1
	}
	f.Level, f.Asset, f.Amount, f.Final = accounting.LevelChain, told[last].Asset, told[last].Amount, told[last].Final
	run := last
	for run > 0 && told[run-1].Amount == f.Amount {
		run--
	}
	for i, s := range told[run:] {
		fixed := i > 0 && told[run+i-1].State == accounting.StatusConfirmed || run+i > last
		if s.Amount == f.Amount && (f.USD == nil || !fixed) {
			f.USD, f.Basis = s.USDCents, s.ValueBasis
		}
	}
	for _, s := range slices.Backward(told[:last+1]) {
		f.Nonce = cmp.Or(f.Nonce, s.Nonce)
	}
	for _, s := range told[last+1:] {
		f.Nonce = cmp.Or(f.Nonce, s.Nonce)
	}
	return told[last].State
}

// ofOthers takes the most that those of the highest revision say.
func (f *Facts) ofOthers(told []accounting.Observation) (state accounting.Status) {
	for _, s := range told {
		f.Revision = max(f.Revision, s.Revision)
	}
	told = slices.DeleteFunc(slices.Clone(told), func(s accounting.Observation) bool { return s.Revision < f.Revision })
	for _, want := range []accounting.Status{accounting.StatusSeen, accounting.StatusDropped, accounting.StatusConfirmed} {
		for _, level := range []accounting.EvidenceLevel{accounting.LevelSigned, accounting.LevelProvider, accounting.LevelManual} {
			if slices.ContainsFunc(told, func(s accounting.Observation) bool { return s.State == want && s.EvidenceLevel == level }) {
				state, f.Level = want, level
			}
		}
	}
	for _, s := range told {
		f.Asset, f.Amount, f.Final = max(f.Asset, s.Asset), max(f.Amount, s.Amount), f.Final || s.Final
		if s.USDCents != nil && (f.USD == nil || *s.USDCents > *f.USD) {
			f.USD = s.USDCents
		}
	}
	for _, s := range told {
		if f.USD != nil && s.USDCents != nil && *s.USDCents == *f.USD {
			f.Basis = max(f.Basis, s.ValueBasis)
		}
	}
	return state
}

// referenceReturns asks of each word on a return whether a later one undoes it.
// whole says that one takes all of the payment back.
func referenceReturns(history []accounting.Observation, asset string) (refunded, disputed int64, whole bool) {
	var all []accounting.Return
	for _, s := range history {
		all = append(all, s.Returns...)
	}
	later := func(a, b accounting.Return) bool {
		switch {
		case a.At != b.At:
			return a.At > b.At
		case a.Rank != b.Rank:
			return a.Rank > b.Rank
		case a.Gone != b.Gone:
			return a.Gone
		case a.Amount != b.Amount:
			return a.Amount > b.Amount
		case a.Kind != b.Kind:
			return a.Kind > b.Kind
		default:
			return a.Currency > b.Currency
		}
	}
	held := map[string]accounting.Return{}
	var total *accounting.Return
	var kept int64
	for _, a := range all {
		if slices.ContainsFunc(all, func(b accounting.Return) bool { return a.ID == b.ID && later(b, a) }) {
			continue
		}
		if a.Kind != accounting.ReturnReversal && a.Currency != "" && a.Currency != asset {
			continue // nobody says how much of the payment that was
		}
		held[a.ID] = a
		if a.Kind == accounting.ReturnTotal && a.Gone && (total == nil || later(a, *total)) {
			total = &a
		}
	}
	for _, r := range held {
		if r.Kind == accounting.ReturnReversal && r.Gone {
			disputed, whole = disputed+r.Amount, whole || r.Amount == 0 || r.Currency != "" && r.Currency != asset
		}
		if r.Kind == accounting.ReturnRefund && r.Gone {
			refunded += r.Amount
		}
		if r.Kind == accounting.ReturnRefund && !r.Gone {
			kept += r.Amount
		}
	}
	if total != nil && total.Amount > kept+refunded {
		refunded = total.Amount - kept
	}
	return refunded, disputed, whole
}
