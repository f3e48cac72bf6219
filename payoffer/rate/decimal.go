package rate

import (
	"encoding/json"
	"strconv"
	"strings"
)

const (
	// A price outside of these bounds, in micro USD, is a mistake of its
	// source: 100 USD and 100 million USD for one bitcoin.
	minPrice = 100 * microUSDPerUSD
	maxPrice = 100_000_000 * microUSDPerUSD

	maxWholeDigits    = 9
	maxFractionDigits = 18
	microDigits       = 6
)

// parsePrice reads a plain decimal number of US dollars and returns micro USD.
// Digits after the sixth are cut off: a lower price asks for more satoshis,
// so the payee never gets less than the price. Exponents are refused, for no
// source writes them and a short one can stand for a number of any size.
func parsePrice(n json.Number) (int64, reason) {
	whole, fraction, hasPoint := strings.Cut(n.String(), ".")
	if !isDigits(whole, maxWholeDigits) || hasPoint && !isDigits(fraction, maxFractionDigits) {
		if isDigits(strings.TrimPrefix(whole, "-"), maxFractionDigits) {
			return 0, reasonAbsurd
		}
		return 0, reasonMalformed
	}
	fraction = (fraction + "000000")[:microDigits]
	price, err := strconv.ParseInt(whole+fraction, 10, 64)
	if err != nil {
		return 0, reasonMalformed
	}
	if price < minPrice || price > maxPrice {
		return 0, reasonAbsurd
	}
	return price, ""
}

// isDigits reports whether s is one to limit ASCII digits.
func isDigits(s string, limit int) bool {
	return s != "" && len(s) <= limit && strings.Trim(s, "0123456789") == ""
}
