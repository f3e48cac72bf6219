package ledger

// ReturnKind says how money went back.
type ReturnKind string

// The kinds of returns.
const (
	// ReturnRefund is one refund. All that are gone add up.
	ReturnRefund ReturnKind = "refund"
	// ReturnTotal is the sum of all refunds as a provider states it. It counts
	// while no single refund of the payment is known.
	ReturnTotal ReturnKind = "refund_total"
	// ReturnReversal takes the whole payment back: a dispute, or an operator's
	// entry.
	ReturnReversal ReturnKind = "reversal"
)

// Return is what is known of one refund or dispute of a payment. The latest
// word on it holds, whatever the order in which words arrive.
type Return struct {
	// ID names it among the returns of the payment, as in "re_…" or "dp_…".
	ID   string
	Kind ReturnKind
	// Amount is what goes back, in the payment's atomic units; a reversal has
	// none.
	Amount int64
	// Gone says that the money is gone now: false before, and again after a
	// refund failed or a dispute was won.
	Gone bool
	// At is when the source said so, in Unix seconds. Of two words of the same
	// second the one with the higher Rank holds.
	At   int64
	Rank int
}
