package offer

import (
	"strings"
	"testing"

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

func TestTransferLinkAsksForTheInvoiceByMail(t *testing.T) {
	for _, text := range hostile {
		for _, inbox := range []string{"pay@example.com", "pay+42@example.com", "a&b?c#d%e@example.com", "o'brien/x=y@example.com", "käse@münchen.example"} {
			transfer := must(NewTransfer("wire", inbox, text, text, 4250))(t)
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
		_, err := NewTransfer("transfer", "pay@example.com", text, "Example", 4200)
		require.ErrorContains(t, err, "line break")
		_, err = NewTransfer("transfer", "pay@example.com", "Example", text, 4200)
		require.ErrorContains(t, err, "line break")
	}
	require.Error(t, errorOf(NewTransfer("transfer", "Pay <pay@example.com>", "Example", "Example", 4200)))
}

func TestParseMailboxTakesABareAddress(t *testing.T) {
	for _, in := range []string{
		"", "pay", "@example.com", "pay@", "Pay <pay@example.com>", "<pay@example.com>", " pay@example.com", "pay@example.com ",
		"pay@example.com, b@example.com", "\tpay@example.com", "pay@example.com\t", "pay@example.com\r\n ", "pay@example.com\r\nBcc: b@example.net", "pay@example.com\n", `"pay me"@example.com`, `"pay"@example.com`,
		"pay@example.com (comment)", "pay@[127.0.0.1]", "mailto:pay@example.com", "a@b@example.com", "pay..me@example.com", ".pay@example.com",
	} {
		require.ErrorContains(t, errorOf(ParseMailbox(in)), "not an e-mail address", in)
	}
}
