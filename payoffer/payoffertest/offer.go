package payoffertest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// The addresses of the rails of Offer.
const (
	Checkout = "https://checkout.example/pay?a=1&b=2"
	PayTo    = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"
	Bitcoin  = "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"
)

// Offer is an offer with every kind of rail. It takes USDC on these networks, such as base: the first rail is named usdc,
// the others usdc-<chain id>. Two rails are shops: tip-jar and pack. Tests find a rail by its name, because each new kind
// is added here.
func Offer(tb testing.TB, terms offer.Terms, networks ...string) *offer.Offer {
	tb.Helper()
	card, err := offer.NewCard(Checkout, nil, terms.Amount)
	require.NoError(tb, err)
	var rails []offer.Rail
	add := func(rail offer.Rail, err error) {
		require.NoError(tb, err)
		rails = append(rails, rail)
	}
	for i, name := range networks {
		network, err := offer.LookupNetwork(name)
		require.NoError(tb, err)
		rail := "usdc"
		if i > 0 {
			rail += "-" + strings.TrimPrefix(network.CAIP2(), "eip155:")
		}
		add(offer.NewUSDC(rail, network, PayTo, terms.Amount))
	}
	add(offer.NewBitcoin(Bitcoin, terms.Name, terms.Amount))
	add(offer.NewLightning("alice@wallet.example", terms.Amount))
	add(offer.NewBankTransfer("transfer", "bank@example.org", "Example 42", terms.Operator, terms.Amount))
	add(offer.NewStorefront("tip-jar", "https://shop.example/tip-jar", terms.Amount))
	add(offer.NewStorefront("pack", "https://shop.example/pack", terms.Amount))
	o, err := offer.New(terms, card, rails...)
	require.NoError(tb, err)
	return o
}

// Rail is the rail of an offer with this name.
func Rail(tb testing.TB, o *offer.Offer, name string) offer.Rail {
	tb.Helper()
	rail, found := o.Rail(name)
	require.True(tb, found, "the offer has no rail %q", name)
	return rail
}
