package accounting

import (
	"cmp"
	"slices"
	"strings"
)

// BalanceKey is the key of a sum.
type BalanceKey struct {
	Offer, Account, Rail string
	Currency             string // such as "EUR", if it is not that of the account
	// Classification of x402 intents without a receipt has StatusSettling or StatusClaimed and no
	// evidence level.
	Classification
}

// Compare orders keys.
func (b BalanceKey) Compare(other BalanceKey) int {
	return cmp.Or(
		strings.Compare(b.Offer, other.Offer), strings.Compare(b.Account, other.Account), strings.Compare(b.Rail, other.Rail),
		strings.Compare(b.Currency, other.Currency), cmp.Compare(b.Status, other.Status), cmp.Compare(b.EvidenceLevel, other.EvidenceLevel),
		compareBools(b.Own, other.Own), compareBools(b.Testnet, other.Testnet))
}

// Sum adds up receipts or intents.
type Sum struct {
	Count            int64
	Amount, Refunded int64 // in atomic units
	// USDCents and RefundedCents are the known values in US cents. UnknownUSD is the number
	// of payments without a known value.
	USDCents, RefundedCents, UnknownUSD int64
}

// NewSum returns the sum of one payment.
func NewSum(amount int64, usdCents *int64) Sum {
	s := Sum{Count: 1, Amount: amount}
	if usdCents == nil {
		s.UnknownUSD = 1
	} else {
		s.USDCents = *usdCents
	}
	return s
}

// Plus returns s + sign × b.
func (s Sum) Plus(b Sum, sign int64) Sum {
	return Sum{
		s.Count + sign*b.Count, s.Amount + sign*b.Amount, s.Refunded + sign*b.Refunded,
		s.USDCents + sign*b.USDCents, s.RefundedCents + sign*b.RefundedCents, s.UnknownUSD + sign*b.UnknownUSD,
	}
}

// Overflows reports whether a sum has exceeded 2^63-1 and so became negative.
func (s Sum) Overflows() bool {
	return s.Amount < 0 || s.Refunded < 0 || s.USDCents < 0 || s.RefundedCents < 0
}

// Total is a sum with its key.
type Total struct {
	BalanceKey
	Sum
}

// Sums are sums, or changes of them.
type Sums map[BalanceKey]Sum

// Change subtracts old, adds next, and returns the sums.
func (s Sums) Change(old, next Total) Sums {
	s[old.BalanceKey] = s[old.BalanceKey].Plus(old.Sum, -1)
	s[next.BalanceKey] = s[next.BalanceKey].Plus(next.Sum, 1)
	return s
}

// TestCounts reports whether the test money of chains counts. testOffer says that all chain
// rails of the offer are on test networks. After the first real money of any rail, test
// money does not count.
func TestCounts(totals []Total, testOffer bool) bool {
	return testOffer && !slices.ContainsFunc(totals, func(t Total) bool { return t.Arrived() && !t.Testnet })
}

// Counted is the money received without refunds, in US cents.
type Counted struct {
	Received, External         int64 // the money that counts, and the customer payments in it
	Test                       int64 // of test networks, not counted
	Payments, ExternalPayments int64 // the numbers of payments in Received and External
	Partial                    bool  // some values are unknown
}

// Count adds up the money received. testCounts is as for Classification.Counts.
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

// Money is a number of payments, their amount in atomic units of one currency, and their
// value in US cents, without UnknownUSD payments whose value is unknown.
type Money struct{ Count, Amount, USDCents, UnknownUSD int64 }

// Plus returns the sum.
func (m Money) Plus(other Money) Money {
	return Money{m.Count + other.Count, m.Amount + other.Amount, m.USDCents + other.USDCents, m.UnknownUSD + other.UnknownUSD}
}

// Net returns the money that was paid and not refunded. Payments refunded in full are not counted.
func (t Total) Net() Money {
	net := Money{t.Count, t.Amount - t.Refunded, t.USDCents - t.RefundedCents, t.UnknownUSD}
	if t.Status == StatusRefunded {
		net.Count, net.UnknownUSD = 0, 0
	}
	return net
}

// Returned returns the refunded money. It counts only payments refunded in full, and
// UnknownUSD may be too high if others were refunded in part.
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
