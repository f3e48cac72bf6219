package offer

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// USD is an amount of US dollars in cents. In JSON it is a number of dollars
// (42 or 42.50), written without floating point.
type USD int64

// EUR is an amount of euros in cents, written as USD is.
type EUR int64

// maxUSD bounds the price, so that no atomic amount overflows 63 bits.
const maxUSD USD = 1_000_000_00

// decimal is a plain decimal number. "042" is refused, because it may mean 0.42.
var decimal = regexp.MustCompile(`^(0|[1-9][0-9]*)(?:\.([0-9]+))?$`)

// ParseDecimal reads a plain decimal number without sign or exponent in units of 10^-digits:
// "42.5" with two digits is 4250. cut reports more digits after the point, which are ignored.
// A number beyond 63 bits becomes the largest integer.
func ParseDecimal(s string, digits int) (units int64, cut, ok bool) {
	parts := decimal.FindStringSubmatch(s)
	if parts == nil {
		return 0, false, false
	}
	units, _ = strconv.ParseInt(parts[1]+(parts[2] + strings.Repeat("0", digits))[:digits], 10, 64)
	return units, len(parts[2]) > digits, true
}

// ParseUSD reads a decimal number of dollars from 0.01 to maxUSD.
func ParseUSD(s string) (USD, error) {
	cents, err := parseCents(s, "US dollars")
	return USD(cents), err
}

// ParseEUR is ParseUSD for euros.
func ParseEUR(s string) (EUR, error) {
	cents, err := parseCents(s, "euros")
	return EUR(cents), err
}

func parseCents(s, unit string) (int64, error) {
	cents, cut, ok := ParseDecimal(s, 2)
	if !ok || cut {
		return 0, fmt.Errorf("%q is not an amount of %s; write at most two decimals, for example 42 or 42.50", s, unit)
	}
	if cents <= 0 || cents > int64(maxUSD) {
		return 0, fmt.Errorf("the amount %s is out of range; it must be more than 0 and at most %s %s", s, maxUSD, unit)
	}
	return cents, nil
}

// String is the number of dollars, with cents only if needed: "42", "42.50".
func (u USD) String() string {
	if u%100 == 0 {
		return strconv.FormatInt(int64(u/100), 10)
	}
	return u.Decimal()
}

// Decimal is the number of dollars with two digits after the point: "42.00".
func (u USD) Decimal() string {
	sign := ""
	if u < 0 {
		sign, u = "-", -u
	}
	return fmt.Sprintf("%s%d.%02d", sign, u/100, u%100)
}

// Dollars is the amount as sellers write it: "$42", "$1,000.50".
func (u USD) Dollars() string {
	dollars, cents, _ := strings.Cut(u.String(), ".")
	for i := len(dollars) - 3; i > 0; i -= 3 {
		dollars = dollars[:i] + "," + dollars[i:]
	}
	return "$" + strings.TrimSuffix(dollars+"."+cents, ".")
}

// MarshalJSON writes a number of dollars.
func (u USD) MarshalJSON() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalJSON reads what MarshalJSON writes; an amount may be negative or null.
func (u *USD) UnmarshalJSON(text []byte) error {
	number, negative := strings.CutPrefix(string(text), "-")
	cents, cut, ok := ParseDecimal(number, 2)
	switch {
	case number == "null":
		return nil
	case !ok || cut:
		return fmt.Errorf("%.40q is not an amount of US dollars; write for example 42 or 42.50", text)
	case negative:
		cents = -cents
	}
	*u = USD(cents)
	return nil
}

// String, Decimal and MarshalJSON write euros as USD does dollars.
func (e EUR) String() string               { return USD(e).String() }
func (e EUR) Decimal() string              { return USD(e).Decimal() }
func (e EUR) MarshalJSON() ([]byte, error) { return USD(e).MarshalJSON() }

// FormatDecimal writes an amount in units of 10^-digits as a plain decimal number without
// trailing zeros, as BIP-21 requires.
func FormatDecimal(units int64, digits int) string {
	s := fmt.Sprintf("%0*d", digits+1, units)
	point := len(s) - digits
	return strings.TrimSuffix(strings.TrimRight(s[:point]+"."+s[point:], "0"), ".")
}
