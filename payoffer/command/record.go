package command

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/manual"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
)

func recordCommand() *cobra.Command {
	cmd := withAdminFlags(&cobra.Command{
		Use:   "record",
		Short: "Enters a payment or a refund that no other source reports",
		Long: `
Enters money that no other source reports, such as a bank transfer. The
reference identifies the payment for good and is published with its receipt; the
reason is private. Running the same command twice changes nothing. Nothing is
deleted. Payments on a chain cannot be entered or voided.

--void voids a wrong entry. Then enter it again under the same reference. A
voided payment that its provider reported comes back with --restore.
--refund enters a refund, in the unit of the receipt (USD, USDC, BTC, or its
currency); --transaction is its transfer on a chain. Refund card payments at the
provider instead. --restore undoes the refunds that you entered, or with
--transaction one of them.
--value states the US dollars of a payment whose value no source knows.
--own marks a card or bank payment as yours, for good: it is not a customer's.
Name your wallets by ignore_payer.
--redact replaces a published reference, such as a name, by a random one.
An entry that looks like a typo is refused; --sure enters it.
A day (2026-11-20) begins at midnight in the time zone of this machine (TZ).`,
		Example: `  caddy pay-offer record --rail transfer --reference INV-7 --amount 42 --date 2026-11-20
  caddy pay-offer record --rail transfer --reference INV-7 --refund 10 --reason "half of the order"
  caddy pay-offer record --rail usdc --reference eip155:8453:0x…:0 --refund 10 --transaction 0x… --reason "sent back"
  caddy pay-offer record --rail transfer --reference INV-7 --void --reason "recalled by the payer's bank"
  caddy pay-offer record --rail transfer --reference "Jane Doe" --redact --reason "a name"`,
	}, recordEntry)
	cmd.Flags().String("rail", "", "The name of the rail, such as transfer")
	cmd.Flags().String("reference", "", "Identifies the payment for good; it is published")
	cmd.Flags().String("amount", "", "US dollars that arrived, such as 42 or 42.50")
	cmd.Flags().String("date", "", "When it arrived or was refunded, such as 2026-11-20 or 2026-11-20T15:04:05+01:00 (default: now)")
	cmd.Flags().String("reason", "", "Why; not published, required except for a new entry")
	cmd.Flags().String("offer", "", "The id of the offer, if there are several")
	cmd.Flags().Bool("void", false, "Take a receipt out of the sums")
	cmd.Flags().Bool("restore", false, "Undo --refund, or --void of a payment that you did not enter")
	cmd.Flags().String("refund", "", "The refunded amount, in the receipt's own unit")
	cmd.Flags().String("transaction", "", "With --refund and --restore: the hash of the refund's transfer")
	cmd.Flags().String("value", "", "Its value in US dollars, if no source knows it")
	cmd.Flags().Bool("own", false, "Mark it as your own payment, for good")
	cmd.Flags().Bool("sure", false, "Enter it although amount, date or reference look wrong")
	cmd.Flags().Bool("redact", false, "Replace the published reference, for good")
	cmd.Flags().Bool("json", false, "Print the answer of the admin API unchanged")
	cmd.MarkFlagsMutuallyExclusive(entryFlags...)
	for _, name := range []string{"refund", "value"} {
		cmd.MarkFlagsMutuallyExclusive("amount", name)
	}
	for _, name := range []string{"rail", "reference"} {
		_ = cmd.MarkFlagRequired(name) // both exist
	}
	return cmd
}

// entryFlags are the flags of the actions other than enter.
var entryFlags = []string{"void", "restore", "refund", "value", "own", "redact"}

func recordEntry(fl caddycmd.Flags, out io.Writer) error {
	body := manual.Entry{
		Action: "enter", Offer: fl.String("offer"), Rail: fl.String("rail"), Reference: fl.String("reference"), Amount: json.Number(fl.String("amount")),
		Transaction: fl.String("transaction"), Reason: fl.String("reason"), Sure: fl.Bool("sure"),
	}
	for _, action := range entryFlags {
		if fl.Changed(action) && fl.String(action) != "false" {
			body.Action = action
		}
	}
	if body.Action == "refund" || body.Action == "value" {
		body.Amount = json.Number(fl.String(body.Action))
	}
	if err := checkZone(); err != nil {
		return err
	}
	if body.Amount != "" && !json.Valid([]byte(body.Amount)) {
		return fmt.Errorf("%.40q is not an amount; write for example 42 or 42.50", body.Amount)
	}
	if date := fl.String("date"); date != "" {
		at, err := manual.ParseDate(date, time.Local)
		if err != nil {
			return err
		}
		body.Date = at.Format(time.RFC3339)
	}
	return show(fl, out, http.MethodPost, operator.PathReceipts, body, printEntry)
}

// printEntry prints the receipt after an entry.
func printEntry(out io.Writer, r operator.Receipt) error {
	lines := []string{fmt.Sprintf("%s %s: %s of %s, %s, evidence %s, version %d", r.Rail, r.ID,
		r.Value(), local(r.OccurredAt), r.Classification().Word(), r.Evidence, r.Version)}
	if r.Own {
		lines = append(lines, "  your own payment, not a customer's")
	}
	if r.ValueBasis == "stated" {
		lines = append(lines, fmt.Sprintf("  worth %s by your statement; paid %s", r.Value(), r.Paid()))
	}
	if refunded := r.Refunded(); refunded != "" {
		lines = append(lines, fmt.Sprintf("  paid %s, refunded %s", r.Paid(), refunded))
	}
	for _, w := range r.Returns {
		if w.Gone && w.Amount != "" {
			lines = append(lines, fmt.Sprintf("  %s of %s at %s", w.Kind, w.Amount, local(w.At)))
		}
	}
	for _, hint := range r.Hints {
		lines = append(lines, "  "+hint)
	}
	if r.Page != "" {
		lines = append(lines, "  page for the payer: "+r.Page)
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(out, printable(line)); err != nil {
			return err
		}
	}
	return nil
}
