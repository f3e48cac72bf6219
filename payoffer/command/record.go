package command

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/payoffer/caddy-pay-offer/payoffer/desk"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/manual"
)

func recordCommand() *cobra.Command {
	cmd := asking(&cobra.Command{
		Use:   "record --rail <rail> --reference <text> [--amount <usd>] [--date <day>] [--reason <text>] [--correct | --reverse | --restore] [--offer <id>] [--address <interface>] [--config <path>] [--adapter <name>]",
		Short: "Enters, corrects, reverses or restores a receipt",
		Long: `
Enters money that no other source tells of, such as a bank transfer, into the
ledger of the running server. The reference names the payment for good and is
published with the receipt; the reason stays in the history. Entering the same
again changes nothing, and nothing is ever deleted.

A storefront's sale that is only asserted is confirmed by entering it with its
sale id. What a chain shows is neither entered nor reversed by hand.`,
		Example: `  caddy pay-offer record --rail transfer --reference INV-7 --amount 42 --date 2026-11-20
  caddy pay-offer record --rail transfer --reference INV-7 --correct --amount 40 --reason "the bank kept a fee"
  caddy pay-offer record --rail transfer --reference INV-7 --reverse --reason "recalled by the payer's bank"
  caddy pay-offer record --rail transfer --reference INV-7 --restore --reason "the recall was refused"`,
	}, recordEntry)
	cmd.Flags().String("rail", "", "The name of the rail, as in transfer")
	cmd.Flags().String("reference", "", "What names the payment for good; it is published")
	cmd.Flags().String("amount", "", "US dollars that arrived, as in 42 or 42.50")
	cmd.Flags().String("date", "", "When it arrived, as in 2026-11-20 (default: now)")
	cmd.Flags().String("reason", "", "Why; not published, needed for all but a new entry")
	cmd.Flags().String("offer", "", "The id of the offer, if there are several")
	cmd.Flags().Bool("correct", false, "Give an entry another amount or date")
	cmd.Flags().Bool("reverse", false, "Take a receipt out of the sums")
	cmd.Flags().Bool("restore", false, "Undo --reverse")
	cmd.MarkFlagsMutuallyExclusive("correct", "reverse", "restore")
	return cmd
}

func recordEntry(fl caddycmd.Flags, out io.Writer) error {
	body := desk.ReceiptEntry{
		Action: "enter", Offer: fl.String("offer"), Rail: fl.String("rail"), Reference: fl.String("reference"),
		Date: fl.String("date"), Reason: fl.String("reason"),
	}
	for _, action := range []string{"correct", "reverse", "restore"} {
		if fl.Bool(action) {
			body.Action = action
		}
	}
	if amount := fl.String("amount"); amount != "" {
		if _, err := manual.ParseAmount(amount); err != nil {
			return err
		}
		body.Amount = json.Number(amount)
	}
	row, err := ask[desk.Receipt](fl, http.MethodPost, desk.PathReceipts, body)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s %s: %s of %s, %s, evidence %s, version %d\n", printable(row.Rail), printable(row.Reference),
		worth(row), day(row), printable(row.Status), printable(row.Evidence), row.Version)
	return err
}
