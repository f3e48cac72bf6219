package manual

import (
	"testing"

	"github.com/stretchr/testify/require"
)

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
	} {
		require.ErrorContains(t, CheckPublishable(reference), "looks like "+kind, reference)
		require.ErrorContains(t, CheckPublishable(reference), "use an invoice number")
	}
	for _, reference := range []string{
		"INV-7", "2026-11-20/7", "RE 2026 0815", "A-m3CDDC5dlrSdKZp0RFhA==", "4242424242424241", "DE88370400440532013000",
		"RF18 5390 0754 7034", "eip155:8453:0xabababababababababababababababababababababababababababababababab:0", "pi_3MtwBwLkdIwHu7ix28a3tqPa",
		"order @ shop", "a@b", "transfer of 20.11. no 42", "redacted-abcdefghijklmnop",
	} {
		require.NoError(t, CheckPublishable(reference), reference)
	}
}
