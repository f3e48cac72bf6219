package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

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

func intentsCommand() *cobra.Command {
	cmd := asking(&cobra.Command{
		Use:   "intents [--offer <id>] [--json] [--address <interface>] [--config <path>] [--adapter <name>]",
		Short: "Lists x402 payments whose outcome is unknown",
	}, printIntents)
	cmd.Flags().String("offer", "", "The id of the offer, if there are several")
	cmd.Flags().Bool("json", false, "Print one JSON object for each")
	return cmd
}

// printIntents prints all pages.
func printIntents(fl caddycmd.Flags, out io.Writer) error {
	query := url.Values{"limit": {strconv.Itoa(desk.MaxPage)}}
	if id := fl.String("offer"); id != "" {
		query.Set("offer", id)
	}
	count := 0
	for {
		page, err := ask[desk.Intents](fl, http.MethodGet, desk.PathIntents+"?"+query.Encode(), nil)
		if err != nil {
			return err
		}
		for _, intent := range page.Intents {
			if !fl.Bool("json") {
				printIntent(out, intent)
			} else if err := json.NewEncoder(out).Encode(intent); err != nil {
				return err
			}
		}
		count += len(page.Intents)
		if page.Next == nil {
			break
		}
		query.Set("after", strconv.FormatInt(*page.Next, 10))
	}
	if count == 0 && !fl.Bool("json") {
		fmt.Fprintln(out, "no payment is open")
	}
	return nil
}

// printIntent prints an open payment, or what became of it, for people.
func printIntent(out io.Writer, r desk.Intent) {
	amount := fmt.Sprintf("%d atomic units", r.Amount)
	if r.AmountUSD != nil {
		amount = printable(r.AmountUSD.String()) + " USD"
	}
	fmt.Fprintf(out, "%s on %s for %s, %s since %s\n", amount, printable(r.Network), printable(r.Offer), printable(r.State), printable(r.CreatedAt))
	for _, line := range [][2]string{
		{"from", r.From}, {"nonce", r.Nonce}, {"facilitator", r.Facilitator}, {"transaction", r.Transaction},
		{"reason", r.Reason}, {"waits", r.Waiting},
	} {
		if line[1] != "" {
			fmt.Fprintf(out, "  %-12s %s\n", line[0], printable(line[1]))
		}
	}
}

func resolveCommand() *cobra.Command {
	cmd := asking(&cobra.Command{
		Use:   "resolve --network <chain> --from <address> --nonce <hex> {--paid <transaction> | --not-paid} --reason <text> [--address <interface>] [--config <path>] [--adapter <name>]",
		Short: "Says what became of an x402 payment that nothing else can decide",
		Long: `
Look the payment up at a block explorer first: the token's event
AuthorizationUsed with this payer and nonce stands in the transaction that paid.
What you say is a claim and counted in no sum; the chain's word replaces it as
soon as it can be read. While the chain is read, it decides and this is refused.`,
		Example: `  caddy pay-offer resolve --network base --from 0x… --nonce 0x… --not-paid --reason "nonce unused at the explorer"`,
	}, resolveIntent)
	cmd.Flags().String("network", "", "The chain, as in base or eip155:8453")
	cmd.Flags().String("asset", "", "The token contract (default: USDC on the chain)")
	cmd.Flags().String("from", "", "The payer's address")
	cmd.Flags().String("nonce", "", "The authorization's nonce")
	cmd.Flags().String("paid", "", "It was paid, by this transaction")
	cmd.Flags().Bool("not-paid", false, "It was not paid and cannot be any more")
	cmd.Flags().String("reason", "", "How you know; kept in the log and not published")
	cmd.MarkFlagsMutuallyExclusive("paid", "not-paid")
	cmd.MarkFlagsOneRequired("paid", "not-paid")
	return cmd
}

func resolveIntent(fl caddycmd.Flags, out io.Writer) error {
	body := desk.IntentOutcome{
		Network: fl.String("network"), Asset: fl.String("asset"), From: fl.String("from"), Nonce: fl.String("nonce"),
		Outcome: "paid", Transaction: fl.String("paid"), Reason: fl.String("reason"),
	}
	if body.Transaction == "" {
		if !fl.Bool("not-paid") {
			return errors.New("say --paid with the hash of the transaction, or --not-paid")
		}
		body.Outcome = "not_paid"
	}
	resolved, err := ask[desk.Intent](fl, http.MethodPost, desk.PathIntents, body)
	if err == nil {
		printIntent(out, resolved)
	}
	return err
}

func rotateKeyCommand() *cobra.Command {
	cmd := asking(&cobra.Command{
		Use:   "rotate-key [--offer <id>] [--revoke] [--address <interface>] [--config <path>] [--adapter <name>]",
		Short: "Makes a new key for signed offers and receipts",
		Long: `
Makes a new key for signed offers and receipts. It is published at once, and
signs ten minutes later, when every instance and every cache knows it. Former
keys stay published, so that receipts which they signed can still be checked.

With --revoke, for a key that was stolen, former keys are withdrawn and the new
one signs at once: no receipt that they signed can be checked any more.`,
	}, rotateKey)
	cmd.Flags().String("offer", "", "The id of the offer, if there are several")
	cmd.Flags().Bool("revoke", false, "Withdraw all former keys")
	return cmd
}

func rotateKey(fl caddycmd.Flags, out io.Writer) error {
	body := desk.KeyRotation{Offer: fl.String("offer"), Revoke: fl.Bool("revoke")}
	key, err := ask[desk.RotatedKey](fl, http.MethodPost, desk.PathKeys, body)
	if err != nil {
		return err
	}
	former := "former keys stay published"
	if key.Revoked {
		former = "all former keys are withdrawn"
	}
	_, err = fmt.Fprintf(out, "%s signs from %s; %s\n", printable(key.KeyID), printable(key.SignsFrom), former)
	return err
}
