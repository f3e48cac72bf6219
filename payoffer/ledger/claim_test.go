package ledger

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAClaimIsListedAndTakenBack(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		var keys []IntentKey
		for _, nonce := range []string{"0x1", "0x2", "0x3", "0x4"} {
			i := testIntent("0xpayer"+nonce, nonce)
			i.PaymentID = "order-" + nonce
			require.NoError(t, l.InsertIntent(t.Context(), i))
			keys = append(keys, i.Canonical())
		}
		require.NoError(t, l.SettleIntent(t.Context(), keys[0], "0xhash", []byte(`{}`), EvidenceFacilitator))
		require.NoError(t, l.SettleIntent(t.Context(), keys[1], "0xother", []byte(`{}`), EvidenceFacilitator))
		require.NoError(t, l.SettleIntent(t.Context(), keys[2], "0xchain", []byte(`{}`), EvidenceChain))
		nonces := func(after int64, limit int) (found []string) {
			claims := must(l.Claims(t.Context(), testOffer, after, limit))(t)
			for _, i := range claims {
				found = append(found, i.Nonce)
			}
			return found
		}
		require.Equal(t, []string{"0x1", "0x2"}, nonces(0, 10))
		require.Equal(t, []string{"0x1"}, nonces(0, 1))
		require.Equal(t, []string{"0x2"}, nonces(mustIntent(t, l, keys[0]).ID, 10))
		require.ErrorIs(t, l.SettleIntent(t.Context(), keys[3], "0xhash", nil, EvidenceFacilitator), ErrTransaction)

		for range 2 {
			require.NoError(t, l.RetractClaim(t.Context(), keys[0], "not_paid"))
			i := mustIntent(t, l, keys[0])
			require.Equal(t, IntentRefused, i.State)
			require.Equal(t, "not_paid", i.Reason)
			require.Empty(t, i.Evidence)
			require.Nil(t, i.Answer, "no replay is answered with it")
			requireConsistent(t, l)
		}
		require.Equal(t, []string{"0x2"}, nonces(0, 10))
		require.NoError(t, l.SettleIntent(t.Context(), keys[3], "0xhash", nil, EvidenceFacilitator), "its transaction is free")
		again := testIntent("0xpayer0x1", "0x9")
		again.PaymentID = "order-0x1"
		require.NoError(t, l.InsertIntent(t.Context(), again), "and so are the payer and the identifier")

		require.ErrorIs(t, l.RetractClaim(t.Context(), keys[2], "not_paid"), ErrIntentState, "what the chain shows stays")
		require.ErrorIs(t, l.RetractClaim(t.Context(), again.Canonical(), "not_paid"), ErrIntentState, "what is open is no claim")
		require.ErrorIs(t, l.RetractClaim(t.Context(), IntentKey{}, "x"), ErrNoIntent)

		require.ErrorIs(t, l.ClaimRefused(t.Context(), keys[0], "0xhash", "not_paid"), ErrTransaction)
		require.ErrorIs(t, l.ClaimRefused(t.Context(), keys[0], "0xnew", "another"), ErrIntentState)
		require.NoError(t, l.ClaimRefused(t.Context(), keys[0], "0xnew", "not_paid"))
		i := mustIntent(t, l, keys[0])
		require.Equal(t, IntentSettled, i.State)
		require.Equal(t, "0xnew", i.Transaction)
		require.Equal(t, EvidenceFacilitator, i.Evidence)
		require.ErrorIs(t, l.ClaimRefused(t.Context(), keys[0], "0xnew", "not_paid"), ErrIntentState)
		requireConsistent(t, l)

		require.NoError(t, l.RetractClaim(t.Context(), keys[0], "not_paid"))
		require.NoError(t, l.SettleIntent(t.Context(), keys[0], "0xproof", nil, EvidenceChain), "the chain's word replaces the operator's")
		requireConsistent(t, l)
	})
}
