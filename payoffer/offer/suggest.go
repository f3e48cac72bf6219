package offer

import (
	"slices"
	"strings"
)

// synonyms are words for one thing each: what operators call it, and what it is called
// here, as an option or as a rail.
var synonyms = [][]string{
	{"card", "stripe", "checkout", "credit_card", "payment_link"},
	{"usdc", "x402", "evm", "ethereum", "base", "stablecoin", "crypto", "wallet"},
	{"bitcoin", "btc", "xpub", "onchain"},
	{"bank_transfer", "transfer", "bank", "sepa", "wire", "ach", "iban"},
	{"storefront", "gumroad", "shop", "store"},
	{"announce", "webhook", "notify"},
	{"amount", "price", "cost", "usd"},
	{"base_url", "url", "origin", "domain", "host"},
	{"contact", "email", "mail"},
	{"operator", "payee", "owner", "company"},
	{"name", "title"},
	{"testnet", "test", "sandbox"},
	{"webhook_secret", "secret", "signing_secret"},
	{"api_key", "key", "secret_key"},
	{"account_holder", "holder", "account_name", "account_holder_name"},
	{"routing", "aba", "routing_number"},
	{"account", "account_number"},
	{"bic", "swift"},
}

// Suggest is the known word that was most likely meant by another: one for the same thing,
// or one that is a slip away; empty for none.
func Suggest(word string, known []string) string {
	word = strings.ReplaceAll(strings.ToLower(word), "-", "_")
	for _, group := range synonyms {
		if !slices.Contains(group, word) {
			continue
		}
		if i := slices.IndexFunc(known, func(k string) bool { return slices.Contains(group, k) }); i >= 0 {
			return known[i]
		}
	}
	nearest, least := "", min(2, (len(word)-1)/2)+1 // slips: at most two, and fewer in a short word
	for _, k := range known {
		if d := distance(word, strings.ReplaceAll(k, "-", "_")); d < least {
			nearest, least = k, d
		}
	}
	return nearest
}

// DidYouMean is Suggest as an aside: " (did you mean 'card'?)", or nothing.
func DidYouMean(word string, known []string) string {
	if meant := Suggest(word, known); meant != "" {
		return " (did you mean '" + meant + "'?)"
	}
	return ""
}

// distance is the number of bytes to put in, take out or change between two words
// (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		above := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := above
			if a[i] != b[j] {
				changed++
			}
			above, row[j+1] = row[j+1], min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
