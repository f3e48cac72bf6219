package instances

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// TestABuyerBuysAgainWhereverItComesTo, who leaves as soon as it has read an answer: that each purchase was told is known to
// all instances before the next one is looked at.
func TestABuyerBuysAgainWhereverItComesTo(t *testing.T) {
	t.Parallel()
	s := openShop(t, 2)
	charged := make(map[string]bool)
	for n := range 8 {
		purchase := s.payment()
		purchase.header["Connection"] = []string{"close"}
		got := s.do(s.instances[n/2%2].url, purchase)
		require.Equal(t, http.StatusOK, got.Status, got.Body)
		require.NotEmpty(t, got.Header.Get("Payment-Response"))
		charged[got.Header.Get("Payment-Response")] = true
		require.Len(t, s.facilitator.Calls(payoffertest.CallSettle), n+1, "an earlier charge answered purchase %d", n+1)
	}
	require.Len(t, charged, 8)
}
