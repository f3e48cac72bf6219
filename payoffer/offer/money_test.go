package offer

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseUSDTakesPlainDecimals(t *testing.T) {
	for in, cents := range map[string]USD{
		"42": 4200, "42.5": 4250, "42.50": 4250, "42.05": 4205, "0.01": 1, "0.1": 10, "1000000": 100_000_000, "1000000.00": 100_000_000,
	} {
		got, err := ParseUSD(in)
		require.NoError(t, err, in)
		require.Equal(t, cents, got, in)
	}
}

func TestParseUSDRefusesWhatIsNoPlainAmount(t *testing.T) {
	for _, in := range []string{
		"", ".", "42.", ".5", "-1", "+1", "1e2", "042", "00.5", "0x2a", "1_000", "1,000", "42,50", "1.2.3", "1.-5", "1.+5",
		"42.001", " 42", "42 ", "42\n", "$42", "42 USD", "NaN", "Inf", "４２",
	} {
		require.ErrorContains(t, errorOf(ParseUSD(in)), "is not an amount", in)
	}
	for _, in := range []string{"0", "0.0", "0.00", "1000000.01", "92233720368547758.08", "18446744073709551616", "1" + strings.Repeat("0", 400)} {
		require.ErrorContains(t, errorOf(ParseUSD(in)), "out of range", in)
	}
}

func TestADecimalIsCutAndBoundedButNeverRounded(t *testing.T) {
	for _, c := range []struct {
		text   string
		digits int
		units  int64
		cut    bool
	}{
		{"90000.1234569", 6, 90_000_123_456, true}, {"90000.123456", 6, 90_000_123_456, false}, {"0.1", 0, 0, true}, {"7", 0, 7, false},
		{"9223372036854775807", 0, math.MaxInt64, false}, {"9223372036854775808", 0, math.MaxInt64, false},
		{"1" + strings.Repeat("0", 400), 2, math.MaxInt64, false},
	} {
		units, cut, ok := ParseDecimal(c.text, c.digits)
		require.True(t, ok, c.text)
		require.Equal(t, c.units, units, c.text)
		require.Equal(t, c.cut, cut, c.text)
	}
}

func TestUSDIsWrittenForPeopleAndPrograms(t *testing.T) {
	for _, c := range []struct {
		amount        USD
		text, decimal string
	}{{4200, "42", "42.00"}, {4250, "42.50", "42.50"}, {4205, "42.05", "42.05"}, {1, "0.01", "0.01"}, {-150, "-1.50", "-1.50"}, {-5, "-0.05", "-0.05"}, {0, "0", "0.00"}} {
		require.Equal(t, c.text, c.amount.String())
		require.Equal(t, c.decimal, c.amount.Decimal())
	}
}

// An atomic amount is exact and fits 63 bits up to the largest offer.
func TestAtomicAmountIsExact(t *testing.T) {
	for amount, atomic := range map[USD]string{1: "10000", 4200: "42000000", 4250: "42500000", maxUSD: "1000000000000"} {
		require.Equal(t, atomic, (&USDC{amount: amount}).AmountAtomic())
	}
}

func TestSatoshisAreWrittenAsPlainBitcoin(t *testing.T) {
	for satoshis, coins := range map[int64]string{
		1: "0.00000001", 10: "0.0000001", 42_001: "0.00042001", 100_000_000: "1", 150_000_000: "1.5",
		1_000_000_000: "10", 2_100_000_000_000_000: "21000000",
	} {
		require.Equal(t, coins, FormatDecimal(satoshis, 8))
	}
}
