package offer

import (
	"encoding/json"
	"image/color"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// must fails the test if a call fails, and returns its value: must(call())(t).
func must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}

// newOffer is an offer on every kind of rail, on the networks and the Bitcoin
// account given.
func newOffer(t *testing.T, account string, chains ...string) *Offer {
	t.Helper()
	const amount = USD(4200)
	var rails []Rail
	for i, chain := range chains {
		n := must(LookupNetwork(chain))(t)
		name := "usdc"
		if i > 0 {
			name = "usdc-" + n.CAIP2()[len("eip155:"):]
		}
		rails = append(rails, must(NewUSDC(name, n, payee, amount))(t))
	}
	if account != "" {
		rails = append(rails, must(NewBitcoin(account, "Example", amount))(t))
	}
	rails = append(rails,
		must(NewBankTransfer("wire", "pay@example.com", "Example 42", "Example Org", amount))(t),
		must(NewStorefront("tip-jar", "https://shop.example/tip?a=b", amount))(t),
	)
	card := must(NewCard("https://checkout.example/pay", nil, amount))(t)
	terms := Terms{BaseURL: "https://pay.example.org:8443", SiteURL: "https://example.org", Account: "pay", Amount: amount}
	return must(New(terms, card, rails...))(t)
}

// currentAddress is an address of zpub.
const currentAddress = "bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu"

func TestMethodsFollowRails(t *testing.T) {
	o := newOffer(t, zpub, "base", "arbitrum")
	live := Live{Satoshis: 42_001, RateAt: time.Date(2026, 11, 21, 8, 30, 0, 0, time.UTC), Address: currentAddress}
	var got [][3]string
	for _, m := range o.Methods(live) {
		got = append(got, [3]string{m.Rail, m.Scheme, m.Network})
		require.True(t, m.Available)
		require.Equal(t, USD(4200), m.AmountUSD)
		require.NotEmpty(t, m.Title)
	}
	require.Equal(t, [][3]string{
		{"card", "stripe", "fiat"},
		{"usdc", "eip681", "eip155:8453"}, {"usdc", "x402", "eip155:8453"},
		{"usdc-42161", "eip681", "eip155:42161"}, {"usdc-42161", "x402", "eip155:42161"},
		{"btc", "bip21", bitcoinMain}, {"wire", "wire", "fiat"}, {"tip-jar", "storefront", "fiat"},
	}, got)
}

// An available method has one address and an unavailable one has none, but the
// reason.
func TestMethodHasOneAddress(t *testing.T) {
	o := newOffer(t, zpub, "base")
	for _, live := range []Live{{}, {Satoshis: 42_001}, {Address: currentAddress}, {Satoshis: 42_001, Address: currentAddress}} {
		for _, m := range o.Methods(live) {
			var got map[string]any
			require.NoError(t, json.Unmarshal(must(json.Marshal(m))(t), &got))
			_, hasURL := got["url"]
			_, hasURI := got["uri"]
			require.Equal(t, float64(42), got["amountUsd"])
			require.NotContains(t, got, "Facts")
			if got["available"] == true {
				require.NotEqual(t, hasURL, hasURI, m.Scheme)
				require.NotContains(t, got, "reason")
				require.NotEmpty(t, m.Link())
			} else {
				require.Equal(t, RailBitcoin, m.Rail)
				require.False(t, hasURL || hasURI)
				require.NotEmpty(t, got["reason"])
			}
		}
	}
}

func TestMethodFacts(t *testing.T) {
	o := newOffer(t, zpub, "base")
	facts := make(map[string]map[string]Phrase)
	copied := make(map[string]map[string]string)
	holds := make(map[string]Phrase)
	for _, m := range o.Methods(Live{Satoshis: 42_001, RateAt: time.Date(2026, 11, 21, 8, 30, 0, 0, time.UTC), Address: currentAddress}) {
		if m.Holds.Key != "" {
			holds[m.Rail] = m.Holds
		}
		for _, f := range m.Facts {
			if facts[m.Rail] == nil {
				facts[m.Rail], copied[m.Rail] = make(map[string]Phrase), make(map[string]string)
			}
			facts[m.Rail][f.Label] = f.Value
			if f.Copy != "" {
				copied[m.Rail][f.Label] = f.Copy
			}
		}
	}
	price := Phrase{Key: "fact.dollars", With: With{"amount": USD(42_00)}}
	require.Empty(t, facts["card"], "the default methods are not verified")
	const token = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
	require.Equal(t, map[string]Phrase{
		"send": coins("42", "USDC"), "network": Literal("Base"), "chain": Literal("8453"), "to": Literal(payee), "token": Literal(token),
	}, facts["usdc"])
	require.Equal(t, map[string]string{"send": "42", "to": payee, "token": token}, copied["usdc"])
	require.Equal(t, map[string]Phrase{
		"send": coins("0.00042001", "BTC"), "to": Literal(currentAddress),
	}, facts["btc"])
	require.Equal(t, map[string]string{"send": "0.00042001", "to": currentAddress}, copied["btc"])
	require.Equal(t, map[string]Phrase{"btc": {Key: "rail.btc.holds", With: With{"time": "09:15 UTC"}}}, holds)
	require.Equal(t, map[string]Phrase{"amount": price, "memo": Literal("Example 42")}, facts["wire"])
	require.Equal(t, map[string]string{"amount": "42.00", "memo": "Example 42"}, copied["wire"])
}

func TestNewRefusesDuplicateRailNames(t *testing.T) {
	card := must(NewCard("https://checkout.example/pay", nil, 4200))(t)
	for _, names := range [][2]string{{"pack", "pack"}, {"pack", "card"}} {
		one := must(NewStorefront(names[0], "https://shop.example/a", 4200))(t)
		other := must(NewStorefront(names[1], "https://shop.example/b", 4200))(t)
		require.ErrorContains(t, errorOf(New(Terms{}, card, one, other)), names[1])
	}
	require.ErrorContains(t, errorOf(New(Terms{}, nil)), "card")
}

// Who goes back after a payment must not be asked to pay again.
func TestNewRefusesHomeThatLeadsToCheckout(t *testing.T) {
	card := must(NewCard("https://checkout.example/pay", nil, 4200))(t)
	for home, refused := range map[string]bool{
		"": false, "https://example.org/": false, "https://checkout.example/pay": true, "https://example.org/offer/": true,
	} {
		_, err := New(Terms{SiteURL: "https://example.org", Home: home}, card)
		require.Equal(t, refused, err != nil, home)
	}
}

func TestOfferTestFlag(t *testing.T) {
	for _, c := range []struct {
		account string
		chains  []string
		test    bool
	}{
		{"", nil, false},
		{"", []string{"base"}, false},
		{zpub, []string{"base"}, false},
		{"", []string{"base-sepolia"}, true},
		{vpub, []string{"base-sepolia", "arbitrum-sepolia"}, true},
		{"", []string{"base", "base-sepolia"}, false},
		{vpub, []string{"base"}, false},
		{zpub, []string{"base-sepolia"}, false},
	} {
		require.Equal(t, c.test, newOffer(t, c.account, c.chains...).Test(), "%v", c)
	}
}

func TestRailAccountAndTestFlag(t *testing.T) {
	told := func(o *Offer) map[string]bool {
		o.ID = "pay.example"
		found := make(map[string]bool)
		for _, r := range o.Rails {
			found[o.AccountOf(r)] = r.Test()
		}
		return found
	}
	o := newOffer(t, vpub, "base", "base-sepolia")
	require.Equal(t, map[string]bool{
		"operator/pay.example/card": false, o.USDC()[0].Account(): false, o.USDC()[1].Account(): true, o.Bitcoin().Account(): true,
		"operator/pay.example/wire": false, "operator/pay.example/tip-jar": false,
	}, told(o))

	observed := newOffer(t, "")
	observed.Card.TestMode, observed.Card.PaymentLink = true, "plink_1"
	shop, _ := observed.Rail("tip-jar")
	shop.(*Storefront).Product = "p1"
	require.Equal(t, map[string]bool{"stripe/plink_1": true, "operator/pay.example/wire": false, "gumroad/p1": false}, told(observed))
}

func TestCheckRailName(t *testing.T) {
	for _, name := range []string{"transfer", "tip-jar", "pack", "a", "42", "a1-b2-c3", "usdcoin"} {
		require.NoError(t, CheckRailName(name), name)
	}
	for _, name := range []string{"card", "usdc", "usdc-8453", "usdc-x", "btc", "qr", "stripe", "eip681", "bip21", "x402", "preview"} {
		require.ErrorContains(t, CheckRailName(name), "reserved", name)
	}
	for _, name := range []string{"", "-", "a-", "-a", "a--b", "A", "a_b", "a.uri", "a/b", "..", "a b", "ä", "a\n", "a%2Fb"} {
		require.ErrorContains(t, CheckRailName(name), "is not the name of a rail", name)
	}
}

func TestCheckAccount(t *testing.T) {
	for _, name := range []string{"pay", "p", "pay.me", "pay-me_2"} {
		require.NoError(t, CheckAccount(name), name)
	}
	for _, name := range []string{"", "Pay", ".pay", "pay.", "-", "pay me", "pay@host", "pay+me", "päy", "pay\n", "a:b"} {
		require.Error(t, CheckAccount(name), name)
	}
}

func TestCardFallback(t *testing.T) {
	card := must(NewCard("https://checkout.example/pay", nil, 4200))(t)
	require.JSONEq(t, `{"scheme":"stripe","network":"fiat","amountUsd":42,"asset":"USD","url":"https://checkout.example/pay",
		"methods":["card","us_bank_account","cashapp","link","klarna","afterpay_clearpay","affirm"]}`,
		string(must(json.Marshal(card.Fallback()))(t)))
	few := must(NewCard("https://checkout.example/pay", []string{"link"}, 4200))(t)
	require.Equal(t, []string{"link"}, few.Fallback().Methods)
	require.Error(t, errorOf(NewCard("http://checkout.example/pay", nil, 4200)))
	require.Error(t, errorOf(NewStorefront("pack", "shop.example", 4200)))
}

// errorOf is the error of a call.
func errorOf[T any](_ T, err error) error { return err }

func TestCheckPrintable(t *testing.T) {
	for _, text := range []string{"a\nb", "a\x00b", "a\u2028b", "a\u200bb", "a\u202eb", "\ufeffa", "a\u00adb", "a\U000e0041b"} {
		require.ErrorContains(t, CheckPrintable(text), "invisible character", "%+q", text)
	}
	for _, text := range []string{"", "Jane Doe", "Müller & Söhne", "L’école\u00a0: 42\u202f€", "株式会社", "עברית", "1\ufe0f\u20e3", "☃ Ünï"} {
		require.NoError(t, CheckPrintable(text), "%+q", text)
	}
}

func TestCheckNoSecret(t *testing.T) {
	const key = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
	for _, secret := range []string{
		key, strings.ToUpper(key), "0x" + key, "https://" + key, "key " + key, "(" + key + ")",
		"xprv9s21ZrQH143K3QTDL4LXw2F7HEK3wJUD2nW2nRk4stbPy6cq3jPPqjiChkVvvNKmPGJxWUtg6LnF5kejMRNNU3TGtRBeJgk33yuGBxrMPHi",
	} {
		require.ErrorContains(t, CheckNoSecret(secret), "move that money to a new wallet now", secret)
	}
	for _, secret := range []string{"sk_live_51HqLyj", "rk_test_51HqLyj", "whsec_dGhpcyBp", "plink_1 sk_live_51HqLyj"} {
		require.ErrorContains(t, CheckNoSecret(secret), "a secret of a payment service", secret)
	}
	for _, text := range []string{
		"", "Thank you very much.", "https://example.org/tx/" + key, "https://example.org/tx/0x" + key, key[1:], key + "0",
		"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "desk_live_lamp",
	} {
		require.NoError(t, CheckNoSecret(text), text)
	}
}

func TestParseColor(t *testing.T) {
	for text, want := range map[string]Color{"#0F766E": DefaultAccent, "#000000": "#000000", "6B21a8": "#6b21a8", "#1652c4": "#1652c4", "ffcc00": "#ffcc00"} {
		c, err := ParseColor(text)
		require.NoError(t, err, text)
		require.Equal(t, want, c)
	}
	require.Equal(t, color.RGBA{0x0f, 0x76, 0x6e, 0xff}, DefaultAccent.RGBA())
	for text, says := range map[string]string{
		"teal": "is not a color", "#0f7": "is not a color", "#0f766e;}": "is not a color",
	} {
		require.ErrorContains(t, errorOf(ParseColor(text)), says, text)
	}
}

func TestParseUSDTakesPlainDecimals(t *testing.T) {
	for in, cents := range map[string]USD{
		"42": 4200, "42.5": 4250, "42.50": 4250, "42.05": 4205, "0.01": 1, "0.1": 10, "1000000": 100_000_000, "1000000.00": 100_000_000,
	} {
		got, err := ParseUSD(in)
		require.NoError(t, err, in)
		require.Equal(t, cents, got, in)
	}
}

func TestParseUSDRefusesInvalidAmounts(t *testing.T) {
	for _, in := range []string{
		"", ".", "42.", ".5", "-1", "+1", "1e2", "042", "00.5", "0x2a", "1_000", "1,000", "42,50", "1.2.3", "1.-5", "1.+5",
		"42.001", " 42", "42 ", "42\n", "$42", "42 USD", "NaN", "Inf", "４２",
	} {
		require.ErrorContains(t, errorOf(ParseUSD(in)), "is not an amount", in)
	}
	for _, in := range []string{"0", "0.0", "0.00", "1000000.01", "92233720368547758.08", "18446744073709551616", "1" + strings.Repeat("0", 400)} {
		require.ErrorContains(t, errorOf(ParseUSD(in)), "out of range", in)
	}
}

func TestParseDecimalTruncates(t *testing.T) {
	for _, c := range []struct {
		text   string
		digits int
		units  int64
		cut    bool
	}{
		{"90000.1234569", 6, 90_000_123_456, true}, {"90000.123456", 6, 90_000_123_456, false}, {"0.1", 0, 0, true}, {"7", 0, 7, false},
		{"9223372036854775807", 0, math.MaxInt64, false}, {"9223372036854775808", 0, math.MaxInt64, false},
		{"1" + strings.Repeat("0", 400), 2, math.MaxInt64, false},
	} {
		units, cut, ok := ParseDecimal(c.text, c.digits)
		require.True(t, ok, c.text)
		require.Equal(t, c.units, units, c.text)
		require.Equal(t, c.cut, cut, c.text)
	}
}

func TestUSDFormats(t *testing.T) {
	for _, c := range []struct {
		amount        USD
		text, decimal string
	}{{4200, "42", "42.00"}, {4250, "42.50", "42.50"}, {4205, "42.05", "42.05"}, {1, "0.01", "0.01"}, {-150, "-1.50", "-1.50"}, {-5, "-0.05", "-0.05"}, {0, "0", "0.00"}} {
		require.Equal(t, c.text, c.amount.String())
		require.Equal(t, c.decimal, c.amount.Decimal())
	}
}

// An atomic amount is exact and fits 63 bits up to the largest offer.
func TestAtomicAmountIsExact(t *testing.T) {
	for amount, atomic := range map[USD]string{1: "10000", 4200: "42000000", 4250: "42500000", maxUSD: "1000000000000"} {
		require.Equal(t, atomic, (&USDC{amount: amount}).AmountAtomic())
	}
}

func TestFormatDecimalSatoshis(t *testing.T) {
	for satoshis, coins := range map[int64]string{
		1: "0.00000001", 10: "0.0000001", 42_001: "0.00042001", 100_000_000: "1", 150_000_000: "1.5",
		1_000_000_000: "10", 2_100_000_000_000_000: "21000000",
	} {
		require.Equal(t, coins, FormatDecimal(satoshis, 8))
	}
}
