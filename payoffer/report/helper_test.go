package report

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// at is the time of the tests.
var at = time.Date(2026, 11, 21, 13, 14, 15, 0, time.UTC)

func cents(n int64) *int64 { return &n }

// world is an offer with every kind of rail, and the health of each.
type world struct {
	offer  *offer.Offer
	health []source.Health
}

func newWorld(t *testing.T) *world {
	return &world{newOffer(t, "base", true), []source.Health{
		{Rail: "card", Source: "webhook", At: at.Unix() - 3}, {Rail: "usdc", Source: "chain", ObservedThrough: "block 7", At: at.Unix() - 9},
		{Rail: "btc", Source: "chain", At: at.Unix()}, {Rail: "transfer", Source: "operator"},
		{Rail: "tip-jar", Source: "webhook"}, {Rail: "pack", Source: "webhook"},
	}}
}

// testOffer has a card, and a chain that is a test network.
func testOffer(t *testing.T) *offer.Offer { return newOffer(t, "base-sepolia", false) }

func newOffer(t *testing.T, chain string, all bool) *offer.Offer {
	t.Helper()
	card, err := offer.NewCard("https://checkout.example/pay", nil, 42_00)
	require.NoError(t, err)
	network, err := offer.LookupNetwork(chain)
	require.NoError(t, err)
	usdc, err := offer.NewUSDC("usdc", network, "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045", 42_00)
	require.NoError(t, err)
	rails := []offer.Rail{usdc}
	if all {
		btc, err := offer.NewBitcoin("bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq", "Example", 42_00)
		require.NoError(t, err)
		transfer, err := offer.NewTransfer("transfer", "bank@example.org", "memo", "Example", 42_00)
		require.NoError(t, err)
		tip, err := offer.NewStorefront("tip-jar", "https://shop.example/tip", 42_00)
		require.NoError(t, err)
		pack, err := offer.NewStorefront("pack", "https://shop.example/pack", 42_00)
		require.NoError(t, err)
		rails = append(rails, btc, transfer, tip, pack)
	}
	o, err := offer.New(offer.Terms{ID: "pay.example.org", BaseURL: "https://pay.example.org", Amount: 42_00}, card, rails...)
	require.NoError(t, err)
	return o
}
