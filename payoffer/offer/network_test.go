package offer

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The values are those of the default assets of the reference x402 client
// (@x402/evm 2.27). A wrong name makes every signature invalid.
func TestTokenDomainsAreThoseOfTheReferenceClient(t *testing.T) {
	for id, want := range map[string][3]string{
		"eip155:8453":   {"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", "USD Coin", "2"},
		"eip155:84532":  {"0x036CbD53842c5426634e7929541eC2318f3dCF7e", "USDC", "2"},
		"eip155:1":      {"0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", "USD Coin", "2"},
		"eip155:42161":  {"0xaf88d065e77c8cC2239327C5EDb3A432268e5831", "USD Coin", "2"},
		"eip155:421614": {"0x75faf114eafb1BDbe2F0316DF893fd58CE46AA4d", "USD Coin", "2"},
		"eip155:137":    {"0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359", "USD Coin", "2"},
		"eip155:43114":  {"0xB97EF9Ef8734C71904D8002F8b6Bc66Dd9c48a6E", "USD Coin", "2"},
		"eip155:42220":  {"0xcebA9300f2b948710d2653dD7B07f33A8B32118C", "USDC", "2"},
		"eip155:1329":   {"0xe15fC38F6D8c56aF07bbCBe3BAf5708A2Bf42392", "USDC", "2"},
	} {
		n := must(LookupNetwork(id))(t)
		require.Equal(t, want, [3]string{n.USDC, n.TokenName, n.TokenVersion}, id)
	}
}

func TestLookupNetworkByNameOrIdentifier(t *testing.T) {
	for _, n := range networks {
		for _, key := range []string{n.Name, n.CAIP2()} {
			got := must(LookupNetwork(key))(t)
			require.Equal(t, n, got)
		}
	}
	for _, key := range []string{"", "8453", "Base", "eip155:", "eip155:08453", "base sepolia"} {
		require.ErrorContains(t, errorOf(LookupNetwork(key)), "base-sepolia", "the message lists what is known")
	}
}

func TestTestNetworksAreMarked(t *testing.T) {
	for _, n := range networks {
		require.Equal(t, n.Name == "base-sepolia" || n.Name == "arbitrum-sepolia", n.Test, n.Name)
	}
}

// The names are those of the enumeration in the reference version 1 client,
// x402-fetch 1.2.0: one name outside it makes that client throw.
func TestVersionOneNamesAreThoseOfTheReferenceClient(t *testing.T) {
	var names []string
	for _, n := range networks {
		if n.V1 {
			names = append(names, n.Name)
		}
	}
	require.ElementsMatch(t, []string{"base", "base-sepolia", "polygon", "avalanche", "sei"}, names)
}
