package book

// Counted is what an offer received, in US cents, less what was refunded.
type Counted struct {
	// Received is the money that counts, and External the part of it that is
	// not the operator's own. Test is money held on test networks that does not
	// count.
	Received, External, Test int64
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
		c.Partial = c.Partial || net.Partial
		if !t.Counts(testCounts) {
			c.Test += net.USDCents
			continue
		}
		c.Received += net.USDCents
		if !t.Own {
			c.External += net.USDCents
		}
	}
	return c
}

// Money is a number of receipts, what they amount to in atomic units, and its
// value in US cents.
type Money struct {
	Count, Amount, USDCents int64
	// Partial says that the value of some of it is not known.
	Partial bool
}

// Plus adds other.
func (m Money) Plus(other Money) Money {
	return Money{m.Count + other.Count, m.Amount + other.Amount, m.USDCents + other.USDCents, m.Partial || other.Partial}
}

// Net is what was paid and not refunded.
func (t Total) Net() Money {
	back := t.Returned()
	return Money{t.Count, t.Amount - back.Amount, t.USDCents - back.USDCents, t.UnknownUSD > 0 || back.Partial}
}

// Returned is what was refunded, in whole or in part. Only whole refunds are
// counted, for the sums do not tell how many went back in part.
func (t Total) Returned() Money {
	m := Money{Amount: t.Refunded, USDCents: t.RefundedCents, Partial: t.Refunded > 0 && t.RefundedCents == 0}
	if t.Status == StatusRefunded {
		m.Count = t.Count
	}
	return m
}
