package payoffertest

import "strings"

// The addresses and the key that stand for a seller's own. Their private keys were random
// and are gone.
const (
	EVMAddress          = "0x1cac062dE46Bf3f84EB932552e73fB3a76D1cd3f"
	OtherEVMAddress     = "0xe60234251284E3Aedf95a28bF6e9f2658b481dAA"
	BitcoinKey          = "xpub6BpHRB6BScYSiZk6WaSf4fJuciSsvJmmdAyTRUAAz8xaBT4FT47xVonJQ7Mzr5owkj7rm7AScCbjE16biqvGYuroh7j4ho7pugS4Te18EqG"
	BitcoinZpub         = "zpub6qUp2WS1jydQRA8LBJ1uUqVuxejmoYkmTQ1tzFwwk9iLHeghxNT5jw6aSXHAqu7na1MUG4MZXXJpzaKjAEkJ9PE1Ro7usckoT8ZMEkuD3G6" // the same key
	BitcoinFirstAddress = "bc1q36x28y4dcfyvdc5c5jnwgqpf5zzfj502x47wsq"
)

// Placeholders are those of the documentation, which no server loads, each followed by
// what the tests of the documentation put in its place.
var Placeholders = []string{
	"YOUR_USDC_ADDRESS", EVMAddress, "YOUR_TEST_WALLET", OtherEVMAddress,
	"YOUR_XPUB", BitcoinKey, "YOUR_BITCOIN_ADDRESS", BitcoinFirstAddress,
}

// FillIn replaces the placeholders of the documentation with addresses.
func FillIn(text string) string { return strings.NewReplacer(Placeholders...).Replace(text) }
