package accounting

import (
	"cmp"
	"maps"
	"math"
	"strings"
)

// ReturnKind says how money went back.
type ReturnKind string

// The kinds of returns.
const (
	// ReturnRefund is one refund. All that are gone add up.
	ReturnRefund ReturnKind = "refund"
	// ReturnTotal is the sum of all refunds as a provider states it, those
	// included of which nothing else is told. Refunds that are known not to be
	// gone are taken off it, and it counts where it is more than those that are.
	ReturnTotal ReturnKind = "refund_total"
	// ReturnReversal takes the payment back, or its Amount of it: a dispute, or an
	// operator's entry.
	ReturnReversal ReturnKind = "reversal"
	// ReturnCapture is no return, and comes by the same way before or after its
	// payment: what was only authorised has been taken, at the time of the word.
	ReturnCapture ReturnKind = "capture"
)

// Return is what is known of one refund or dispute of a payment. The latest
// word on it holds, whatever the order in which words arrive.
type Return struct {
	// ID names it among the returns of the payment, as in "re_…" or "dp_…".
	ID   string
	Kind ReturnKind
	// Amount is what goes back, in the payment's atomic units; 0 of a reversal is
	// all of it.
	Amount int64
	// Currency is that of Amount, as in Receipt.Asset, where the source names one;
	// empty is the payment's own. A reversal in another one takes all of it, and a
	// refund in another one moves nothing: nobody says how much of it went back.
	Currency string
	// Gone says that the money is gone now: false before, and again after a
	// refund failed or a dispute was won.
	Gone bool
	// At is when the source said so, in Unix seconds. Of two words of the same
	// second the one with the higher Rank holds.
	At   int64
	Rank int
}

// Foreign reports whether it is a refund in another currency than the payment's, of
// an asset.
func (r Return) Foreign(asset string) bool {
	return r.Kind != ReturnReversal && r.Currency != "" && r.Currency != asset
}

// ToldRefunded is what the words on the refunds of a payment, of an asset, add up to,
// also where that is more than was paid.
func ToldRefunded(words []Return, asset string) (atomic int64) {
	var total int64
	for _, r := range words {
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

// problem says why the return cannot be stored; empty for none.
func (r Return) problem() string {
	switch {
	case r.ID == "":
		return "a return needs an id"
	case r.Kind != ReturnRefund && r.Kind != ReturnTotal && r.Kind != ReturnReversal && r.Kind != ReturnCapture:
		return "a return is a refund, a refund_total, a reversal or a capture"
	case r.Kind == ReturnCapture && (r.Gone || r.Amount != 0):
		return "a capture takes nothing back"
	case r.Amount < 0:
		return "negative amount of a return"
	case !Storable(r.ID, r.Currency):
		return "a text of a return is not UTF-8 or holds U+0000"
	default:
		return ""
	}
}

// compareBools puts false before true.
func compareBools(a, b bool) int {
	if a == b {
		return 0
	} else if b {
		return -1
	}
	return 1
}

// compare orders all words on one return, so that the greatest of them does
// not depend on the order in which they come.
func (r Return) compare(other Return) int {
	return cmp.Or(
		cmp.Compare(r.At, other.At), cmp.Compare(r.Rank, other.Rank), compareBools(r.Gone, other.Gone),
		cmp.Compare(r.Amount, other.Amount), strings.Compare(string(r.Kind), string(other.Kind)), strings.Compare(r.Currency, other.Currency))
}

// Words are the latest words on the returns of one payment, by their ids.
type Words map[string]Return

// join returns the words that hold after a sighting, and leaves w as it is.
func (w Words) join(s Sighting) Words {
	if len(s.Returns) == 0 {
		return w
	}
	next := make(Words, len(w)+len(s.Returns))
	maps.Copy(next, w)
	for _, r := range s.Returns {
		if known, found := next[r.ID]; !found || r.compare(known) > 0 {
			next[r.ID] = r
		}
	}
	return next
}

// total is what went back and what was taken back of an asset, in atomic units.
func (w Words) total(asset string) (refunded, reversed int64) {
	var kept int64
	var stated Return
	for _, told := range w {
		switch {
		case told.Foreign(asset):
		case told.Kind == ReturnReversal:
			switch {
			case !told.Gone:
			case told.Amount == 0 || told.Currency != "" && told.Currency != asset:
				reversed = math.MaxInt64
			default:
				reversed = saturatingAdd(reversed, told.Amount)
			}
		case told.Kind == ReturnTotal:
			if told.Gone && (stated.ID == "" || told.compare(stated) > 0) {
				stated = told
			}
		case told.Gone:
			refunded = saturatingAdd(refunded, told.Amount)
		default:
			kept = saturatingAdd(kept, told.Amount)
		}
	}
	return max(refunded, stated.Amount-kept), reversed
}

// captured is when the payment was captured, in Unix seconds; 0 where nothing
// says so.
func (w Words) captured() (at int64) {
	for _, told := range w {
		if told.Kind == ReturnCapture {
			at = max(at, told.At)
		}
	}
	return at
}

// saturatingAdd adds two amounts, neither negative, up to 2^63-1.
func saturatingAdd(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
