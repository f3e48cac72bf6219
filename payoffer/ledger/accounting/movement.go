package accounting

import (
	"cmp"
	"math/bits"
)

// MovementKind is the kind of a movement.
type MovementKind string

// The kinds of movements. Amounts are positive for money that came, and negative for money
// that was refunded or disputed.
const (
	MovementPayment        MovementKind = "payment"
	MovementCorrection     MovementKind = "correction"      // of the amount of the payment
	MovementValuation      MovementKind = "valuation"       // of its value in dollars
	MovementRefund         MovementKind = "refund"          // of a part or all
	MovementReversal       MovementKind = "reversal"        // a dispute or void, of a part or all
	MovementDropped        MovementKind = "dropped"         // the payment failed after it had arrived
	MovementRefundUndone   MovementKind = "refund_undone"   // the refund failed
	MovementReversalUndone MovementKind = "reversal_undone" // the dispute was won, or the void undone
)

// Moment is the state of a receipt after one of its transitions.
type Moment struct {
	Facts
	Version, RecordedAt int64      // of the transition
	Reason              string     // of the operator
	At                  int64      // when the money of the return moved, or else RecordedAt, in Unix seconds
	Return              string     // the ID of the return, if the transition is one
	ReturnKind          ReturnKind // the kind of that return
}

// Movement is an entry for bookkeeping. It has its own date, so that a refund of March does
// not change January.
type Movement struct {
	Kind     MovementKind
	At       int64  // in Unix seconds
	Amount   int64  // in atomic units
	USDCents *int64 // its value in US cents; nil while unknown
	Return   string // the ID of the return, if it is one
	Arrived  bool   // false for the only line of a payment that never arrived

	// Version of the receipt and Part, from 1 on, name the movement for good.
	Version, Part int64
	RecordedAt    int64  // when it was recorded, or its value or payer last changed
	Reason        string // of the operator
}

// Movements returns the movements of a receipt from the history of its transitions. The
// sum of those with Arrived is what is left of the payment: 0 unless it is confirmed. A value
// that became known later is used from the start. Dates stay, except that of a payment on a
// chain, which follows its block.
func Movements(r Receipt, history []Moment) (lines []Movement) {
	var before paymentState
	var last Moment
	cents, recorded, paid := values(r, history), recordedAt(history), -1
	for i, m := range history {
		next := stateAfter(m, cents[i])
		// An entry that was voided and entered again with another date moves its money then.
		redated := before.reversed && !next.reversed && m.OccurredAt != last.OccurredAt
		for part, line := range before.movementsTo(next, m.At) {
			line.Version, line.Part, line.RecordedAt, line.Reason = m.Version, int64(part+1), recorded[i], m.Reason
			if line.Kind == MovementPayment || redated {
				line.At = cmp.Or(m.OccurredAt, line.At)
			}
			if line.Kind == MovementPayment {
				paid = len(lines)
			}
			if disputed, isReturn := disputeKinds[line.Kind]; isReturn {
				line.Return = m.Return
				if m.ReturnKind == ReturnReversal {
					line.Kind = disputed
				}
			}
			lines = append(lines, line)
		}
		before, last = next, m
	}
	if len(lines) == 0 {
		return []Movement{{Kind: MovementPayment, At: r.OccurredAt, Amount: r.Amount, USDCents: r.USDCents,
			Version: 1, Part: 1, RecordedAt: last.RecordedAt, Reason: last.Reason}}
	}
	if paid >= 0 && r.EvidenceLevel == LevelChain {
		lines[paid].At = r.OccurredAt
	}
	return lines
}

// recordedAt returns when each moment was recorded, or a later one changed what is said of it:
// a value became known, or whose payment it is.
func recordedAt(history []Moment) []int64 {
	recorded, changed := make([]int64, len(history)), int64(0)
	for i := len(history) - 1; i >= 0; i-- {
		m := history[i]
		recorded[i] = max(m.RecordedAt, changed)
		if i > 0 && (m.Own != history[i-1].Own || m.USDCents != nil && history[i-1].USDCents == nil) {
			changed = recorded[i]
		}
	}
	return recorded
}

// disputeKinds maps the kinds of refunds to those of disputes.
var disputeKinds = map[MovementKind]MovementKind{
	MovementRefund: MovementReversal, MovementReversal: MovementReversal,
	MovementRefundUndone: MovementReversalUndone, MovementReversalUndone: MovementReversalUndone,
}

// values returns the value of the receipt at each moment, nil while unknown.
func values(r Receipt, history []Moment) []*int64 {
	cents := make([]*int64, len(history))
	if r.USDCents == nil {
		return cents
	}
	var later *int64
	for i := len(history) - 1; i >= 0; i-- {
		if m := history[i]; m.USDCents != nil {
			later = m.USDCents
		} else if later != nil && m.Amount != history[i+1].Amount {
			later = nil
		}
		cents[i] = later
	}
	for i := 1; i < len(cents); i++ {
		if cents[i] == nil {
			cents[i] = cents[i-1]
		}
	}
	return cents
}

// paymentState is the state of a payment: gross is the amount that arrived, and back the
// amount of it that was refunded or disputed.
type paymentState struct {
	arrived, reversed, valued                  bool
	gross, returned, grossCents, returnedCents int64
}

func stateAfter(m Moment, cents *int64) paymentState {
	s := paymentState{arrived: true, reversed: m.Status == StatusReversed, gross: m.Amount, returned: min(m.Refunded, m.Amount)}
	if cents != nil {
		s.valued, s.grossCents, s.returnedCents = true, *cents, proportion(*cents, s.returned, s.gross)
	}
	switch m.Status {
	case StatusConfirmed:
		return s
	case StatusRefunded, StatusReversed:
		s.returned, s.returnedCents = s.gross, s.grossCents
		return s
	default:
		return paymentState{}
	}
}

// movementsTo returns the movements from s to next.
func (p paymentState) movementsTo(next paymentState, at int64) (lines []Movement) {
	add := func(kind MovementKind, amount, cents int64) {
		line := Movement{Kind: kind, At: at, Amount: amount, Arrived: true}
		if p.valued || next.valued {
			line.USDCents = &cents
		}
		lines = append(lines, line)
	}
	gross, back := next.gross-p.gross, next.returned-p.returned
	grossCents, backCents := next.grossCents-p.grossCents, next.returnedCents-p.returnedCents
	switch {
	case !next.arrived && p.arrived:
		add(MovementDropped, gross-back, grossCents-backCents)
		return lines
	case !next.arrived:
		return nil
	case back == 0:
		grossCents, backCents = grossCents-backCents, 0
	}
	switch {
	case !p.arrived:
		add(MovementPayment, gross, grossCents)
	case gross != 0:
		add(MovementCorrection, gross, grossCents)
	case back == 0 && grossCents != 0:
		add(MovementValuation, 0, grossCents)
	case back != 0:
		backCents -= grossCents
	}
	if back != 0 {
		add(p.returnKind(next), -back, -backCents)
	}
	return lines
}

func (p paymentState) returnKind(next paymentState) MovementKind {
	switch {
	case next.reversed && !p.reversed:
		return MovementReversal
	case p.reversed && next.returned < p.returned:
		return MovementReversalUndone
	case next.returned < p.returned:
		return MovementRefundUndone
	default:
		return MovementRefund
	}
}

// proportion returns cents × part / amount in 128 bits, rounded down, or 0 without an amount.
func proportion(cents, part, amount int64) int64 {
	if amount <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(cents), uint64(part))
	quotient, _ := bits.Div64(hi, lo, uint64(amount))
	return int64(quotient)
}
