package payoffer

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The mistakes that newcomers make get a sentence that says what to write.
func TestTypicalMistakesGetAdvice(t *testing.T) {
	const seed = "legal winner thank year wave sausage worth useful legal winner thank yellow"
	for options, want := range map[string]string{
		"amount 42 EUR":              "write it as: amount <US dollars>, a number without a currency, such as amount 42",
		"accent #0f766e":             "write it as: accent <6 hexadecimal digits>, such as accent 0f766e; a # begins a comment",
		"announce ntfy":              "the address of the topic is missing; write for example 'announce ntfy https://ntfy.sh/your-topic'",
		"announce email":             "the mailbox is missing; write for example 'announce email me@example.org'",
		"card {env.NOPE}":            "{env.NOPE} is not set; set it, or write for example 'card https://buy.stripe.com/YOUR_LINK'",
		"usdc {env.NOPE} 0x1":        "{env.NOPE} is not set; set it, or write it before the address, such as 'usdc base 0x…'",
		"bitcoin " + seed:            "this looks like a private key or a seed phrase",
		"bitcoin \"" + seed + "\"":   "this looks like a private key or a seed phrase",
		"usdc base " + seed:          "this looks like a private key or a seed phrase",
		"usdc base \"" + seed + "\"": "this looks like a private key or a seed phrase",
	} {
		err := validate(t, "http://localhost:8402 {\n\tpay_offer {\n\t\tbase_url http://localhost:8402\n\t\t"+options+"\n\t}\n}\n")
		require.ErrorContains(t, err, want, options)
		require.NotContains(t, err.Error(), "sausage", options)
	}
	err := validate(t, "http://localhost:8402 {\n\tpay_offer {\n\t\tbase_url {env.NOPE}\n\t}\n}\n")
	require.ErrorContains(t, err, "base_url: {env.NOPE} is not set; set it, or write the address that payers use")
}
