package document

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// The bounds are those of the schema of funding.json v1.0.0.
func TestFundingKeepsTheBoundsOfTheManifest(t *testing.T) {
	o := fundedOffer(t, terms())
	doc := decode(t, Funding(o))
	require.Equal(t, "v1.0.0", doc["version"])
	require.Equal(t, map[string]any{
		"type": "organisation", "role": "maintainer", "name": "Example Org", "email": "help@example.org",
		"description": "One fixed payment.", "webpageUrl": map[string]any{"url": "https://pay.example.org/v1/pay"},
	}, doc["entity"])
	require.Len(t, doc["projects"], 1)
	require.Equal(t, map[string]any{
		"guid": "project", "name": "Example Offer", "description": "One fixed payment.",
		"webpageUrl": map[string]any{"url": "https://pay.example.org/v1/pay"},
		"repositoryUrl": map[string]any{
			"url": "https://code.example.net/offer", "wellKnown": "https://code.example.net/offer/blob/main/.well-known/funding-manifest-urls",
		},
		"licenses": []any{"spdx:MIT"}, "tags": []any{"mail", "web-server"},
	}, at(t, doc, "projects", 0))

	var ids []any
	for _, channel := range at(t, doc, "funding", "channels").([]any) {
		require.Regexp(t, `^[a-z0-9][a-z0-9-]{1,30}[a-z0-9]$`, at(t, channel, "guid"))
		require.Contains(t, []any{"bank", "payment-provider", "cheque", "cash", "other"}, at(t, channel, "type"))
		require.NotEmpty(t, at(t, channel, "address"))
		require.LessOrEqual(t, len(at(t, channel, "address").(string)), 250)
		ids = append(ids, at(t, channel, "guid"))
	}
	require.LessOrEqual(t, len(ids), 10)
	require.Len(t, at(t, doc, "funding", "plans"), 1)
	plan := at(t, doc, "funding", "plans", 0)
	require.Equal(t, ids, at(t, plan, "channels"))
	require.Equal(t, 42.0, at(t, plan, "amount"))
	require.Equal(t, "USD", at(t, plan, "currency"))
	require.Equal(t, "one-time", at(t, plan, "frequency"))
	require.Equal(t, "active", at(t, plan, "status"))
	require.Equal(t, []any{}, at(t, doc, "funding", "history"))
}

func TestFundingHasAChannelPerRail(t *testing.T) {
	got := make(map[any][]any)
	for _, c := range at(t, decode(t, Funding(fundedOffer(t, terms()))), "funding", "channels").([]any) {
		got[at(t, c, "guid")] = []any{at(t, c, "type"), at(t, c, "address"), at(t, c, "description")}
	}
	require.Equal(t, map[any][]any{
		"rail-card":     {"payment-provider", "https://checkout.example/pay?a=1&b='2'", "42 USD by card or wallet"},
		"rail-usdc":     {"other", payTo, "42 USDC on Base: token 0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913 on eip155:8453"},
		"rail-usdc-10":  {"other", payTo, "42 USDC on OP Mainnet: token 0x0b2C639c533813f4Aa9D7837CAf62653d097Ff85 on eip155:10"},
		"rail-btc":      {"other", "https://pay.example.org/v1/pay/btc.uri", "42 USD in bitcoin"},
		"rail-transfer": {"bank", "https://pay.example.org/v1/pay/transfer", "42 USD by bank transfer"},
		"rail-tip-jar":  {"payment-provider", "https://shop.example/tip-jar", "42 USD at the storefront: tip jar"},
		"rail-pack":     {"payment-provider", "https://shop.example/pack", "42 USD at the storefront: pack"},
	}, got)
}

func TestFundingKeepsItsBoundsWithManyRailsAndLongAddresses(t *testing.T) {
	with := fundedOffer(t, terms()).Terms
	var rails []offer.Rail
	for _, name := range strings.Split("abcdefghijk", "") {
		shop, err := offer.NewStorefront(name, "https://shop.example/"+strings.Repeat("x", 250), with.Amount)
		require.NoError(t, err)
		rails = append(rails, shop)
	}
	channels := at(t, decode(t, Funding(cardOffer(t, with, rails...))), "funding", "channels").([]any)
	require.Len(t, channels, 10)
	for _, c := range channels[1:] {
		u, err := url.Parse(at(t, c, "address").(string))
		require.NoError(t, err)
		require.Equal(t, "pay.example.org", u.Host)
		require.True(t, slices.ContainsFunc(rails, func(r offer.Rail) bool { return u.Path == offer.URIPath(r.Name()) }), u.Path)
	}
}
