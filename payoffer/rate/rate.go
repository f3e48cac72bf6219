// Package rate keeps the price of one bitcoin in US dollars: the median of what
// public price sources answer, asked every minute in the background.
//
// A price needs the answers of two sources, or of one if one is configured. More
// than half of the answers must lie within 2.5 % of their median, so two answers
// may differ by 5 %. Otherwise the sources disagree and the price before stays. A
// price may be used for 10 minutes; then there is none until the sources agree.
package rate

import (
	"math/big"
	"time"
)

const (
	// maxAge is how long a price may be used.
	maxAge = 10 * time.Minute
	// maxSatoshis is all bitcoin that can exist: 21 million BTC.
	maxSatoshis = 21_000_000 * satoshisPerBTC

	satoshisPerBTC  = 100_000_000
	microUSDPerUSD  = 1_000_000
	microUSDPerCent = microUSDPerUSD / 100
)

// Rate is a price of one bitcoin.
type Rate struct {
	MicroUSD int64     // in millionths of a US dollar, more than 0
	At       time.Time // when the sources were asked, without a monotonic reading
}

// Satoshis converts usdCents, in US cents, to the smallest whole number of
// satoshis that is worth at least as much at r. It returns 0, which must not be
// published, if an argument is not positive or the result exceeds all bitcoin.
func Satoshis(usdCents int64, r Rate) int64 {
	if usdCents <= 0 || r.MicroUSD <= 0 {
		return 0
	}
	worth := big.NewInt(usdCents)
	worth.Mul(worth, big.NewInt(microUSDPerCent*satoshisPerBTC))
	price := big.NewInt(r.MicroUSD)
	worth.Add(worth, price).Sub(worth, big.NewInt(1))
	sats := worth.Quo(worth, price)
	if !sats.IsInt64() || sats.Int64() > maxSatoshis {
		return 0
	}
	return sats.Int64()
}
