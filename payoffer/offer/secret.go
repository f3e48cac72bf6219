package offer

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
)

var (
	// walletKey matches 64 hexadecimal digits that are not part of a URL's path, where
	// they are a hash, and an extended private key (BIP-32).
	walletKey = regexp.MustCompile(`(?:^|[\s"'(,;]|://)(?:0[xX])?[0-9a-fA-F]{64}(?:$|\W)|(?:^|\W)[A-Za-z]prv[0-9A-Za-z]{20}`)
	// seedPhrase matches twelve or more words in lower case, which restore a wallet (BIP-39), and nothing else.
	seedPhrase = regexp.MustCompile(`^\s*(?:[a-z]{3,8}\s+){11,24}[a-z]{3,8}\s*$`)
	// serviceKey matches a secret API key or a webhook signing secret of Stripe.
	serviceKey = regexp.MustCompile(`(?:^|[^A-Za-z0-9])(?:[sr]k_(?:live|test)|whsec)_[0-9A-Za-z]{6}`)
)

// CheckNoSecret refuses a text that contains a private key, an API key or a signing
// secret. The error does not repeat the text.
func CheckNoSecret(text string) error {
	switch {
	case walletKey.MatchString(text):
		return errWalletKey
	case serviceKey.MatchString(text):
		return errors.New("this looks like a secret of a payment service, and this option is published; write it at its own option as {env.NAME}, " +
			"and revoke it if this file was shown to others")
	}
	return nil
}

// CheckNoSeedPhrase refuses the words that restore a wallet, where no text for people is expected.
func CheckNoSeedPhrase(text string) error {
	if seedPhrase.MatchString(text) {
		return errWalletKey
	}
	return nil
}

var errWalletKey = errors.New("this looks like a private key or a seed phrase, which no option accepts, because everyone who reads it can take the money; " +
	"move that money to a new wallet now, and remove the key here and from the shell's history")

// testKeyAddresses are the first addresses of well-known test keys, with which anyone could
// take the money. The first address of an extended key is compared, in any spelling.
var testKeyAddresses = []string{
	// The mnemonic "abandon … about": BIP-84, 86, 49 and 44; the account keys of the last
	// three at the P2WPKH addresses that would be published; BIP-44 of Ethereum.
	"bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu",
	"bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr",
	"37VucYSaXLCAsxYyAPfbSi9eh4iEcbShgf",
	"1LqBGSKuX5yYUonjxT5qGfpUsXKYYWeabA",
	"bc1qalwlmdxd2ggue4290ekzxl9tetg56neexr6amw",
	"bc1qlxgx0xk2lcjuyas4xua5p0ezg3kjfl6yd3h8y6",
	"bc1qmxrw6qdh5g3ztfcwm0et5l8mvws4eva24kmp8m",
	"0x9858EfFD232B4033E47d90003D41EC34EcaEda94",
	// The private key 1: the P2WPKH address of BIP-173, and its others.
	"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
	"1BgGZ9tcN4rm9KBzDn7KprQz87SZ26SAMH",
	"3JvL6Ymt8MVWiCNHC7oWU6nLeHNJKLZGLN",
	"0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf",
	// Accounts 0 to 4 of Hardhat and Anvil.
	"0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
	"0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
	"0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC",
	"0x90F79bf6EB2c4f870365E785982E1f101E93b906",
	"0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65",
	// The examples of EIP-55.
	"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
	"0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
	"0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
	"0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
}

// CheckNoTestKey refuses an address, as rails return it, whose key is published.
func CheckNoTestKey(address string) error {
	if slices.Contains(testKeyAddresses, address) {
		return fmt.Errorf("%s belongs to a published test key, so anyone could take the money; write an address of your own wallet", address)
	}
	return nil
}
