package offer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Network is an EVM chain on which Circle's USDC is paid.
type Network struct {
	ChainID int64 // EIP-155
	// Name is the chain's name in the Caddyfile and in version 1 of x402.
	Name  string
	Title string // for people
	USDC  string // the address of the token contract in EIP-55 form
	// TokenName and TokenVersion are the token's EIP-712 domain.
	TokenName, TokenVersion string
	// V1 says that x402 version 1 clients know the name. The reference client refuses a
	// quote with an unknown name.
	V1   bool
	Test bool   // it has test money
	RPC  string // the default JSON-RPC endpoint, a public one
	// Explorer is the prefix of transaction pages in a public block explorer.
	Explorer string
	// Coin is the symbol of the coin for gas, which has 18 decimals.
	Coin string
}

// testTitle ends the titles of test networks.
const testTitle = " (test network)"

// atomicPerCent is one cent in atomic units: USDC has six decimals on every known network.
const atomicPerCent = 10_000

// networks are the known chains. Contracts and domains are those of the reference x402
// clients, which do not have OP Mainnet.
var networks = []Network{
	{8453, "base", "Base", "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", "USD Coin", "2", true, false, "https://mainnet.base.org", "https://basescan.org/tx/", "ETH"},
	{84532, "base-sepolia", "Base Sepolia" + testTitle, "0x036CbD53842c5426634e7929541eC2318f3dCF7e", "USDC", "2", true, true, "https://sepolia.base.org", "https://sepolia.basescan.org/tx/", "ETH"},
	{1, "ethereum", "Ethereum", "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", "USD Coin", "2", false, false, "https://ethereum-rpc.publicnode.com", "https://etherscan.io/tx/", "ETH"},
	{10, "optimism", "OP Mainnet", "0x0b2C639c533813f4Aa9D7837CAf62653d097Ff85", "USD Coin", "2", false, false, "https://mainnet.optimism.io", "https://optimistic.etherscan.io/tx/", "ETH"},
	{42161, "arbitrum", "Arbitrum One", "0xaf88d065e77c8cC2239327C5EDb3A432268e5831", "USD Coin", "2", false, false, "https://arb1.arbitrum.io/rpc", "https://arbiscan.io/tx/", "ETH"},
	{421614, "arbitrum-sepolia", "Arbitrum Sepolia" + testTitle, "0x75faf114eafb1BDbe2F0316DF893fd58CE46AA4d", "USD Coin", "2", false, true, "https://sepolia-rollup.arbitrum.io/rpc", "https://sepolia.arbiscan.io/tx/", "ETH"},
	{137, "polygon", "Polygon", "0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359", "USD Coin", "2", true, false, "https://polygon-rpc.com", "https://polygonscan.com/tx/", "POL"},
	{43114, "avalanche", "Avalanche C-Chain", "0xB97EF9Ef8734C71904D8002F8b6Bc66Dd9c48a6E", "USD Coin", "2", true, false, "https://api.avax.network/ext/bc/C/rpc", "https://snowtrace.io/tx/", "AVAX"},
	{42220, "celo", "Celo", "0xcebA9300f2b948710d2653dD7B07f33A8B32118C", "USDC", "2", false, false, "https://forno.celo.org", "https://celoscan.io/tx/", "CELO"},
	{1329, "sei", "Sei", "0xe15fC38F6D8c56aF07bbCBe3BAf5708A2Bf42392", "USDC", "2", true, false, "https://evm-rpc.sei-apis.com", "https://seiscan.io/tx/", "SEI"},
}

// NetworkNames are the names of the known networks.
func NetworkNames() (names []string) {
	for _, n := range networks {
		names = append(names, n.Name)
	}
	return names
}

// LookupNetwork finds a known network by its name or by its CAIP-2 id.
func LookupNetwork(s string) (Network, error) {
	i := slices.IndexFunc(networks, func(n Network) bool { return n.Name == s || n.CAIP2() == s })
	if i < 0 {
		return Network{}, fmt.Errorf("unknown network %q; valid networks: %s (or the CAIP-2 id of one of them, such as eip155:8453)", s, strings.Join(NetworkNames(), ", "))
	}
	return networks[i], nil
}

// Label is the title on pages.
func (n Network) Label() Phrase {
	if title, test := strings.CutSuffix(n.Title, testTitle); test {
		return Phrase{Key: "rail.usdc.test", With: With{"network": title}}
	}
	return Literal(n.Title)
}

// CAIP2 is the chain's identifier, such as "eip155:8453" (CAIP-2, EIP-155).
func (n Network) CAIP2() string { return "eip155:" + strconv.FormatInt(n.ChainID, 10) }
