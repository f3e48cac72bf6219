package ledger

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/observations"
)

func TestTheReceiptOfAnAuthorizationIsFoundUntilItIsDropped(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		receipt := func(account, payer, nonce string) (Receipt, bool) {
			t.Helper()
			r, found := find(l.AuthorizationReceipt(t.Context(), account, payer, nonce))(t)
			return r, found
		}
		nonce := observations.Nonce(0xabc)
		paid := chainObservation("0xa", StatusSeen)
		mustRecord(t, l, paid)
		_, found := receipt(testAccount, "0xpayer", nonce)
		require.False(t, found)
		_, found = receipt(testAccount, "0xpayer", "")
		require.False(t, found, "no nonce is no authorization")

		paid.Nonce = nonce
		want := mustRecord(t, l, paid)
		require.Equal(t, nonce, want.Nonce)
		got, found := receipt(testAccount, "0xPAYER", strings.ToUpper(nonce))
		require.True(t, found)
		require.Equal(t, want, got)
		for _, other := range [][3]string{
			{cardAccount, "0xpayer", nonce}, {testAccount, "0xother", nonce}, {testAccount, "0xpayer", observations.Nonce(1)},
		} {
			_, found = receipt(other[0], other[1], other[2])
			require.False(t, found)
		}

		mustRecord(t, l, chainObservation("0xa", StatusDropped))
		_, found = receipt(testAccount, "0xpayer", nonce)
		require.False(t, found)
		again := chainObservation("0xb", StatusSeen)
		again.Nonce = nonce
		mustRecord(t, l, again)
		mustRecord(t, l, chainObservation("0xa", StatusConfirmed))
		got, found = receipt(testAccount, "0xpayer", nonce)
		require.True(t, found)
		require.Equal(t, "0xb", got.Transaction, "the newest")
	})
}
