// Package rate keeps the price of one bitcoin in US dollars: the median of
// several public price sources, fetched in the background, so that whoever
// needs an amount reads it without waiting and never reads an old one. The same
// sources tell what it was in a past hour.
package rate

import (
	"math/big"
	"time"
)

const (
	// maxAge is how long a rate may be used after it was fetched.
	maxAge = 10 * time.Minute

	// clockSkew is how far a rate may lie in the future before it counts as
	// unusable: a clock that was set back must not keep an old rate alive.
	clockSkew = time.Minute

	// maxSatoshis is every satoshi that can exist: 21 million BTC.
	maxSatoshis = 21_000_000 * satoshisPerBTC

	satoshisPerBTC  = 100_000_000
	microUSDPerUSD  = 1_000_000
	microUSDPerCent = microUSDPerUSD / 100
)

// Rate is a price of one bitcoin, with its age and its origin.
type Rate struct {
	MicroUSD int64     // the price of one bitcoin in millionths of a US dollar, more than 0
	At       time.Time // when the sources were asked for it, without a monotonic reading
	// Sources names, in alphabetical order, the sources that agreed and whose
	// median the price is. A single name means that only one source is configured.
	Sources []string
}

// fresh reports whether r may be used at now.
func (r Rate) fresh(now time.Time) bool {
	age := now.Sub(r.At)
	return -clockSkew <= age && age <= maxAge
}

// Satoshis converts usdCents, in US cents, to the smallest whole number of
// satoshis that is worth at least as much at r: the exact quotient, rounded up.
// It returns 0, which is no amount and must not be published, if usdCents or
// r.MicroUSD is not positive or the result exceeds the 21 million BTC that can exist.
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
