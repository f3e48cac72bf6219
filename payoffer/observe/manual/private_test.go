package manual

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Its digits alone are the number of a card, and the whole is none.
func TestAnIBANIsNamedAsOne(t *testing.T) {
	for _, iban := range ibansWithACard(t) {
		require.ErrorContains(t, CheckPublishable(iban), "looks like an IBAN", iban)
	}
}

// ibansWithACard are German account numbers in groups, of whose digits some are a card's.
func ibansWithACard(t *testing.T) (found []string) {
	t.Helper()
	for account := 0; len(found) < 20; account++ {
		for check := range 100 {
			number := fmt.Sprintf("DE%02d37040044%010d", check, account)
			if isIBAN(number) && holdsNumber(number[4:8]+" "+number[8:12]+" "+number[12:16]+" "+number[16:20]+" "+number[20:], isCard) {
				found = append(found, number[:4]+" "+number[4:8]+" "+number[8:12]+" "+number[12:16]+" "+number[16:20]+" "+number[20:])
			}
		}
	}
	return found
}

func TestAReferenceThatWouldPublishSomebodyIsRefused(t *testing.T) {
	for reference, kind := range map[string]string{
		"jane.doe@example.org":                  "an e-mail address",
		"from jane@mail.example.org, INV-7":     "an e-mail address",
		"<jane+tag@example.co>":                 "an e-mail address",
		"DE89370400440532013000":                "an IBAN",
		"DE89 3704 0044 0532 0130 00":           "an IBAN",
		"de89-3704-0044-0532-0130-00":           "an IBAN",
		"from GB82 WEST 1234 5698 7654 32 memo": "an IBAN",
		"NO93 8601 1117 947":                    "an IBAN",
		"IBAN:FR1420041010050500013M02606":      "an IBAN",
		"4242424242424242":                      "a card number",
		"4242 4242 4242 4242":                   "a card number",
		"paid by 4242-4242-4242-4242 twice":     "a card number",
		"4242  4242 -4242 4242":                 "a card number",
		"378282246310005":                       "a card number",
		"4242.4242.4242.4242":                   "a card number",
		"4242/4242/4242/4242":                   "a card number",
		"4242_4242, 4242:4242":                  "a card number",
		"3782.822463.10005":                     "a card number",
		"42 42 42 42 42 42 42 42":               "a card number",
		"4242\u00a04242\u202f4242 4242":         "a card number",
		"４２４２４２４２４２４２４２４２":                      "a card number",
		"４２４２／4242．4242・4242":                   "a card number",
		"DE89.3704.0044.0532.0130.00":           "an IBAN",
		"DE89/3704/0044/0532/0130/00":           "an IBAN",
		"DE 89 3704:0044_0532|0130,00":          "an IBAN",
		"ＤＥ８９３７０４００４４０５３２０１３０００":                      "an IBAN",
		"ｄｅ89-3704－0044–0532—0130 00":                 "an IBAN",
		"D.E.8.9.3.7.0.4.0.0.4.4.0.5.3.2.0.1.3.0.0.0": "an IBAN",
		"GB33 BUKB 2020 1555 5555 55":                 "an IBAN",
		"jane＠example．org":                            "an e-mail address",
		"ｊａｎｅ@example。org":                            "an e-mail address",
		"jane@example.org 4242 4242 4242 4242":        "an e-mail address",
	} {
		require.ErrorContains(t, CheckPublishable(reference), "looks like "+kind, reference)
		require.ErrorContains(t, CheckPublishable(reference), "use an invoice number")
	}
	for _, reference := range []string{
		"INV-7", "2026-11-20/7", "RE 2026 0815", "A-m3CDDC5dlrSdKZp0RFhA==", "4242424242424241", "DE88370400440532013000",
		"RF18 5390 0754 7034", "eip155:8453:0xabababababababababababababababababababababababababababababababab:0", "pi_3MtwBwLkdIwHu7ix28a3tqPa",
		"order @ shop", "a@b", "20.11.2026 15:04:05", "2026/11/20 15.04.06", "2026-11-20T15:04:05Z", "192.168.100.200", "ＩＮＶ－７", "1.234.567,89 EUR", "transfer of 20.11. no 42", "redacted-abcdefghijklmnop",
	} {
		require.NoError(t, CheckPublishable(reference), reference)
	}
}
