package offer

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAmountsAreWrittenInTheUnitOfTheirAsset(t *testing.T) {
	for _, c := range []struct {
		asset  string
		atomic int64
		want   string
	}{
		{"USD", 4200, "42 USD"},
		{"USD", 4250, "42.50 USD"},
		{"EUR", 5, "0.05 EUR"},
		{"JPY", 6000, "6000 JPY"},
		{"KWD", 12_340, "12.34 KWD"},
		{"BTC", 70_000, "0.0007 BTC"},
		{"USDC", 42_000_001, "42.000001 USDC"},
		{"0x036cbd53842c5426634e7929541ec2318f3dcf7e", 10_000_000, "10 USDC"},
	} {
		require.Equal(t, c.want, UnitOf(c.asset).Format(c.atomic))
		units, cut, ok := ParseDecimal(UnitOf(c.asset).Decimal(c.atomic), UnitOf(c.asset).Digits)
		require.True(t, ok)
		require.False(t, cut)
		require.Equal(t, c.atomic, units, "what is written is read again")
	}
}
