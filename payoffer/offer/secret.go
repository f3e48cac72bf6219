package offer

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode"
)

// walletKeys are what private keys look like, wherever they stand in a text.
var walletKeys = []struct {
	kind string
	form *regexp.Regexp
}{
	{"a private key", regexp.MustCompile(`\b0[xX][0-9a-fA-F]{64}\b`)},
	// In the path of an address such digits are a hash: of a transaction, of a commit.
	{"a private key", regexp.MustCompile(`(^|://|[^\w/?#&=%.:@-])[0-9a-fA-F]{64}($|\W)`)},
	{"a private key", regexp.MustCompile(`\b([59KLc][1-9A-HJ-NP-Za-km-z]{50,51}|6P[1-9A-HJ-NP-Za-km-z]{56})\b`)}, // WIF, BIP-38
	{"an extended private key", regexp.MustCompile(`\b[A-Za-z]prv[0-9A-Za-z]{60}`)},
}

// seedWordsFile is the English word list of BIP-39, one a line
// (https://github.com/bitcoin/bips/blob/master/bip-0039/english.txt, MIT licence).
//
//go:embed seed_words.txt
var seedWordsFile string

var seedWords = sync.OnceValue(func() map[string]bool {
	words := make(map[string]bool)
	for word := range strings.FieldsSeq(seedWordsFile) {
		words[word] = true
	}
	return words
})

// SeedLength is how many words the shortest seed phrase in use has.
const SeedLength = 12

// seedPhrase is the shape of one in any language that has letters from A to Z, where
// nothing but an account is expected.
var seedPhrase = regexp.MustCompile(`^\s*([A-Za-z]+\s+){11,}[A-Za-z]+\s*$`)

// holdsSeedPhrase reports whether of twelve words in a row all but one are of the list,
// whatever stands between them but other words. The list has no article and hardly a
// preposition, so that sentences have no such row. The checksum is not asked for: a
// phrase with one slip is worth as much to a thief, and other wallets have another.
func holdsSeedPhrase(text string) bool {
	var others []int // which of the words are not of the list
	n := 0
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) }) {
		if n++; !seedWords()[strings.ToLower(word)] {
			others = append(others, n)
		}
		if len(others) > 0 && others[0] <= n-SeedLength {
			others = others[1:]
		}
		if n >= SeedLength && len(others) <= 1 {
			return true
		}
	}
	return false
}

// CheckNoWalletSecret refuses a text that holds the seed phrase or a private key of a
// wallet. The error repeats nothing of it.
func CheckNoWalletSecret(text string) error {
	kind := ""
	if holdsSeedPhrase(text) {
		kind = "the seed phrase of a wallet"
	}
	for _, key := range walletKeys {
		if kind == "" && key.form.MatchString(text) {
			kind = key.kind
		}
	}
	if kind == "" {
		return nil
	}
	return walletSecret(kind)
}

// walletSecret is the refusal of a kind of secret.
func walletSecret(kind string) error {
	return fmt.Errorf("this looks like %s, which no option takes, for whoever reads it takes the money; "+
		"move that money to a new wallet now, and remove this here and from the shell's history", kind)
}
