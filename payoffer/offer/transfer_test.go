package offer

import (
	"strings"
	"testing"

	"github.com/skip2/go-qrcode"
	"github.com/stretchr/testify/require"
)

// parseMailto reads a URI by RFC 6068: no plus sign stands for a space.
func parseMailto(t *testing.T, uri string) (to string, fields map[string]string) {
	t.Helper()
	rest, found := strings.CutPrefix(uri, "mailto:")
	require.True(t, found)
	to, query, found := strings.Cut(rest, "?")
	require.True(t, found)
	require.Regexp(t, `^([A-Za-z0-9._~!$'()*:-]|%[0-9A-F]{2})+@([A-Za-z0-9._~!$'()*:-]|%[0-9A-F]{2})+$`, to)
	fields = make(map[string]string)
	for pair := range strings.SplitSeq(query, "&") {
		key, value, found := strings.Cut(pair, "=")
		require.True(t, found, pair)
		require.NotContains(t, fields, key)
		require.Regexp(t, `^([A-Za-z0-9._~!$'()*:@/?-]|%[0-9A-F]{2})*$`, value)
		fields[key] = unescape(t, value)
	}
	return unescape(t, to), fields
}

func TestTransferLinkIsMailto(t *testing.T) {
	for _, text := range hostile {
		for _, inbox := range []string{"pay@example.com", "pay+42@example.com", "a&b?c#d%e@example.com", "o'brien/x=y@example.com", "käse@münchen.example"} {
			transfer := must(NewBankTransfer("wire", inbox, text, text, 4250))(t)
			methods := transfer.Methods(nil, Live{})
			require.Len(t, methods, 1)
			to, fields := parseMailto(t, methods[0].URI)
			require.Equal(t, inbox, to)
			require.Len(t, fields, 2)
			require.Equal(t, "42.50 USD bank transfer: "+text, fields["subject"])
			require.Equal(t, []string{
				"Please send me an invoice for a bank transfer.", "", "Amount: 42.50 USD", "Payee: " + text, "Memo: " + text, "",
			}, strings.Split(fields["body"], "\r\n"))
			require.Equal(t, "wire", methods[0].Scheme)
			require.Equal(t, text, methods[0].Memo)
		}
	}
}

func TestTransferRefusesLineBreaks(t *testing.T) {
	for _, text := range []string{"a\nb", "a\r\nBcc: thief@example.net", "a\x00b", "a\x7fb", "a\u0085b"} {
		_, err := NewBankTransfer("transfer", "pay@example.com", text, "Example", 4200)
		require.ErrorContains(t, err, "line break")
		_, err = NewBankTransfer("transfer", "pay@example.com", "Example", text, 4200)
		require.ErrorContains(t, err, "line break")
	}
	require.Error(t, errorOf(NewBankTransfer("transfer", "Pay <pay@example.com>", "Example", "Example", 4200)))
}

func TestParseMailboxNeedsBareAddress(t *testing.T) {
	for _, in := range []string{
		"", "pay", "@example.com", "pay@", "Pay <pay@example.com>", "<pay@example.com>", " pay@example.com", "pay@example.com ",
		"pay@example.com, b@example.com", "\tpay@example.com", "pay@example.com\t", "pay@example.com\r\n ", "pay@example.com\r\nBcc: b@example.net", "pay@example.com\n", `"pay me"@example.com`, `"pay"@example.com`,
		"pay@example.com (comment)", "pay@[127.0.0.1]", "mailto:pay@example.com", "a@b@example.com", "pay..me@example.com", ".pay@example.com",
	} {
		require.ErrorContains(t, errorOf(ParseMailbox(in)), "not an e-mail address", in)
	}
}

// ibans are the examples of the SWIFT IBAN Registry for some countries, of every shape.
var ibans = []string{
	"AD12 0001 2030 2003 5910 0100", "AT61 1904 3002 3457 3201", "BE68 5390 0754 7034", "CH93 0076 2011 6238 5295 7", "CY17 0020 0128 0000 0012 0052 7600",
	"DE89 3704 0044 0532 0130 00", "ES91 2100 0418 4502 0005 1332", "FI21 1234 5600 0007 85", "FR14 2004 1010 0505 0001 3M02 606", "GB29 NWBK 6016 1331 9268 19",
	"GI75 NWBK 0000 0000 7099 453", "IE29 AIBK 9311 5212 3456 78", "IT60 X054 2811 1010 0000 0123 456", "LC55 HEMM 0001 0001 0012 0012 0002 3015", "MT84 MALT 0110 0001 2345 MTLC AST0 01S",
	"NL91 ABNA 0417 1643 00", "NO93 8601 1117 947", "PL61 1090 1014 0000 0712 1981 2874", "SE45 5000 0000 0583 9825 7466", "TR33 0006 1005 1978 6457 8413 26",
}

func TestParseIBANFormats(t *testing.T) {
	for _, printed := range ibans {
		bare := strings.ReplaceAll(printed, " ", "")
		for _, in := range []string{printed, bare, strings.ToLower(printed), strings.ReplaceAll(printed, " ", "\u00a0"), " " + bare + " "} {
			got, err := ParseIBAN(in)
			require.NoError(t, err, in)
			require.Equal(t, bare, got)
		}
		require.Equal(t, printed, inGroups(bare))
	}
}

// Every digit that is mistyped and every two that changed places are noticed: that is what
// the check digits are for. No error repeats a number that may be somebody's.
func TestParseIBANRefusesTypos(t *testing.T) {
	for _, printed := range ibans {
		bare := []byte(strings.ReplaceAll(printed, " ", ""))
		for i := 2; i < len(bare); i++ {
			slips := []string{string(bare[:i]) + string('0'+(bare[i]+1)%10) + string(bare[i+1:])}
			if i > 2 && bare[i] != bare[i-1] {
				slips = append(slips, string(bare[:i-1])+string([]byte{bare[i], bare[i-1]})+string(bare[i+1:]))
			}
			for _, slip := range slips {
				_, err := ParseIBAN(slip)
				require.Error(t, err, slip)
				require.NotContains(t, err.Error(), slip[4:8])
			}
		}
	}
	for in, want := range map[string]string{
		"":                            "this is not an IBAN",
		"12345678":                    "this is not an IBAN",
		"DE75 5121 0800":              "this is not an IBAN",
		"DE75 5121 0800 1245 1261":    "the check digits of this IBAN are wrong",
		"DE75 5121 0800 1245 1261 98": "the check digits of this IBAN are wrong",
		"DE75 5121 0800 1245 1261 9ü": "this is not an IBAN",
	} {
		require.ErrorContains(t, errorOf(ParseIBAN(in)), want, in)
	}
}

func TestParseBIC(t *testing.T) {
	for in, want := range map[string]string{
		"SOGEDEFF": "SOGEDEFF", "sogedeffxxx": "SOGEDEFFXXX", "TRWIBEB1XXX": "TRWIBEB1XXX", "COBA DE FF XXX": "COBADEFFXXX", "A1B2DE3F": "A1B2DE3F",
	} {
		got, err := ParseBIC(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got)
	}
	for _, in := range []string{"", "SOGEDEF", "SOGEDEFFX", "SOGEDEFFXX", "SOGEDEFFXXXX", "SOGE1EFF", "SOGEDE/F", "DE89370400440532013000"} {
		require.ErrorContains(t, errorOf(ParseBIC(in)), "this is not a BIC", in)
	}
}

func TestParseRouting(t *testing.T) {
	for _, in := range []string{"021000021", "011401533", "091000019", "121000358", "0210-0002-1", "026009593"} {
		_, err := ParseRouting(in)
		require.NoError(t, err, in)
	}
	for in, want := range map[string]string{
		"021000022": "check digit", "012000021": "check digit", "000000000": "9 digits", "991000021": "9 digits", "02100002": "9 digits", "0210000210": "9 digits", "02100002a": "9 digits", "": "9 digits",
	} {
		require.ErrorContains(t, errorOf(ParseRouting(in)), want, in)
	}
	for _, in := range []string{"123", "123456789012345678", "12a4", ""} {
		require.ErrorContains(t, errorOf(ParseAccount(in)), "4 to 17 digits", in)
	}
	account := must(ParseAccount("00-1234 5678"))(t)
	require.Equal(t, "0012345678", account, "zeros in front are part of it")
}

func TestBankAccountMustBeComplete(t *testing.T) {
	const german, swiss, french = "DE75512108001245126199", "CH9300762011623852957", "FR1420041010050500013M02606"
	for name, c := range map[string]struct {
		bank Bank
		want string
	}{
		"an IBAN":                  {Bank{AccountHolderName: "A", IBAN: german}, ""},
		"with its bank":            {Bank{AccountHolderName: "A", IBAN: german, BIC: "SOGEDEFF", AmountEUR: 1}, ""},
		"the United States":        {Bank{AccountHolderName: "A", RoutingNumber: "021000021", AccountNumber: "1234"}, ""},
		"both":                     {Bank{AccountHolderName: "A", IBAN: german, RoutingNumber: "021000021", AccountNumber: "1234"}, ""},
		"a name of 70":             {Bank{AccountHolderName: strings.Repeat("ü", 70), IBAN: german}, ""},
		"Swiss":                    {Bank{AccountHolderName: "A", IBAN: swiss, BIC: "POFICHBE"}, ""},
		"nothing":                  {Bank{AccountHolderName: "A"}, "has no account"},
		"no holder":                {Bank{IBAN: german}, "account_holder is missing"},
		"no holder over there":     {Bank{RoutingNumber: "021000021", AccountNumber: "1234"}, "account_holder is missing"},
		"a name of 71":             {Bank{AccountHolderName: strings.Repeat("ü", 71), IBAN: german}, "at most 70 characters"},
		"a line break":             {Bank{AccountHolderName: "A\nDE00", IBAN: german}, "a line break"},
		"a code alone":             {Bank{AccountHolderName: "A", BIC: "SOGEDEFF"}, "bic needs iban"},
		"a price alone":            {Bank{AccountHolderName: "A", AmountEUR: 39_00, RoutingNumber: "021000021", AccountNumber: "1234"}, "price_eur needs iban"},
		"a routing number alone":   {Bank{AccountHolderName: "A", RoutingNumber: "021000021"}, "are needed together"},
		"a number alone":           {Bank{AccountHolderName: "A", AccountNumber: "1234"}, "are needed together"},
		"half a pair, beside IBAN": {Bank{AccountHolderName: "A", IBAN: german, AccountNumber: "1234"}, "are needed together"},
		"a bank of an island":      {Bank{AccountHolderName: "A", IBAN: french, BIC: "BNPARERX"}, ""},
		"Swiss, no code":           {Bank{AccountHolderName: "A", IBAN: swiss}, "add 'bic <code>'"},
	} {
		transfer := must(NewBankTransfer("transfer", "pay@example.com", "Example 42", "Example", 42_00))(t)
		err := transfer.Publish(c.bank)
		if c.want == "" {
			require.NoError(t, err, name)
			require.NotNil(t, transfer.Methods(nil, Live{})[0].Bank, name)
		} else {
			require.ErrorContains(t, err, c.want, name)
			require.NotContains(t, err.Error(), "1245", name)
		}
	}
}

// The largest text that is accepted fits into a code of the standard's size.
func TestEPCCodeSizeLimit(t *testing.T) {
	publish := func(letters int) (string, error) {
		transfer := must(NewBankTransfer("transfer", "pay@example.com", strings.Repeat("ü", letters), "Example", 42_00))(t)
		err := transfer.Publish(Bank{AccountHolderName: strings.Repeat("ü", 70), IBAN: "MT84MALT011000012345MTLCAST001S", BIC: "MMEBMTMT001", AmountEUR: 999_999_99})
		return transfer.Methods(nil, Live{})[0].Code(), err
	}
	text := must(publish(50))(t)
	require.ErrorContains(t, errorOf(publish(50+(maxEPC-len(text))/2+1)), "at most 331 bytes")
	text = must(publish(50 + (maxEPC-len(text))/2))(t)
	code := must(qrcode.New(text, qrcode.Medium))(t)
	require.LessOrEqual(t, code.VersionNumber, 13)
}
