package accounting

import (
	"cmp"
	"math/bits"
)

// MovementKind says what a line of the books is.
type MovementKind string

// The kinds of movements. Amounts are positive for money that came, and negative
// for money that went back.
const (
	MovementPayment    MovementKind = "payment"
	MovementCorrection MovementKind = "correction" // the payment was of another amount than was known before
	MovementValuation  MovementKind = "valuation"  // its value in dollars was corrected, no money moved
	MovementRefund     MovementKind = "refund"     // a part went back, or all
	MovementReversal   MovementKind = "reversal"   // a part was taken back, or all: by a dispute or by the operator
	MovementDropped    MovementKind = "dropped"    // the payment turned out to be none
	// A refund that failed or a dispute that was won.
	MovementRefundUndone   MovementKind = "refund_undone"
	MovementReversalUndone MovementKind = "reversal_undone"
)

// Moment is what a receipt amounted to after one of its transitions. At is when the
// money went back that it tells of, and where that is not said when it was recorded,
// in Unix seconds.
type Moment struct {
	Status           Status
	Amount, Refunded int64
	USDCents         *int64
	At               int64
	// Return is the id of the return that was told of, or empty, and ReturnKind
	// how its money went back.
	Return     string
	ReturnKind ReturnKind
}

// Movement is money that came or went back, as a bookkeeper writes it: with a date
// of its own, so that a refund of March does not change January.
type Movement struct {
	Kind MovementKind
	// At is when the money of a payment moved, and otherwise the moment's, in Unix
	// seconds.
	At int64
	// Amount is in atomic units. USDCents is its value in US cents; nil while
	// unknown.
	Amount   int64
	USDCents *int64
	// Return is the id of the return that moved it; empty for a payment.
	Return string
	// Arrived is false for the one line of a payment that never was money
	// received: it was seen only, dropped, or moved within the account.
	Arrived bool
}

// Movements are the lines of a receipt with the history of all its transitions.
// Those that arrived add up to what is left of it, in atomic units and in US cents:
// nothing unless it is confirmed. A value that became known later was the payment's
// from the start.
func Movements(r Receipt, history []Moment) (lines []Movement) {
	var before standing
	cents := values(r, history)
	for i, m := range history {
		next := standingAfter(m, cents[i])
		for _, line := range before.turn(next, m.At) {
			if line.returns() {
				line.Return = m.Return
				if m.ReturnKind == ReturnReversal {
					line.Kind = takenBack[line.Kind]
				}
			}
			lines = append(lines, line)
		}
		before = next
	}
	for i := range lines {
		if lines[i].Kind == MovementPayment {
			lines[i].At = cmp.Or(r.OccurredAt, lines[i].At)
			break // one that came back after it was dropped did so when that was recorded
		}
	}
	if len(lines) == 0 {
		return []Movement{{Kind: MovementPayment, At: r.OccurredAt, Amount: r.Amount, USDCents: r.USDCents}}
	}
	return lines
}

// takenBack are the kinds of what a dispute took, of a part too.
var takenBack = map[MovementKind]MovementKind{
	MovementRefund: MovementReversal, MovementReversal: MovementReversal,
	MovementRefundUndone: MovementReversalUndone, MovementReversalUndone: MovementReversalUndone,
}

// returns reports whether the movement is of what went back, or came back from there.
func (m Movement) returns() bool {
	switch m.Kind {
	case MovementRefund, MovementRefundUndone, MovementReversal, MovementReversalUndone:
		return true
	default:
		return false
	}
}

// values are what the receipt was worth at each moment, nil while unknown.
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

// standing is what came of a payment and what of it went back, with the values of
// both in US cents.
type standing struct {
	arrived, reversed, valued          bool
	gross, back, grossCents, backCents int64
}

func standingAfter(m Moment, cents *int64) standing {
	s := standing{arrived: true, reversed: m.Status == StatusReversed, gross: m.Amount, back: min(m.Refunded, m.Amount)}
	if cents != nil {
		s.valued, s.grossCents, s.backCents = true, *cents, share(*cents, s.back, s.gross)
	}
	switch m.Status {
	case StatusConfirmed:
		return s
	case StatusRefunded, StatusReversed:
		s.back, s.backCents = s.gross, s.grossCents
		return s
	default:
		return standing{}
	}
}

// turn are the lines that lead from s to next.
func (s standing) turn(next standing, at int64) (lines []Movement) {
	add := func(kind MovementKind, amount, cents int64) {
		line := Movement{Kind: kind, At: at, Amount: amount, Arrived: true}
		if s.valued || next.valued {
			line.USDCents = &cents
		}
		lines = append(lines, line)
	}
	gross, back := next.gross-s.gross, next.back-s.back
	grossCents, backCents := next.grossCents-s.grossCents, next.backCents-s.backCents
	switch {
	case !next.arrived && s.arrived:
		add(MovementDropped, gross-back, grossCents-backCents)
		return lines
	case !next.arrived:
		return nil
	case back == 0:
		grossCents, backCents = grossCents-backCents, 0
	}
	switch {
	case !s.arrived:
		add(MovementPayment, gross, grossCents)
	case gross != 0:
		add(MovementCorrection, gross, grossCents)
	case back == 0 && grossCents != 0:
		add(MovementValuation, 0, grossCents)
	case back != 0:
		backCents -= grossCents
	}
	if back != 0 {
		add(s.returnTo(next), -back, -backCents)
	}
	return lines
}

// returnTo says how what went back has changed.
func (s standing) returnTo(next standing) MovementKind {
	switch {
	case next.reversed && !s.reversed:
		return MovementReversal
	case s.reversed && next.back < s.back:
		return MovementReversalUndone
	case next.back < s.back:
		return MovementRefundUndone
	default:
		return MovementRefund
	}
}

// share is the value of a part of an amount, rounded down: cents × part / amount, in
// 128 bits. The part is at most the amount; 0 where that is nothing.
func share(cents, part, amount int64) int64 {
	if amount <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(cents), uint64(part))
	quotient, _ := bits.Div64(hi, lo, uint64(amount))
	return int64(quotient)
}
