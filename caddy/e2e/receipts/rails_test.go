package receipts

import (
	"net/http"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

// command runs 'caddy pay-offer' against the shop.
func (s *shop) command(args ...string) (string, error) {
	command := exec.Command(server.Released(s.t), append([]string{"pay-offer"}, args...)...)
	out, err := command.CombinedOutput()
	return string(out), err
}

func TestEachRailCountsWhatItsEvidenceAllows(t *testing.T) {
	s := openShop(t, "sqlite")

	require.Equal(t, http.StatusForbidden, s.deliverCard(paid("forged"), "another secret"))
	require.Equal(t, http.StatusOK, s.deliverCard(paid("1"), cardSecret))
	require.Equal(t, http.StatusOK, s.deliverCard(paid("1"), cardSecret), "a duplicate")
	require.EqualValues(t, 1, s.rail("card").Confirmed.Count)
	require.Equal(t, "42", s.received().ReceivedUSD.String())

	// A notice of a storefront is unsigned: without a token the rail is not monitored.
	require.Equal(t, http.StatusForbidden, s.deliverSale("sale-0", "another-secret-of-the-same-size!"))
	require.Equal(t, http.StatusOK, s.deliverSale("sale-1", storeSecret))
	require.Equal(t, "unknown", s.rail("tip-jar").State)
	require.Equal(t, "42", s.received().ReceivedUSD.String())

	// The operator's entry is the evidence of a bank transfer.
	out, err := s.command("record", "--rail", "transfer", "--reference", "INV-7", "--amount", "42", "--address", s.admin)
	require.NoError(t, err, out)
	require.Equal(t, "84", s.received().ReceivedUSD.String())
	require.Equal(t, "manual", s.rail("transfer").State)
	out, err = s.command("record", "--reverse", "--rail", "transfer", "--reference", "INV-7", "--reason", "entered twice", "--address", s.admin)
	require.NoError(t, err, out)
	require.Equal(t, "42", s.received().ReceivedUSD.String())
	require.EqualValues(t, 1, s.rail("transfer").Reversed.Count, "nothing is deleted")

	// What was refunded or disputed is money no more.
	refund := `{"id":"re_1","object":"refund","amount":4200,"currency":"usd","status":"succeeded","payment_intent":"pi_1","charge":"ch_1","created":1700000000}`
	require.Equal(t, http.StatusOK, s.deliverCard(event("refund.created", "re_1", refund), cardSecret))
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
	require.Empty(t, s.get("/v1/received?after="+lastSeq(feed)).Transitions)
}
