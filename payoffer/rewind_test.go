package payoffer

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
)

func TestCommandRewindIsRefusedWithASentenceWhereThereIsNothingToRewind(t *testing.T) {
	const card = "card https://checkout.example/pay"
	o := newOperated(t, strings.Replace(smallest, card, card+"\n\t\tbitcoin bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4 {\n\t\t\tesplora http://127.0.0.1:9\n\t\t}", 1))
	for rail, said := range map[string]string{
		"btc":      "nothing of the rail btc was read yet",
		"card":     "nothing reads the rail card back",
		"transfer": `no rail is named "transfer"; there are: card, usdc, btc`,
	} {
		_, err := o.payOffer("rewind", rail)
		require.ErrorContains(t, err, said)
	}
	_, err := o.payOffer("rewind", "btc", "--offer", "other")
	require.ErrorContains(t, err, `no offer has the id "other"`)
	require.Equal(t, http.StatusMethodNotAllowed, o.ask(http.MethodGet, operator.PathRewind, "").status)
	require.Equal(t, http.StatusBadRequest, o.ask(http.MethodPost, operator.PathRewind, `{"rail":"btc","block":1}`).status)
}
