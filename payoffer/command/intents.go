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
)

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
