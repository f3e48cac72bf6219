package manual

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

func TestARefundIsReadInTheUnitOfItsPayment(t *testing.T) {
	for _, c := range []struct {
		asset, text string
		atomic      int64
	}{
		{"USD", "10", 1000}, {"USD", "10.50", 1050}, {"0x036cbd53842c5426634e7929541ec2318f3dcf7e", "10.000001", 10_000_001},
		{"BTC", "0.0007", 70_000}, {"JPY", "6300", 6300}, {"EUR", "0.01", 1}, {"KWD", "1.005", 1005},
	} {
		atomic, err := ParseRefund(c.text, offer.UnitOf(c.asset))
		require.NoError(t, err)
		require.Equal(t, c.atomic, atomic)
	}
	for asset, texts := range map[string][]string{
		"USD": {"", "0", "-1", "1e3", "0.001", "42,50", "NaN"}, "JPY": {"0.5"}, "BTC": {"0.000000001"},
	} {
		for _, text := range texts {
			_, err := ParseRefund(text, offer.UnitOf(asset))
			require.Error(t, err, "%s of %s", text, asset)
		}
	}
}

func TestATransactionIsNamedAsItsChainWritesIt(t *testing.T) {
	digits := strings.Repeat("aB", 32)
	for _, c := range []struct{ asset, text, want string }{
		{"USDC", "0x" + digits, "0x" + strings.ToLower(digits)},
		{"BTC", digits, strings.ToLower(digits)},
	} {
		hash, err := ParseTransaction(c.asset, c.text)
		require.NoError(t, err)
		require.Equal(t, c.want, hash)
	}
	for _, c := range []struct{ asset, text, want string }{
		{"USDC", digits, "0x and 64"}, {"USDC", "0x" + digits[1:], "0x and 64"}, {"USDC", "0x" + strings.Repeat("0", 64), "0x and 64"},
		{"BTC", "0x" + digits, "64 hexadecimal"}, {"BTC", "0x" + digits[2:], "64 hexadecimal"}, {"BTC", strings.Repeat("g", 64), "64 hexadecimal"},
		{"USD", "0x" + digits, "only a payment on a chain"}, {"EUR", "re_1", "only a payment on a chain"},
	} {
		_, err := ParseTransaction(c.asset, c.text)
		require.ErrorContains(t, err, c.want, "%s of %s", c.text, c.asset)
	}
}

func TestTheSameEntryIsTheSameRefund(t *testing.T) {
	base := Entry{Reason: "half of it"}
	other, dated, named := base, base, base
	other.Reason = "the other half"
	dated.OccurredAt = time.Unix(1_795_132_800, 0)
	named.Transaction = "0x1"
	require.Equal(t, base.RefundID(1000), Entry{Reason: "half of it", Reference: "x"}.RefundID(1000))
	ids := map[string]bool{base.RefundID(1000): true, base.RefundID(1001): true, other.RefundID(1000): true, dated.RefundID(1000): true, named.RefundID(1000): true}
	require.Len(t, ids, 5)
	require.Equal(t, named.RefundID(1000), named.RefundID(7), "a transaction is one refund, whatever the amount")
	require.Equal(t, ledger.RefundedBy("0x1"), named.RefundID(7))

	for id, want := range map[string]string{base.RefundID(1): "", named.RefundID(1): "0x1"} {
		transaction, entered := EnteredRefund(ledger.Return{ID: id, Kind: ledger.ReturnRefund})
		require.True(t, entered)
		require.Equal(t, want, transaction)
	}
	for _, foreign := range []ledger.Return{{ID: "re_1", Kind: ledger.ReturnRefund}, {ID: "operator", Kind: ledger.ReturnReversal}} {
		_, entered := EnteredRefund(foreign)
		require.False(t, entered)
	}
}
