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
// one that is a slip away, or the only one that begins so; empty for none.
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
	if nearest != "" || len(word) < 2 {
		return nearest
	}
	begun := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return !strings.HasPrefix(strings.ReplaceAll(k, "-", "_"), word) })
	if len(begun) == 1 {
		return begun[0]
	}
	return ""
}

// DidYouMean is Suggest as an aside: " (did you mean 'card'?)", or nothing.
func DidYouMean(word string, known []string) string {
	if meant := Suggest(word, known); meant != "" {
		return " (did you mean '" + meant + "'?)"
	}
	return ""
}

// distance is the number of bytes to put in, take out or change between two words, or to
// swap with the next (optimal string alignment, after Damerau and Levenshtein).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			changed := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				changed++
			}
			rows[i][j] = min(changed, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
