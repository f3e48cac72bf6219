package ledger

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func testInvoice(hash string) Invoice {
	return Invoice{
		Hash: hash, Offer: testOffer, Account: testAccount, Rail: "lightning", Request: "lnbc1" + hash, Verify: "https://wallet.example/" + hash,
		Satoshis: 46_667, USDCents: 4200, CreatedAt: 1_795_250_000, ExpireAt: 1_795_253_600,
	}
}

func TestInvoiceHashIsUsedOnce(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		first := testInvoice("aa")
		require.True(t, must(l.InsertInvoice(t.Context(), first))(t))
		again := first
		again.Satoshis, again.Request = 1, "lnbc1other"
		require.False(t, must(l.InsertInvoice(t.Context(), again))(t), "two purchases would share a payment")
		stored, found := find(l.Invoice(t.Context(), testOffer, testAccount, "aa"))(t)
		require.True(t, found)
		require.Equal(t, first, stored)

		require.NoError(t, l.CloseInvoice(t.Context(), "aa"))
		require.False(t, must(l.InsertInvoice(t.Context(), first))(t), "a closed invoice keeps its hash")
	})
}

func TestOpenInvoicesAreOldestFirstUntilClosed(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, clock *testClock) {
		for n, hash := range []string{"new", "old", "manual"} {
			i := testInvoice(hash)
			i.CreatedAt -= int64(n)
			if hash == "manual" {
				i.Verify = ""
			}
			require.True(t, must(l.InsertInvoice(t.Context(), i))(t))
		}
		open := func() (hashes string) {
			for _, i := range must(l.OpenInvoices(t.Context(), testOffer, testAccount))(t) {
				hashes += i.Hash + " "
			}
			return strings.TrimSpace(hashes)
		}
		require.Equal(t, "old new", open(), "without an address to verify there is nothing to ask")
		require.NoError(t, l.CloseInvoice(t.Context(), "old"))
		require.Equal(t, "new", open())
		closed, _ := find(l.Invoice(t.Context(), testOffer, testAccount, "old"))(t)
		require.Equal(t, clock.now().Unix(), closed.ClosedAt)
		require.Empty(t, closed.Request+closed.Verify)
		clock.set(closed.ClosedAt + 1)
		require.NoError(t, l.CloseInvoice(t.Context(), "old"))
		again, _ := find(l.Invoice(t.Context(), testOffer, testAccount, "old"))(t)
		require.Equal(t, closed, again)
	})
}
