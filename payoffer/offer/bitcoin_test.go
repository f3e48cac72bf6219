package offer

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcutil/v2/hdkeychain"
	"github.com/stretchr/testify/require"
)

// The test vectors of BIP-84 and SLIP-132, with the mnemonic "abandon … about".
const (
	phrase = "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about"

	zpub = "zpub6rFR7y4Q2AijBEqTUquhVz398htDFrtymD9xYYfG1m4wAcvPhXNfE3EfH1r1ADqtfSdVCToUG868RvUUkgDKf31mGDtKsAYz2oz2AGutZYs"
	xpub = "xpub6CatWdiZiodmUeTDp8LT5or8nmbKNcuyvz7WyksVFkKB4RHwCD3XyuvPEbvqAQY3rAPshWcMLoP2fMFMKHPJ4ZeZXYVUhLv1VMrjPC7PW6V"
	vpub = "vpub5Y6cjg78GGuNLsaPhmYsiw4gYX3HoQiRBiSwDaBXKUafCt9bNwWQiitDk5VZ5BVxYnQdwoTyXSs2JHRPAgjAvtbBrf8ZhDYe2jWAqvZVnsc"
	tpub = "tpubDC8msFGeGuwnKG9Upg7DM2b4DaRqg3CUZa5g8v2SRQ6K4NSkxUgd7HsL2XVWbVm39yBA4LAxysQAm397zwQSQoQgewGiYZqrA9DsP4zbQ1M"
	ypub = "ypub6Ww3ibxVfGzLrAH1PNcjyAWenMTbbAosGNB6VvmSEgytSER9azLDWCxoJwW7Ke7icmizBMXrzBx9979FfaHxHcrArf3zbeJJJUZPf663zsP"
	upub = "upub5EFU65HtV5TeiSHmZZm7FUffBGy8UKeqp7vw43jYbvZPpoVsgU93oac7Wk3u6moKegAEWtGNF8DehrnHtv21XXEMYRUocHqguyjknFHYfgY"
	zprv = "zprvAdG4iTXWBoARxkkzNpNh8r6Qag3irQB8PzEMkAFeTRXxHpbF9z4QgEvBRmfvqWvGp42t42nvgGpNgYSJA9iefm1yYNZKEm7z6qUWCroSQnE"
	vprv = "vprv9K7GLAaERuM58PVvbk1sMo7wzVCoPwzZpVXLRBmum93gL5pSqQCAAvZjtmz93nnnYMr9i2FwG2fqrwYLRgJmDDwFjGiamGsbRMJ5Y6siJ8H"
	// The first key of BIP-32's test vector 1.
	xprv = "xprv9s21ZrQH143K3QTDL4LXw2F7HEK3wJUD2nW2nRk4stbPy6cq3jPPqjiChkVvvNKmPGJxWUtg6LnF5kejMRNNU3TGtRBeJgk33yuGBxrMPHi"

	compressedWIF   = "KyZpNDKnfs94vbrwhJneDi77V6jF64PWPF8x5cdJb8ifgg2DUc9d"
	uncompressedWIF = "5HueCGU8rMjxEXxiPuD5BDku4MkFqeZyd4dZ1jvhTVqvbTLvyTJ"

	bitcoinMain = "bip122:000000000019d6689c085ae165831e93"
	bitcoinTest = "bip122:000000000933ea01ad0ee984209779ba"
)

func checkBitcoinAccount(account string) error {
	_, err := NewBitcoin(account, "", 0)
	return err
}

func TestBitcoinAccountAddressKinds(t *testing.T) {
	for in, want := range map[string]string{
		// BIP-173 and BIP-350
		"BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4":                     bitcoinMain + "/bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
		"bc1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qccfmv3": bitcoinMain + "/bc1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qccfmv3",
		"tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sl5k7": bitcoinTest + "/tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sl5k7",
		"bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0": bitcoinMain + "/bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0",
		// The first output ever spendable, and BIP-16's kind of address.
		"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa": bitcoinMain + "/1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
		"37VucYSaXLCAsxYyAPfbSi9eh4iEcbShgf": bitcoinMain + "/37VucYSaXLCAsxYyAPfbSi9eh4iEcbShgf",
	} {
		b, err := NewBitcoin(in, "", 4200)
		require.NoError(t, err, in)
		require.Equal(t, want, b.Account())
		require.Equal(t, strings.HasPrefix(want, bitcoinTest), b.Test())
	}
}

func TestBitcoinAccountRefusesInvalidAddress(t *testing.T) {
	for _, in := range []string{
		"", "b", "bc1", "xpub", "zpub6", "prv", " xpub", "€€€", strings.Repeat("€", 60), strings.Repeat("a", 200), "\x00\x00\x00\x00",
		"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5",                     // BIP-173: checksum
		"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kemeawh",                     // BIP-350: version 0 with the checksum of Bech32m
		"bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqh2y7hd", // BIP-350: version 1 with the checksum of Bech32
		"bc1qW508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",                     // mixed case
		"BC1QR508D6QEJXTDG4Y5R3ZARVARYV98GJ9P",                           // BIP-173: length of the program
		"bc1zw508d6qejxtdg4y5r3zarvaryvaxxpcs",                           // BIP-350: a version without a meaning yet
		"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb",                             // base58 checksum
		"ltc1qw508d6qejxtdg4y5r3zarvary0c5xw7kgmn4n9",                    // Litecoin
		"LM2WMpR1Rp6j3Sa59cMXMs1SPzj9eXpGc1",                             // Litecoin
		"0279BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798",
		"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
	} {
		require.Error(t, checkBitcoinAccount(in), in)
	}
}

func TestBitcoinErrorNamesLightning(t *testing.T) {
	for _, in := range []string{"lnurl1dp68gurn8ghj7um9dej8xct5wvhxcmmv9akx", "LNBC420u1pvjluez", "lightning:lnbc1x", "jane@wallet.example"} {
		require.ErrorContains(t, checkBitcoinAccount(in), "this is of Lightning, which has an option of its own", in)
	}
}

func TestBitcoinErrorHidesPrivateKey(t *testing.T) {
	for _, in := range []string{
		xprv, zprv, vprv, "t" + vprv[1:],
		"4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318",
		xprv[:90], xprv + "x", zprv[:110] + "0",
		compressedWIF, uncompressedWIF, " " + compressedWIF, "6PRVWUbkzzsbcVac2qwfssoUJAN1Xhrg6bNk8J7Nzm5H7kxEbn2Nh2ZoGg",
	} {
		err := checkBitcoinAccount(in)
		require.ErrorContains(t, err, "private key", in)
		requireNoPart(t, err, in)
	}
	for _, in := range []string{compressedWIF[:51] + "0", compressedWIF[:40], xprv[:30], " " + xprv, phrase} {
		err := checkBitcoinAccount(in)
		require.Error(t, err)
		requireNoPart(t, err, in)
	}
}

func TestExtendedKeyReceivingAddresses(t *testing.T) {
	// The third one is not in BIP-84; it was computed by other code.
	main := []string{"bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu", "bc1qnjg0jd8228aq7egyzacy8cys3knf9xvrerkf9g", "bc1qp59yckz4ae5c4efgw2s5wfyvrz0ala7rgvuz8z"}
	test := []string{"tb1q6rz28mcfaxtmd6v789l9rrlrusdprr9pqcpvkl"}
	for key, want := range map[string][]string{zpub: main, xpub: main, vpub: test, tpub: test} {
		b := must(NewBitcoin(key, "", 4200))(t)
		for i, address := range want {
			got := must(b.Address(uint32(i)))(t)
			require.Equal(t, address, got, "%s %d", key[:4], i)
		}
		require.Equal(t, want[0][:2] == "tb", b.Test())
		require.True(t, strings.HasSuffix(b.Account(), "/"+key))
		require.Error(t, errorOf(b.Address(1<<31)), "a hardened index has no public address")
		require.False(t, b.Methods(nil, Live{Satoshis: 1})[0].Available, "the current address is not known")
	}
}

func TestExtendedKeyChecksum(t *testing.T) {
	for _, key := range []string{zpub, xpub, vpub, tpub} {
		swapped := []byte(key)
		swapped[50], swapped[51] = swapped[51], swapped[50]
		for _, in := range []string{string(swapped), key[:110], key + "1", key[:100] + "0" + key[101:]} {
			require.ErrorContains(t, checkBitcoinAccount(in), "mistyped", in)
		}
	}
	for _, in := range []string{ypub, upub, "Z" + zpub[1:], "Ltub2" + zpub[5:]} {
		require.Error(t, checkBitcoinAccount(in), in)
	}
	for in, want := range map[string]string{
		ypub:               "the key (ypub) of a nested segwit account (BIP-49)",
		upub:               "the key (upub) of a nested segwit account (BIP-49)",
		"Z" + zpub[1:]:     "the key (Zpub) of several signers (BIP-48)",
		"Ltub2" + zpub[5:]: "not a Bitcoin address",
		"wpkh([73c5da0a/84h/0h/0h]" + xpub + "/0/*)":                        "output descriptor",
		"bitcoin:bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4?amount=0.00042": "without 'bitcoin:'",
	} {
		require.ErrorContains(t, checkBitcoinAccount(in), want)
	}
}

func TestScriptPubKey(t *testing.T) {
	for account, want := range map[string]string{
		// The examples and test vectors of BIP-173 and BIP-350.
		"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4":                     "0014751e76e8199196d454941c45d1b3a323f1433bd6",
		"tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sl5k7": "00201863143c14c5166804bd19203356da136c985678cd4d27a1b8c6329604903262",
		"bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0": "512079be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798",
		// Their hashes, taken out of Base58Check by other code.
		"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa": "76a91462e907b15cbf27d5425399ebf6f0fb50ebb88f1888ac",
		"37VucYSaXLCAsxYyAPfbSi9eh4iEcbShgf": "a9143fb6e95812e57bb4691f9a4a628862a61a4f769b87",
		// BIP-84, from the public key that it lists.
		zpub: "0014c0cebcd6c3d3ca8c75dc5ec62ebe55330ef910e2",
	} {
		b := must(NewBitcoin(account, "", 4200))(t)
		script := must(b.ScriptPubKey(0))(t)
		require.Equal(t, want, hex.EncodeToString(script), account)
	}
}

func TestBitcoinTransactionURL(t *testing.T) {
	for account, want := range map[string]string{
		"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4":   "https://mempool.space/tx/1f",
		"tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx":   "https://mempool.space/testnet/tx/1f",
		"bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080": "",
	} {
		b := must(NewBitcoin(account, "", 42_00))(t)
		require.Equal(t, want, b.TransactionURL("1f"))
		former := must(ParseBitcoinAccount(b.Account(), 42_00))(t)
		require.Equal(t, want, former.TransactionURL("1f"))
	}
}

// parseBIP21 reads a URI by the grammar of BIP-21 and BIP-321 and nothing more.
func parseBIP21(t *testing.T, uri string) (address string, params map[string]string) {
	t.Helper()
	rest, found := strings.CutPrefix(uri, "bitcoin:")
	require.True(t, found)
	address, query, found := strings.Cut(rest, "?")
	require.True(t, found)
	require.Regexp(t, `^[0-9A-Za-z]+$`, address)
	params = make(map[string]string)
	for pair := range strings.SplitSeq(query, "&") {
		key, value, found := strings.Cut(pair, "=")
		require.True(t, found, pair)
		require.NotContains(t, params, key, "a key stands once")
		require.False(t, strings.HasPrefix(key, "req-"), "wallets refuse what they are required to know")
		require.Regexp(t, `^([A-Za-z0-9._~/?:@!$'()*,;-]|%[0-9A-F]{2})*$`, value)
		params[key] = unescape(t, value)
	}
	return address, params
}

// unescape decodes percent-encoding and leaves a plus sign as it is.
func unescape(t *testing.T, s string) string {
	t.Helper()
	return regexp.MustCompile(`%[0-9A-F]{2}`).ReplaceAllStringFunc(s, func(escape string) string {
		const hex = "0123456789ABCDEF"
		return string([]byte{byte(strings.IndexByte(hex, escape[1])<<4 | strings.IndexByte(hex, escape[2]))})
	})
}

// hostile are texts that would change a URI if they were not escaped.
var hostile = []string{
	"Example Offer", "a&amount=9", "a?b=c#d", "1+1=2", "100%", "100%25", "%0D%0ABcc: x@y.example", `"quoted" 'text'`,
	"Ünïcødé 支払い 🙂", "a;b,c:d/e@f", "<script>", "",
}

func TestBitcoinLinkIsBIP21(t *testing.T) {
	const account = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"
	for _, label := range hostile {
		b := must(NewBitcoin(account, label, 4200))(t)
		methods := b.Methods(nil, Live{Satoshis: 42_001, RateAt: time.Unix(0, 0)})
		require.Len(t, methods, 1)
		m := methods[0]
		require.True(t, m.Available)
		require.Equal(t, "42001", m.AmountAtomic)
		address, params := parseBIP21(t, m.URI)
		require.Equal(t, account, address)
		require.Equal(t, account, m.PayTo)
		require.Equal(t, map[string]string{"amount": "0.00042001", "label": label}, params)
		require.Equal(t, "1970-01-01T00:45:00Z", m.ValidUntil)
	}
}

// Bitcoin Core's dust limits by the kind of address, in satoshis.
func TestBitcoinDustAmountIsUnavailable(t *testing.T) {
	at := time.Date(2026, 11, 21, 8, 30, 0, 0, time.UTC)
	for account, dust := range map[string]int64{
		"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa":                             546, // P2PKH
		"37VucYSaXLCAsxYyAPfbSi9eh4iEcbShgf":                             540, // P2SH
		"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4":                     294, // P2WPKH
		"bc1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qccfmv3": 330, // P2WSH
		"tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sl5k7": 330,
		"bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0": 330, // P2TR
		zpub: 294,
	} {
		b := must(NewBitcoin(account, "Example", 4200))(t)
		for satoshis, reason := range map[int64]string{
			dust: "", dust + 1: "", 2_100_000_000_000_000: "",
			dust - 1: fmt.Sprintf("the amount is %d satoshis, and wallets send no less than %d", dust-1, dust),
			1:        "wallets send no less",
			0:        "more than all bitcoin that can exist", // what package rate says of such an amount
		} {
			m := b.Methods(nil, Live{Satoshis: satoshis, RateAt: at, Address: currentAddress})[0]
			require.Equal(t, reason == "", m.Available, "%d to %s", satoshis, account)
			require.Contains(t, m.Reason, reason)
			require.NotContains(t, m.Reason, "no current", "there is a rate")
			if !m.Available {
				require.Equal(t, []any{"", "", "", "", []Fact(nil)}, []any{m.Link(), m.AmountAtomic, m.PayTo, m.ValidUntil, m.Facts})
			}
		}
	}
}

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

func TestExtendedKeyMustBeAccountKey(t *testing.T) {
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

func TestParseBitcoinAccountRoundTrip(t *testing.T) {
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

func TestExtendedKeyFirstAddressCheck(t *testing.T) {
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
		{tpub, "", "", `Add 'first_address <address>'`},
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

func TestChangeScript(t *testing.T) {
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
