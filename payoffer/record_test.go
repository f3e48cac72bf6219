package payoffer

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// runCommand runs a command against the instance's admin API.
func (o *operated) runCommand(command *cobra.Command, args ...string) (string, error) {
	o.t.Helper()
	var out bytes.Buffer
	command.SetOut(&out)
	command.SetErr(&out)
	command.SilenceUsage = true
	command.SetArgs(append(args, "--address", o.address))
	err := command.Execute()
	return out.String(), err
}

func TestCommandRecordKeepsTheBooks(t *testing.T) {
	o := newOperated(t, books)
	for _, c := range []struct{ args, want string }{
		{"--amount 42 --date 2026-11-20", "transfer INV-7: 42 USD of 2026-11-20, confirmed, evidence manual, version 1\n"},
		{"--amount 42 --date 2026-11-20", "transfer INV-7: 42 USD of 2026-11-20, confirmed, evidence manual, version 1\n"},
		{"--correct --amount 40.50 --reason fee", "transfer INV-7: 40.50 USD of 2026-11-20, confirmed, evidence manual, version 2\n"},
		{"--reverse --reason recalled", "transfer INV-7: 40.50 USD of 2026-11-20, reversed, evidence manual, version 3\n"},
		{"--restore --reason refused", "transfer INV-7: 40.50 USD of 2026-11-20, confirmed, evidence manual, version 4\n"},
	} {
		out, err := o.runCommand(recordCommand(), append([]string{"--rail", "transfer", "--reference", "INV-7"}, strings.Fields(c.args)...)...)
		require.NoError(t, err)
		require.Equal(t, c.want, out)
	}
}

func TestCommandRecordFailsWithTheServersSentence(t *testing.T) {
	o := newOperated(t, books)
	_, err := o.runCommand(recordCommand(), "--rail", "cash", "--reference", "INV-7", "--amount", "42")
	require.EqualError(t, err, `no rail is named "cash"; there are: card, usdc, transfer`)
	_, err = o.runCommand(recordCommand(), "--rail", "transfer", "--reference", "INV-7", "--amount", "42,50")
	require.ErrorContains(t, err, "write for example 42 or 42.50")
	_, err = o.runCommand(recordCommand(), "--rail", "transfer", "--reference", "INV-7", "--correct", "--reverse")
	require.ErrorContains(t, err, "correct reverse")
	o.address = "127.0.0.1:9"
	_, err = o.runCommand(recordCommand(), "--rail", "transfer", "--reference", "INV-7", "--amount", "42")
	require.ErrorContains(t, err, "127.0.0.1:9")
}

func TestCommandReceivedPrintsATable(t *testing.T) {
	o := newOperated(t, books)
	_, err := o.runCommand(recordCommand(), "--rail", "transfer", "--reference", "INV-7", "--amount", "42.50")
	require.NoError(t, err)
	_, err = o.runCommand(recordCommand(), "--rail", "transfer", "--reference", "INV-8", "--amount", "5")
	require.NoError(t, err)
	_, err = o.runCommand(recordCommand(), "--rail", "transfer", "--reference", "INV-8", "--reverse", "--reason", "recalled")
	require.NoError(t, err)
	openPayment(t, "0x01", func(*ledger.Intent) {})

	out, err := o.runCommand(receivedCommand())
	require.NoError(t, err)
	lines := strings.Split(out, "\n")
	require.Equal(t, offer.Host(o.service)+": 42.50 USD received, 42.50 of it from others; the goal of 42.00 is reached; partial", lines[0])
	require.Equal(t, []string{"RAIL", "STATE", "CONFIRMED", "SEEN", "CLAIMED", "SETTLING", "REFUNDED", "REVERSED", "LAG", "ERROR"}, strings.Fields(lines[1]))
	require.Equal(t, "usdc (test) unknown unknown unknown - 42.00 (1) unknown unknown - -", strings.Join(strings.Fields(lines[3]), " "))
	require.Regexp(t, `^transfer +(observed|manual) +42\.50 \(1\) +- +- +- +- +5\.00 \(1\) +- +-$`, lines[4])

	raw, err := o.runCommand(receivedCommand(), "--json")
	require.NoError(t, err)
	require.Equal(t, "{\"offers\":[{\"id\":\""+offer.Host(o.service), strings.Split(raw, `","`)[0], "the answer as it is")
	require.True(t, json.Valid([]byte(raw)))
}

func TestCommandReceivedListsReceipts(t *testing.T) {
	o := newOperated(t, books)
	for _, reference := range []string{"INV-7", "INV-8"} {
		_, err := o.runCommand(recordCommand(), "--rail", "transfer", "--reference", reference, "--amount", "42", "--date", "2026-11-20", "--reason", "statement")
		require.NoError(t, err)
	}
	record(t)
	out, err := o.runCommand(receivedCommand(), "--receipts")
	require.NoError(t, err)
	lines := strings.Split(out, "\n")
	require.Contains(t, lines[1], "eip155:84532:0x01:0")
	require.Equal(t, "2 2026-11-20 transfer 42 USD confirmed manual INV-8 statement", strings.Join(strings.Fields(lines[2]), " "))
	out, err = o.runCommand(receivedCommand(), "--receipts", "--before", "2")
	require.NoError(t, err)
	require.Contains(t, out, "INV-7")
	require.NotContains(t, out, "INV-8")
	raw, err := o.runCommand(receivedCommand(), "--receipts", "--json", "--offer", offer.Host(o.service))
	require.NoError(t, err)
	require.True(t, json.Valid([]byte(raw)))
	_, err = o.runCommand(receivedCommand(), "--receipts", "--offer", "x")
	require.ErrorContains(t, err, "no offer has the id")
}

func TestCommandsListAndResolveOpenPayments(t *testing.T) {
	o := newOperated(t, books)
	out, err := o.runCommand(intentsCommand())
	require.NoError(t, err)
	require.Equal(t, "no payment is open\n", out)
	unpaid := openPayment(t, "0x01", func(i *ledger.Intent) { i.Reason = "timeout\x1b[2J\u202e" })

	out, err = o.runCommand(intentsCommand())
	require.NoError(t, err)
	require.Contains(t, out, "42 USD on eip155:84532 for "+offer.Host(o.service)+", settling since ")
	require.Contains(t, out, "\n  nonce        0x01\n")
	require.Contains(t, out, "\n  reason       timeout[2J\n", "nothing steers the terminal")
	raw, err := o.runCommand(intentsCommand(), "--json")
	require.NoError(t, err)
	require.Contains(t, raw, `"nonce":"0x01"`)

	key := []string{"--network", "base-sepolia", "--from", testPayer, "--nonce", "0x01", "--reason", "looked up"}
	_, err = o.runCommand(resolveCommand(), key...)
	require.ErrorContains(t, err, "not-paid")
	_, err = o.runCommand(resolveCommand(), append(key, "--paid", "")...)
	require.ErrorContains(t, err, "hash of the transaction")
	out, err = o.runCommand(resolveCommand(), append(key, "--not-paid")...)
	require.NoError(t, err)
	require.Contains(t, out, "refused since ")
	require.Equal(t, ledger.IntentRefused, storedIntent(t, unpaid.IntentKey).State)
	_, err = o.runCommand(resolveCommand(), append(key, "--paid", testTransaction)...)
	require.ErrorContains(t, err, "there is nothing to resolve")
}

func TestErrorsOfTheAdminAPIAreItsOwnWords(t *testing.T) {
	for text, want := range map[string]string{
		`caddy responded with error: HTTP 409: {"error":"it is: {so}"}` + "\n": "it is: {so}",
		`caddy responded with error: HTTP 409: {"error":"a\u001b[2Jb"}`:        "a[2Jb",
		`caddy responded with error: HTTP 404: 404 page not found`:             "caddy responded with error: HTTP 404: 404 page not found",
		`performing request: refused`:                                          "performing request: refused",
	} {
		require.EqualError(t, sentence(errors.New(text)), want)
	}
}
