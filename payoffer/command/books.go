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

	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
)

func intentsCommand() *cobra.Command {
	cmd := asking(&cobra.Command{
		Use:   "intents [--claims] [--offer <id>] [--json] [--address <interface>] [--config <path>] [--adapter <name>]",
		Short: "Lists x402 payments whose outcome is unknown, or is a claim",
	}, printIntents)
	cmd.Flags().Bool("claims", false, "List those that are settled by a facilitator's word alone, or by yours")
	cmd.Flags().String("offer", "", "The id of the offer, if there are several")
	cmd.Flags().Bool("json", false, "Print one JSON object for each")
	return cmd
}

// printIntents prints all pages.
func printIntents(fl caddycmd.Flags, out io.Writer) error {
	query := url.Values{"limit": {strconv.Itoa(operator.MaxPage)}}
	if id := fl.String("offer"); id != "" {
		query.Set("offer", id)
	}
	path, none := operator.PathIntents, "no payment is open"
	if fl.Bool("claims") {
		path, none = operator.PathClaims, "no payment rests on a claim"
	}
	count := 0
	for {
		page, err := ask[operator.Intents](fl, http.MethodGet, path+"?"+query.Encode(), nil)
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
		fmt.Fprintln(out, none)
	}
	return nil
}

// printIntent prints an open payment, or what became of it, for people. It is open
// since it came, and what is decided was last changed when it was decided, or told.
func printIntent(out io.Writer, r operator.Intent) {
	when := "since " + r.CreatedAt
	if r.State != "settling" {
		when = "as of " + r.UpdatedAt
	}
	amount := fmt.Sprintf("%d atomic units", r.Amount)
	if r.AmountUSD != nil {
		amount = printable(r.AmountUSD.String()) + " USD"
	}
	fmt.Fprintf(out, "%s on %s for %s, %s %s\n", amount, printable(r.Network), printable(r.Offer), printable(r.State), printable(when))
	for _, line := range [][2]string{
		{"from", r.From}, {"nonce", r.Nonce}, {"facilitator", r.Facilitator}, {"transaction", r.Transaction},
		{"evidence", r.Evidence}, {"reason", r.Reason}, {"waits", r.Waiting},
	} {
		if line[1] != "" {
			fmt.Fprintf(out, "  %-12s %s\n", line[0], printable(line[1]))
		}
	}
}

func resolveCommand() *cobra.Command {
	cmd := asking(&cobra.Command{
		Use:   "resolve --network <chain> --from <address> --nonce <hex> {--paid <transaction> | --not-paid} --reason <text> [--address <interface>] [--config <path>] [--adapter <name>]",
		Short: "Says what became of an x402 payment, or takes a claim back",
		Long: `
Look the payment up at a block explorer first: the token's event
AuthorizationUsed with this payer and nonce stands in the transaction that paid.
What you say is a claim and counted in no sum; the chain's word replaces it as
soon as it can be read. While the chain is read, it decides and this is refused.

With --not-paid a claim is taken back, a facilitator's or yours, and its
transaction may be named by another payment; with --paid, what you called unpaid
is a claim again.`,
		Example: `  caddy pay-offer resolve --network base --from 0x… --nonce 0x… --not-paid --reason "nonce unused at the explorer"
  caddy pay-offer intents --claims`,
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
	body := operator.IntentOutcome{
		Network: fl.String("network"), Asset: fl.String("asset"), From: fl.String("from"), Nonce: fl.String("nonce"),
		Outcome: "paid", Transaction: fl.String("paid"), Reason: fl.String("reason"),
	}
	if body.Transaction == "" {
		if !fl.Bool("not-paid") {
			return errors.New("say --paid with the hash of the transaction, or --not-paid")
		}
		body.Outcome = "not_paid"
	}
	resolved, err := ask[operator.Intent](fl, http.MethodPost, operator.PathIntents, body)
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
	body := operator.KeyRotation{Offer: fl.String("offer"), Revoke: fl.Bool("revoke")}
	key, err := ask[operator.RotatedKey](fl, http.MethodPost, operator.PathKeys, body)
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
