package offer

import (
	"encoding/hex"
	"strings"
	"testing"

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

func TestBitcoinAddressesOfEveryKind(t *testing.T) {
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

func TestBitcoinAccountRefusesWhatIsNoAddress(t *testing.T) {
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

func TestBitcoinPrivateKeyIsNeverRepeated(t *testing.T) {
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

func TestExtendedPublicKeyPublishesItsReceivingAddresses(t *testing.T) {
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

func TestExtendedPublicKeyIsChecked(t *testing.T) {
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

func TestScriptPubKeyIsThatOfTheAddress(t *testing.T) {
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

func TestATransactionIsShownByTheExplorerOfItsNetwork(t *testing.T) {
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
