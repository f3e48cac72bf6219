package command

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
)

func TestCommandRewindSaysFromWhereARailIsReadAgain(t *testing.T) {
	api := newAdminAPI(t, operator.Rewound{Offer: "one", Rail: "btc", From: "block 901", Kept: "bc1qkept"}, operator.Rewound{Offer: "one", Rail: "card"})
	out, err := api.run(rewindCommand(), "btc", "--offer", "one")
	require.NoError(t, err)
	require.Equal(t, "btc of one is read again from block 901 on; what is known stays, and is counted once\n"+
		"  what is paid to bc1qkept, which was published until now, is read on\n", out)
	out, err = api.run(rewindCommand(), "card")
	require.NoError(t, err)
	require.Equal(t, "card of one is read again from its origin on; what is known stays, and is counted once\n", out)
	require.Equal(t, []string{"POST /pay_offer/rewind", "POST /pay_offer/rewind"}, api.asked)
	require.Equal(t, []string{`{"offer":"one","rail":"btc"}`, `{"rail":"card"}`}, api.bodies)

	for _, args := range [][]string{nil, {"btc", "card"}} {
		_, err = api.run(rewindCommand(), args...)
		require.ErrorContains(t, err, "name one rail, as in 'caddy pay-offer rewind btc'")
	}
}
