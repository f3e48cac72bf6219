package book

import (
	"cmp"
	"strings"
)

// Place says which sum money stands in.
type Place struct {
	// Offer, Account and Rail are those of the receipts.
	Offer, Account, Rail string
	// Standing is a receipt's. Of x402 intents without a receipt Status is
	// StatusSettling, without an evidence level, or StatusClaimed with
	// LevelAsserted.
	Standing
}

// Compare orders places.
func (p Place) Compare(other Place) int {
	return cmp.Or(
		strings.Compare(p.Offer, other.Offer), strings.Compare(p.Account, other.Account), strings.Compare(p.Rail, other.Rail),
		cmp.Compare(p.Status, other.Status), cmp.Compare(p.EvidenceLevel, other.EvidenceLevel),
		compareBools(p.Own, other.Own), compareBools(p.Testnet, other.Testnet))
}

// Sum adds up receipts or intents.
type Sum struct {
	// Count is how many there are.
	Count int64
	// Amount is what was paid and Refunded what of it went back, in atomic
	// units.
	Amount, Refunded int64
	// USDCents and RefundedCents are the same in US cents, over those whose
	// value is known; UnknownUSD counts the others.
	USDCents, RefundedCents, UnknownUSD int64
}

// NewSum is one payment, in atomic units and in US cents, which are nil while
// its value is unknown.
func NewSum(amount int64, usdCents *int64) Sum {
	s := Sum{Count: 1, Amount: amount}
	if usdCents == nil {
		s.UnknownUSD = 1
	} else {
		s.USDCents = *usdCents
	}
	return s
}

// Plus adds sign times b.
func (s Sum) Plus(b Sum, sign int64) Sum {
	return Sum{
		s.Count + sign*b.Count, s.Amount + sign*b.Amount, s.Refunded + sign*b.Refunded,
		s.USDCents + sign*b.USDCents, s.RefundedCents + sign*b.RefundedCents, s.UnknownUSD + sign*b.UnknownUSD,
	}
}

// Overflows reports whether a sum that was added to has passed 2^63-1. Its true
// value is below 2^64, so that only one past the limit reads as negative.
func (s Sum) Overflows() bool {
	return s.Amount < 0 || s.Refunded < 0 || s.USDCents < 0 || s.RefundedCents < 0
}

// Total is the sum of everything in one place; the zero Total is none.
type Total struct {
	Place
	Sum
}

// Sums are sums, or what is to be added to them.
type Sums map[Place]Sum

// Change takes old out of the sums, puts next in, and returns the sums.
func (s Sums) Change(old, next Total) Sums {
	s[old.Place] = s[old.Place].Plus(old.Sum, -1)
	s[next.Place] = s[next.Place].Plus(next.Sum, 1)
	return s
}

// compareBools puts false before true.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
