package offer

import "strings"

// Unit is how amounts of an asset are written.
type Unit struct {
	// Symbol follows the number: "USD", "USDC" or "BTC".
	Symbol string
	// Digits is the number of digits after the point.
	Digits int
}

// currencyDigits are the currencies whose smallest unit is not a hundredth for card
// processors. They count ISK and UGX in hundredths.
var currencyDigits = map[string]int{
	"BIF": 0, "CLP": 0, "DJF": 0, "GNF": 0, "JPY": 0, "KMF": 0, "KRW": 0, "MGA": 0, "PYG": 0, "RWF": 0, "VND": 0, "VUV": 0,
	"XAF": 0, "XOF": 0, "XPF": 0,
	"BHD": 3, "JOD": 3, "KWD": 3, "OMR": 3, "TND": 3,
}

// UnitOf is the unit of a receipt's asset: a currency (ISO 4217), BTC, or a token contract,
// which is USDC on every network.
func UnitOf(asset string) Unit {
	switch {
	case asset == "BTC":
		return Unit{asset, 8}
	case asset == "USDC" || strings.HasPrefix(asset, "0x"):
		return Unit{"USDC", 6}
	}
	if digits, known := currencyDigits[asset]; known {
		return Unit{asset, digits}
	}
	return Unit{asset, 2}
}

// Decimal writes an amount in the smallest units as a decimal number: "42", or "42.50".
func (u Unit) Decimal(atomic int64) string {
	if u.Digits == 2 {
		return USD(atomic).String()
	}
	return FormatDecimal(atomic, u.Digits)
}

// Format is Decimal with the symbol: "42.50 USD".
func (u Unit) Format(atomic int64) string { return u.Decimal(atomic) + " " + u.Symbol }
