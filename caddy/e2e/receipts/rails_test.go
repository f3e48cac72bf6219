package receipts

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

func TestEachRailCountsWhatItsEvidenceAllows(t *testing.T) {
	s := openShop(t, "sqlite")

	require.Equal(t, http.StatusForbidden, s.post("/v1/hook/card", "{}", server.CardHeader("{}", "another secret")))
	require.Equal(t, http.StatusOK, s.pay("1"))
	require.Equal(t, http.StatusOK, s.pay("1"), "a duplicate")
	require.EqualValues(t, 1, s.rail("card").Confirmed.Count)
	require.Equal(t, "42", s.received().ReceivedUSD.String())

	// A notice of a storefront is unsigned: without a token the rail is not monitored.
	require.Equal(t, http.StatusForbidden, s.sell("another-secret-of-the-same-size!"))
	require.Equal(t, http.StatusOK, s.sell(storeSecret))
	require.Equal(t, "unknown", s.rail("tip-jar").State)
	require.Equal(t, "42", s.received().ReceivedUSD.String())

	// The operator's entry is the evidence of a bank transfer.
	out, err := server.Command(t, "", "record", "--rail", "transfer", "--reference", "INV-7", "--amount", "42", "--address", s.admin)
	require.NoError(t, err, out)
	require.Equal(t, "84", s.received().ReceivedUSD.String())
	require.Equal(t, "manual", s.rail("transfer").State)
	out, err = server.Command(t, "", "record", "--reverse", "--rail", "transfer", "--reference", "INV-7", "--reason", "entered twice", "--address", s.admin)
	require.NoError(t, err, out)
	require.Equal(t, "42", s.received().ReceivedUSD.String())
	require.EqualValues(t, 1, s.rail("transfer").Reversed.Count, "nothing is deleted")

	// What was refunded or disputed is money no more.
	refund := `{"id":"re_1","object":"refund","amount":4200,"currency":"usd","status":"succeeded","payment_intent":"pi_1","charge":"ch_1","created":1700000000}`
	refunded := server.CardEvent("refund.created", "re_1", refund)
	require.Equal(t, http.StatusOK, s.post("/v1/hook/card", refunded, server.CardHeader(refunded, cardSecret)))
	require.Zero(t, s.rail("card").Confirmed.Count)
	require.EqualValues(t, 1, s.rail("card").Refunded.Count)
	require.Equal(t, "0", s.received().ReceivedUSD.String())

	// A reader of the feed misses nothing.
	feed := s.get("/v1/received?after=0")
	var ids []string
	for _, transition := range feed.Transitions {
		ids = append(ids, payoffertest.Untagged(t, transition.ID)+" "+transition.To)
	}
	require.Equal(t, []string{
		"card:pi_1:1 confirmed", "transfer:INV-7:1 confirmed", "transfer:INV-7:2 reversed", "card:pi_1:2 refunded",
	}, ids)
	require.Empty(t, s.get(strings.TrimPrefix(*feed.Next, s.url)).Transitions)
}
