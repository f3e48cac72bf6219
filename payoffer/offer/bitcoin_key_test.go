package offer

import (
	"encoding/hex"
	"testing"

	"github.com/btcsuite/btcd/btcutil/v2/hdkeychain"
	"github.com/stretchr/testify/require"
)

const hard = hdkeychain.HardenedKeyStart

// versions are those of SLIP-132.
var versions = map[string][]byte{
	"xpub": {0x04, 0x88, 0xb2, 0x1e}, "zpub": {0x04, 0xb2, 0x47, 0x46}, "tpub": {0x04, 0x35, 0x87, 0xcf}, "vpub": {0x04, 0x5f, 0x1c, 0xf6},
}

// keyAt is the extended public key at a path of BIP-32's first test vector.
func keyAt(t testing.TB, prefix string, path ...uint32) string {
	t.Helper()
	key := must(hdkeychain.NewKeyFromString(xprv))(t)
	for _, index := range path {
		key = must(key.Derive(index))(t)
	}
	key = must(key.Neuter())(t)
	key = must(key.CloneWithVersion(versions[prefix]))(t)
	require.Equal(t, prefix, key.String()[:4])
	return key.String()
}

func TestExtendedKeyIsThatOfAnAccount(t *testing.T) {
	for prefix := range versions {
		for _, test := range []struct {
			path []uint32
			said string // empty where it is one
		}{
			{nil, "has depth 0"},
			{[]uint32{hard}, ""},
			{[]uint32{0}, "has depth 1 and is not hardened"},
			{[]uint32{hard + 84, hard}, "has depth 2"},
			{[]uint32{hard, 0}, "has depth 2"},
			{[]uint32{hard + 84, hard, hard}, ""},
			{[]uint32{hard + 84, hard, hard + 7}, ""},
			{[]uint32{hard, 0, 5}, "has depth 3 and is not hardened"},
			{[]uint32{hard + 84, hard, hard, 0}, "has depth 4"},
			{[]uint32{hard + 48, hard, hard, hard + 2}, "has depth 4"},
			{[]uint32{hard + 84, hard, hard, 0, 0}, "has depth 5"},
			{[]uint32{hard, hard, hard, hard, hard, hard}, "has depth 6"},
			{[]uint32{hard, 1, hard, 1, hard, 1, hard}, "has depth 7"},
		} {
			key := keyAt(t, prefix, test.path...)
			_, err := NewBitcoin(key, "", 4200)
			require.Equal(t, err, checkBitcoinAccount(key))
			if test.said == "" {
				require.NoError(t, err, "%s %v", prefix, test.path)
				continue
			}
			require.ErrorContains(t, err, test.said, "%s %v", prefix, test.path)
			require.ErrorContains(t, err, "export the account key instead: depth 3")
			requireNoPart(t, err, key[4:])
			former, err := ParseBitcoinAccount(bitcoinNetworks[extendedKeys[prefix].network].caip2+"/"+key, 4200)
			require.NoError(t, err, "what was published of it once is still followed")
			require.True(t, former.Extended())
		}
	}
}

func TestBitcoinAccountIsReadBack(t *testing.T) {
	for _, given := range []string{zpub, xpub, vpub, tpub, "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"} {
		b := must(NewBitcoin(given, "", 4200))(t)
		again := must(ParseBitcoinAccount(b.Account(), 4200))(t)
		require.Equal(t, b, again)
	}
	for _, account := range []string{
		"", zpub, "/" + zpub, bitcoinTest + "/" + zpub, bitcoinMain + "/" + tpub, bitcoinMain + "/" + zprv, bitcoinMain + "/",
		"eip155:8453/erc20:0x036cbd53842c5426634e7929541ec2318f3dcf7e/0x52908400098527886e0f7030069857d2e4169ee7",
	} {
		require.Error(t, errorOf(ParseBitcoinAccount(account, 4200)), account)
	}
}

func TestExtendedKeyThatDoesNotTellItsKindIsConfirmed(t *testing.T) {
	// The addresses of BIP-84's test vectors; the others of the same mnemonic are from BIP-44, BIP-49 and BIP-86.
	const first, second, single = "bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu", "bc1qnjg0jd8228aq7egyzacy8cys3knf9xvrerkf9g", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"
	const change = "bc1q8c6fshw2dlwun7ekn9qwf37cu2rn755upcp6el"
	const test = "tb1q6rz28mcfaxtmd6v789l9rrlrusdprr9pqcpvkl"
	for _, given := range []struct{ account, addressType, first, said string }{
		{xpub, "p2wpkh", "", ""},
		{xpub, "", first, ""},
		{xpub, "p2wpkh", "BC1QCR8TE4KR609GCAWUTMRZA0J4XV80JY8Z306FYU", ""},
		{tpub, "", test, ""},
		{zpub, "", "", ""},
		{zpub, "p2wpkh", first, ""},
		{vpub, "", test, ""},
		{single, "", "", ""},

		{xpub, "", "", `an xpub does not say`},
		{tpub, "", "", `the line 'first_address <address>'`},
		{xpub, "", second, "first_address is address 1 of this key"},
		{zpub, "", second, "first_address is address 1 of this key"},
		{xpub, "p2wpkh", second, "first_address is address 1 of this key"},
		{xpub, "", change, "first_address is not a receiving address of this key"},
		{zpub, "", single, "first_address is not a receiving address of this key"},
		{xpub, "", test, "first_address is an address of Bitcoin test network, but the key is one of Bitcoin"},
		{xpub, "", "1LqBGSKuX5yYUonjxT5qGfpUsXKYYWeabA", "p2pkh is the address type of a legacy account (BIP-44)"},
		{xpub, "", "37VucYSaXLCAsxYyAPfbSi9eh4iEcbShgf", "p2sh-p2wpkh is the address type of a nested segwit account (BIP-49)"},
		{zpub, "", "bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr", "p2tr is the address type of a taproot account (BIP-86)"},
		{xpub, "p2wpkh", "1LqBGSKuX5yYUonjxT5qGfpUsXKYYWeabA", "write the key of a native segwit account (BIP-84)"},
		{xpub, "", "somewhere", "first_address is not a Bitcoin address"},
		{xpub, "", zpub, "first_address is not a Bitcoin address"},
		{xpub, "", compressedWIF, "first_address is not a Bitcoin address"},
		{single, "p2wpkh", "", "are only for an extended public key"},
		{single, "", single, "are only for an extended public key"},
	} {
		err := ConfirmBitcoinAccount(given.account, given.addressType, given.first)
		if given.said == "" {
			require.NoError(t, err, given)
			continue
		}
		require.ErrorContains(t, err, given.said, given)
		requireNoPart(t, err, given.account[4:])
		if len(given.first) > 30 {
			requireNoPart(t, err, given.first)
		}
	}
}

func TestChangeScriptIsThatOfTheInternalChain(t *testing.T) {
	for _, key := range []string{zpub, xpub} {
		b := must(NewBitcoin(key, "", 4200))(t)
		script := must(b.ChangeScript(0))(t)
		// BIP-84's first change address, bc1q8c6fshw2dlwun7ekn9qwf37cu2rn755upcp6el.
		want := must(NewBitcoin("bc1q8c6fshw2dlwun7ekn9qwf37cu2rn755upcp6el", "", 4200))(t)
		wanted := must(want.ScriptPubKey(0))(t)
		require.Equal(t, hex.EncodeToString(wanted), hex.EncodeToString(script))
		require.Error(t, errorOf(b.ChangeScript(1<<31)))
	}
}
