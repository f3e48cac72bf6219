package mpp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// A chain that is not offered gets no challenge, and the answer to an earlier one is still recognized.
func TestNoChallengeForUnofferedChain(t *testing.T) {
	o, live := newOffer(t, "Authorization", "base-sepolia", "base"), offer.Live{}
	i := New(o, o.BaseURL, func() []byte { return []byte("secret") }, func() time.Time { return at }, func() offer.Live { return live })
	before := i.AppendHeader(nil)
	require.Len(t, before, 2)
	for chain, n := range map[string]int{"84532": 0, "8453": 1} {
		live.Networks = "eip155:" + chain + " "
		require.Len(t, i.AppendHeader(nil), 1)
		left := i.Required(nil).Challenges
		require.Len(t, left, 1)
		require.Equal(t, string(i.charges[n]), string(left[0].Request))
		require.Contains(t, i.AppendHeader(nil)[0], i.texts[n][1][:20])
		for _, header := range before {
			credential := answer(header)
			delete(credential, "source")
			read, err := i.FromHeader(carried("Authorization", credential))
			require.NoError(t, err)
			reason, _ := read.reject()
			require.Empty(t, reason)
		}
	}
}
