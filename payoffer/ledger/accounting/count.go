package accounting

import (
	"cmp"
	"slices"
	"strings"
)

// Place says which sum money stands in.
type Place struct {
	// Offer, Account and Rail are those of the receipts.
	Offer, Account, Rail string
	// Currency is that of the money where it is another than the account's own,
	// as in "EUR"; no sum holds two. Empty for the account's own.
	Currency string
	// Standing is a receipt's. Of x402 intents without a receipt Status is
	// StatusSettling or StatusClaimed, without an evidence level.
	Standing
}

// Compare orders places.
func (p Place) Compare(other Place) int {
	return cmp.Or(
		strings.Compare(p.Offer, other.Offer), strings.Compare(p.Account, other.Account), strings.Compare(p.Rail, other.Rail),
		strings.Compare(p.Currency, other.Currency), cmp.Compare(p.Status, other.Status), cmp.Compare(p.EvidenceLevel, other.EvidenceLevel),
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

// Large reports whether it overflows, or is so near to it that a few others who add to
// it at the same time could make it.
func (s Sum) Large() bool {
	return s.Overflows() || max(s.Amount, s.Refunded, s.USDCents, s.RefundedCents) > 1<<61
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

// TestCounts reports whether the test money of chains counts, as Standing.Counts
// asks. testOffer says that all chain rails of the offer are on test networks.
// From the first real money on, by whatever rail, test money is apart: no sum
// ever holds both.
func TestCounts(totals []Total, testOffer bool) bool {
	return testOffer && !slices.ContainsFunc(totals, func(t Total) bool { return t.Arrived() && !t.Testnet })
}

// Counted is what was received, in US cents, less what was refunded.
type Counted struct {
	// Received is the money that counts, and External the part of it that is
	// not the operator's own. Test is money held on test networks that does not
	// count.
	Received, External, Test int64
	// Payments and ExternalPayments are how many payments Received and External
	// are of.
	Payments, ExternalPayments int64
	// Partial says that the value of some of it is not known.
	Partial bool
}

// Count adds up what was received. testCounts is as for Standing.Counts.
func Count(totals []Total, testCounts bool) (c Counted) {
	for _, t := range totals {
		if !t.Held() {
			continue
		}
		net := t.Net()
		c.Partial = c.Partial || net.UnknownUSD > 0
		if !t.Counts(testCounts) {
			c.Test += net.USDCents
			continue
		}
		c.Received, c.Payments = c.Received+net.USDCents, c.Payments+net.Count
		if !t.Own {
			c.External, c.ExternalPayments = c.External+net.USDCents, c.ExternalPayments+net.Count
		}
	}
	return c
}

// Money is a number of payments, what they amount to in atomic units of one
// currency, and their value in US cents.
type Money struct {
	Count, Amount, USDCents int64
	// UnknownUSD is how many payments USDCents leaves out, for nobody knows what
	// they are worth.
	UnknownUSD int64
}

// Plus adds other.
func (m Money) Plus(other Money) Money {
	return Money{m.Count + other.Count, m.Amount + other.Amount, m.USDCents + other.USDCents, m.UnknownUSD + other.UnknownUSD}
}

// Net is what was paid and not refunded. A payment that was refunded in whole is
// counted with what went back.
func (t Total) Net() Money {
	net := Money{t.Count, t.Amount - t.Refunded, t.USDCents - t.RefundedCents, t.UnknownUSD}
	if t.Status == StatusRefunded {
		net.Count, net.UnknownUSD = 0, 0
	}
	return net
}

// Returned is what was refunded, in whole or in part. The sums do not tell how
// many payments went back in part: these are not counted, and UnknownUSD may be
// too high where there are any.
func (t Total) Returned() Money {
	back := Money{Amount: t.Refunded, USDCents: t.RefundedCents}
	if t.Refunded > 0 {
		back.UnknownUSD = t.UnknownUSD
	}
	if t.Status == StatusRefunded {
		back.Count = t.Count
	}
	return back
}
