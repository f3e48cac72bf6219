package command

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/manual"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
)

func recordCommand() *cobra.Command {
	cmd := asking(&cobra.Command{
		Use:   "record --rail <rail> --reference <text> [--amount <usd>] [--date <day>] [--reason <text>] [--correct | --reverse | --restore | --refund <amount> | --value <usd> | --redact] [--transaction <hash>] [--offer <id>] [--address <interface>] [--config <path>] [--adapter <name>]",
		Short: "Enters a receipt, its refunds or its value, and corrects it",
		Long: `
Enters money that no other source tells of, such as a bank transfer, into the
ledger of the running server. The reference names the payment for good and is
published with the receipt; the reason stays in the history. The same again
changes nothing, and nothing is ever deleted: every entry can be undone.

Name a sale of a storefront without a token by its sale id. What a chain shows
is neither entered nor reversed by hand.

--refund enters what went back of any receipt, in the receipt's own unit: USD
for dollars, USDC, BTC, or its currency. It is a fact of its own, dated with
--date (default: now), and what was paid stays. --transaction names the
transfer on the chain by which it went back; those that may be refunds are
listed by 'received'. What a provider tells by itself is refunded at the
provider.

--restore undoes --reverse; where nothing is reversed, it takes the refunds back
that you entered, or with --transaction that one.

--value states what a payment is worth in US dollars that no source can value.

--redact replaces a published reference by a random one, for good, except on a
rail whose provider tells of payments by itself: one could come back under its
id.

A day (2026-11-20) begins at midnight in the time zone of this machine (TZ).`,
		Example: `  caddy pay-offer record --rail transfer --reference INV-7 --amount 42 --date 2026-11-20
  caddy pay-offer record --rail transfer --reference INV-7 --refund 10 --reason "half of the order"
  caddy pay-offer record --rail usdc --reference eip155:8453:0x…:0 --refund 10 --transaction 0x… --reason "sent back"
  caddy pay-offer record --rail card --reference pi_… --value 42 --reason "rate of the bank, 6300 JPY"
  caddy pay-offer record --rail transfer --reference INV-7 --correct --amount 40 --reason "the bank kept a fee"
  caddy pay-offer record --rail transfer --reference INV-7 --reverse --reason "recalled by the payer's bank"
  caddy pay-offer record --rail transfer --reference INV-7 --restore --reason "the recall was refused"
  caddy pay-offer record --rail transfer --reference "Jane Doe" --redact --reason "a name"`,
	}, recordEntry)
	cmd.Flags().String("rail", "", "The name of the rail, as in transfer")
	cmd.Flags().String("reference", "", "What names the payment for good; it is published")
	cmd.Flags().String("amount", "", "US dollars that arrived, as in 42 or 42.50")
	cmd.Flags().String("date", "", "When it arrived, or went back, as in 2026-11-20 or 2026-11-20T15:04:05+01:00 (default: now)")
	cmd.Flags().String("reason", "", "Why; not published, needed for all but a new entry")
	cmd.Flags().String("offer", "", "The id of the offer, if there are several")
	cmd.Flags().Bool("correct", false, "Give an entry another amount or date")
	cmd.Flags().Bool("reverse", false, "Take a receipt out of the sums")
	cmd.Flags().Bool("restore", false, "Undo --reverse or --refund")
	cmd.Flags().String("refund", "", "What went back, in the receipt's own unit")
	cmd.Flags().String("transaction", "", "With --refund and --restore: the hash of the transfer by which it went back")
	cmd.Flags().String("value", "", "What it is worth in US dollars, where no source knows it")
	cmd.Flags().Bool("redact", false, "Replace the published reference, for good")
	return cmd
}

// entryFlags are the flags that ask for something else than a new entry.
var entryFlags = []string{"correct", "reverse", "restore", "refund", "value", "redact"}

func recordEntry(fl caddycmd.Flags, out io.Writer) error {
	body := operator.ReceiptEntry{
		Action: "enter", Offer: fl.String("offer"), Rail: fl.String("rail"), Reference: fl.String("reference"),
		Transaction: fl.String("transaction"), Reason: fl.String("reason"),
	}
	amount := "amount" // the flag that says it
	var asked []string
	for _, action := range entryFlags {
		if fl.Changed(action) && fl.Lookup(action).Value.String() != "false" {
			body.Action, asked = action, append(asked, "--"+action)
		}
	}
	if body.Action == "refund" || body.Action == "value" {
		amount = body.Action
	}
	if err := checkZone(); err != nil {
		return err
	}
	switch {
	case len(asked) > 1:
		return fmt.Errorf("%s cannot be done at once; give one of them", strings.Join(asked, " and "))
	case body.Rail == "" || body.Reference == "":
		return errors.New("name the receipt: --rail with the name of its rail, and --reference with what names the payment")
	case amount != "amount" && fl.Changed("amount"):
		return fmt.Errorf("--amount is what arrived and has no place beside --%s, which has an amount of its own", amount)
	case fl.Changed(amount) && !fl.Changed("refund"): // whose unit the server knows
		if _, err := manual.ParseAmount(fl.String(amount)); err != nil {
			return err
		}
	}
	body.Amount = json.Number(fl.String(amount))
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
	row, err := ask[operator.Receipt](fl, http.MethodPost, operator.PathReceipts, body)
	if err != nil {
		return err
	}
	return printEntry(out, row)
}

// printEntry prints what stands after an entry.
func printEntry(out io.Writer, r operator.Receipt) error {
	lines := []string{fmt.Sprintf("%s %s: %s of %s, %s, evidence %s, version %d", r.Rail, r.Reference,
		worth(r), local(r.OccurredAt), r.Status, r.Evidence, r.Version)}
	if r.ValueBasis == "stated" {
		lines = append(lines, fmt.Sprintf("  worth %s by your statement; paid %s %s", worth(r), r.Paid, r.Unit))
	}
	if r.Refunded != 0 {
		lines = append(lines, fmt.Sprintf("  paid %s, refunded %s, left %s %s", r.Paid, r.Returned, r.Left, r.Unit))
	}
	for _, w := range r.Returns {
		if w.Gone && w.Amount != "" {
			lines = append(lines, fmt.Sprintf("  %s of %s %s at %s", w.Kind, w.Amount, cmp.Or(w.Unit, r.Unit), local(w.At)))
		}
	}
	for _, change := range r.History {
		if change.Reason != "" {
			lines = append(lines, fmt.Sprintf("  reason of version %d: %s", change.Version, change.Reason))
		}
	}
	for _, sentence := range r.Said {
		lines = append(lines, "  "+sentence)
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
