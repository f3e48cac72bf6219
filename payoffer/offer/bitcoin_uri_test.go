package offer

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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

func TestBitcoinLinkIsABIP21Payment(t *testing.T) {
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
func TestAnAmountThatCannotBeSentIsNotAvailable(t *testing.T) {
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
