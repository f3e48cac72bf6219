package ledger

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOpenIntentsAreLookedAtAgain(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, clock *testClock) {
		ctx := t.Context()
		due := func(validAfter int64, limit int) (from []string) {
			keys := must(l.DueOpen(ctx, testOffer, testAccount, validAfter, limit))(t)
			for _, key := range keys {
				from = append(from, key.From)
			}
			return from
		}
		for _, from := range []string{"0xa", "0xb", "0xc"} {
			require.NoError(t, l.InsertIntent(ctx, testIntent(from, "0x01")))
		}
		require.Empty(t, due(0, 10), "somebody works on them")
		clock.unix += 60
		require.Equal(t, []string{"0xa", "0xb", "0xc"}, due(0, 10))
		require.Equal(t, []string{"0xa"}, due(0, 1))
		unsent := testIntent("0x9", "0x01")
		unsent.Facilitator, unsent.LeaseUntil = "", 0
		require.NoError(t, l.InsertIntent(ctx, unsent))
		require.Equal(t, []string{"0xa", "0xb", "0xc", "0x9"}, due(0, 10), "what nobody was sent waits for the others")
		require.NoError(t, l.RefuseIntent(ctx, unsent.IntentKey, "expired"))
		require.Empty(t, due(5_000, 10), "nothing can be sent any more")
		require.Len(t, due(4_999, 10), 3)

		key := testIntent("0xa", "0x01").IntentKey
		require.NoError(t, l.UpdateOpenIntent(ctx, key, "me", clock.unix+20, "", ""))
		require.NoError(t, l.UpdateOpenIntent(ctx, key, "me", clock.unix, "", "timeout"))
		require.NoError(t, l.UpdateOpenIntent(ctx, testIntent("0xb", "0x01").IntentKey, "me", clock.unix+5, "", ""))
		clock.unix += 4
		require.Equal(t, []string{"0xc"}, due(0, 10), "the lease of one runs")
		clock.unix += 2
		require.Equal(t, []string{"0xb", "0xc"}, due(0, 10), "who had the lease was killed, and an eighth of its age has not passed")
		clock.unix++
		require.Equal(t, []string{"0xb", "0xc", "0xa"}, due(0, 10), "the longest waiting first")
		clock.unix += 1_000_000
		require.NoError(t, l.UpdateOpenIntent(ctx, key, "me", clock.unix, "", ""))
		clock.unix += 119
		require.Len(t, due(0, 10), 2)
		clock.unix++
		require.Len(t, due(0, 10), 3)
		require.NoError(t, l.RefuseIntent(ctx, key, "expired"))
		require.Equal(t, []string{"0xb", "0xc"}, due(0, 10))
	})
}

func TestClaimsAreTakenToBeLookedAtAgain(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, clock *testClock) {
		ctx := t.Context()
		take := func(account string, limit int) int {
			keys := must(l.TakeDueClaims(ctx, testOffer, account, limit))(t)
			return len(keys)
		}
		for _, from := range []string{"0xa", "0xb", "0xc", "0xd"} {
			require.NoError(t, l.InsertIntent(ctx, testIntent(from, "0x01")))
		}
		for n, evidence := range []string{EvidenceFacilitator, EvidenceFacilitator, EvidenceFacilitator, EvidenceChain} {
			key := testIntent("0x"+string(rune('a'+n)), "0x01").IntentKey
			require.NoError(t, l.SettleIntent(ctx, key, "0x"+string(rune('1'+n)), nil, evidence))
		}
		require.Zero(t, take(cardAccount, 10))
		require.Equal(t, 2, take(testAccount, 2))
		require.Equal(t, 1, take(testAccount, 10))
		require.Zero(t, take(testAccount, 10))
		clock.unix += 2
		require.Equal(t, 3, take(testAccount, 10))
		clock.unix += 1_000_000
		require.Equal(t, 3, take(testAccount, 10))
		clock.unix += 3_599
		require.Zero(t, take(testAccount, 10))
		clock.unix++
		require.Equal(t, 3, take(testAccount, 10))
	})
}
