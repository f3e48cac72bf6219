package offer

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"
)

// checksummed lists the addresses of the test cases of EIP-55.
var checksummed = []string{
	"0x52908400098527886E0F7030069857D2E4169EE7", "0x8617E340B3D01FA5F11F306F4090FD50E238070D",
	"0xde709f2102306220921060314715629080e2fb77", "0x27b1fdb04752bbc536007a920d24acb045561c26",
	"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
	"0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB", "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
}

const payee = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"

// eip55 is the checksum as the text of EIP-55 describes it.
func eip55(address string) string {
	digits := strings.ToLower(address[2:])
	sum := fmt.Sprintf("%x", crypto.Keccak256([]byte(digits)))
	out := "0x"
	for i, c := range digits {
		if sum[i] >= '8' {
			out += strings.ToUpper(string(c))
		} else {
			out += string(c)
		}
	}
	return out
}

func TestParseEVMAddressChecksEIP55(t *testing.T) {
	for _, want := range checksummed {
		for _, in := range []string{want, "0x" + strings.ToLower(want[2:]), "0x" + strings.ToUpper(want[2:]), "0X" + want[2:]} {
			got, err := ParseEVMAddress(in)
			require.NoError(t, err, in)
			require.Equal(t, want, got)
		}
	}
	for _, in := range []string{
		"0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", // one letter in the other case
		"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAee", // one digit mistyped
	} {
		_, err := ParseEVMAddress(in)
		require.ErrorContains(t, err, "EIP-55", in)
		require.ErrorContains(t, err, in)
	}
}

func TestParseEVMAddressRefusesOtherForms(t *testing.T) {
	for _, in := range []string{"", "0x", "0", payee[2:], payee + "0", payee[:41], " " + payee, payee + "\n", "vitalik.eth", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeg"} {
		require.ErrorContains(t, errorOf(ParseEVMAddress(in)), "not an EVM address", in)
	}
	require.ErrorContains(t, errorOf(ParseEVMAddress("0x"+strings.Repeat("0", 40))), "zero address")
}

func TestEVMErrorHidesPrivateKey(t *testing.T) {
	const key = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
	for _, in := range []string{key, "0x" + key, "0X" + strings.ToUpper(key)} {
		_, err := ParseEVMAddress(in)
		require.ErrorContains(t, err, "private key")
		requireNoPart(t, err, in)
	}
	for _, in := range []string{key[:63], " " + key, key + "\n", "0x" + key + "0", `"` + key + `"`, phrase} {
		_, err := ParseEVMAddress(in)
		require.Error(t, err)
		requireNoPart(t, err, in)
	}
}

// requireNoPart fails when an error repeats six characters of a secret.
func requireNoPart(t *testing.T, err error, secret string) {
	t.Helper()
	for i := 0; i+6 <= len(secret); i++ {
		require.NotContains(t, strings.ToLower(err.Error()), strings.ToLower(secret[i:i+6]))
	}
}

func TestNewUSDCRefusesTokenContract(t *testing.T) {
	for _, n := range networks {
		for _, in := range []string{networks[0].USDC, n.USDC, strings.ToLower(n.USDC)} {
			require.ErrorContains(t, errorOf(NewUSDC("usdc", n, in, 4200)), "money sent there is lost")
		}
	}
}

// eip681 is the part of the ABNF of EIP-681 that a token transfer uses.
var eip681 = regexp.MustCompile(`^ethereum:(?:pay-)?(0x[0-9a-fA-F]{40})@([1-9][0-9]*)/transfer\?address=(0x[0-9a-fA-F]{40})&uint256=([1-9][0-9]*)$`)

func TestUSDCLinkIsEIP681(t *testing.T) {
	for _, n := range networks {
		u := must(NewUSDC("usdc", n, strings.ToLower(payee), 4250))(t)
		parts := eip681.FindStringSubmatch(u.URI())
		require.NotNil(t, parts, u.URI())
		chain, ok := new(big.Int).SetString(parts[2], 10)
		require.True(t, ok)
		require.Equal(t, n.ChainID, chain.Int64())
		require.Equal(t, []string{n.USDC, payee, "42500000"}, []string{parts[1], parts[3], parts[4]})
		require.Equal(t, parts[1], eip55(parts[1]), "the wallet may refuse a wrong checksum")
		require.Equal(t, strings.ToLower("eip155:"+parts[2]+"/erc20:"+n.USDC+"/"+payee), u.Account())
	}
}

func TestParseUSDCAccountRoundTrip(t *testing.T) {
	network := must(LookupNetwork("base"))(t)
	rail := must(NewUSDC("usdc", network, "0x52908400098527886E0F7030069857D2E4169EE7", 42_00))(t)

	found, payTo, err := ParseUSDCAccount(rail.Account())
	require.NoError(t, err)
	require.Equal(t, network, found)
	require.Equal(t, rail.PayTo, payTo)

	for _, account := range []string{
		"", "eip155:8453", "eip155:8453/erc20:0x52908400098527886e0f7030069857d2e4169ee7/0x52908400098527886e0f7030069857d2e4169ee7",
		"eip155:5/erc20:" + network.USDC + "/" + rail.PayTo, "eip155:8453/erc20:" + network.USDC + "/0x12",
		"bip122:000000000019d6689c085ae165831e93/bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu",
	} {
		_, _, err := ParseUSDCAccount(account)
		require.Error(t, err, account)
	}
}

// The values are those of the default assets of the reference x402 client
// (@x402/evm 2.27). A wrong name makes every signature invalid.
func TestTokenDomainsMatchReferenceClient(t *testing.T) {
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
func TestVersion1NetworkNames(t *testing.T) {
	var names []string
	for _, n := range networks {
		if n.V1 {
			names = append(names, n.Name)
		}
	}
	require.ElementsMatch(t, []string{"base", "base-sepolia", "polygon", "avalanche", "sei"}, names)
}

func TestParseURLKeepsPathAndQuery(t *testing.T) {
	for _, in := range []string{
		"https://checkout.example/pay", "https://checkout.example/a%2Fb?x=1&y=%20#part", "https://checkout.example:8443/", "https://checkout.example",
		"https://checkout.example/a+b?q=a+b;c", "http://127.0.0.1:9/x", "https://my_shop.example/", "https://checkout.example./",
	} {
		u, err := ParseURL(in)
		require.NoError(t, err, in)
		require.Equal(t, in, u.String())
	}
	for _, in := range []string{"https://h.example/%zz", "https://h.example/?a=%zz", "https://h.example/?a=%2", "https://h.example/#%"} {
		require.Error(t, errorOf(ParseURL(in)), in)
	}
}

func TestURLErrorsContainNoSecret(t *testing.T) {
	for _, in := range []string{
		"https://user:s3cr3tkey@h.example/", "https://user:s3cr3tkey@h.example:x/", "https://user:s3cr3tkey@h.example/<", "https://h.example/s3cr3tkey\n",
		"https://h.example/s3cr3tkey?%zz", "http://h.example/s3cr3tkey", "https://h.example:0/s3cr3tkey", "s3cr3tkey", "h.example/s3cr3tkey",
	} {
		_, err := ParseURL(in)
		require.Error(t, err, in)
		require.NotContains(t, err.Error(), "s3cr3tkey")
	}
}

func TestPercentEncode(t *testing.T) {
	for _, text := range append([]string{"\r\n", "\x00", "~", "-_."}, hostile...) {
		encoded := percentEncode(text)
		require.Regexp(t, `^([A-Za-z0-9._~-]|%[0-9A-F]{2})*$`, encoded, "RFC 3986 unreserved or escaped")
		require.Equal(t, text, unescape(t, encoded))
	}
}

func TestUnitFormat(t *testing.T) {
	for _, c := range []struct {
		asset  string
		atomic int64
		want   string
	}{
		{"USD", 4200, "42 USD"},
		{"USD", 4250, "42.50 USD"},
		{"EUR", 5, "0.05 EUR"},
		{"JPY", 6000, "6000 JPY"},
		{"KWD", 12_340, "12.34 KWD"},
		{"BTC", 70_000, "0.0007 BTC"},
		{"USDC", 42_000_001, "42.000001 USDC"},
		{"0x036cbd53842c5426634e7929541ec2318f3dcf7e", 10_000_000, "10 USDC"},
	} {
		require.Equal(t, c.want, UnitOf(c.asset).Format(c.atomic))
		units, cut, ok := ParseDecimal(UnitOf(c.asset).Decimal(c.atomic), UnitOf(c.asset).Digits)
		require.True(t, ok)
		require.False(t, cut)
		require.Equal(t, c.atomic, units, "what is written is read again")
	}
}
