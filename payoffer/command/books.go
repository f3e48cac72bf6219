package command

import (
	"encoding/json"
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
	cmd := withAdminFlags(&cobra.Command{
		Use:     "intents",
		Short:   "Lists x402 payments with an unknown or unverified outcome",
		Example: "  caddy pay-offer intents --claims",
	}, printIntents)
	cmd.Flags().Bool("claims", false, "List payments that only a facilitator or you reported as settled")
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
	path, none := operator.PathIntents, "no payment has an unknown outcome"
	if fl.Bool("claims") {
		path, none = operator.PathClaims, "no payment has an unverified outcome"
	}
	count := 0
	for {
		page, err := callAdmin[operator.Intents](fl, http.MethodGet, path+"?"+query.Encode(), nil)
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

// printIntent prints an x402 payment for people: since when it is open, or when its outcome was last changed.
func printIntent(out io.Writer, r operator.Intent) error {
	when := "since " + r.CreatedAt
	if r.State != "settling" {
		when = "as of " + r.UpdatedAt
	}
	amount := fmt.Sprintf("%d atomic units", r.Amount)
	if r.AmountUSD != nil {
		amount = r.AmountUSD.String() + " USD"
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
	return nil
}

func resolveCommand() *cobra.Command {
	cmd := withAdminFlags(&cobra.Command{
		Use:   "resolve",
		Short: "Sets the outcome of an x402 payment that nothing else can decide",
		Long: `
Look the payment up at a block explorer first: the transaction that paid it
contains the event AuthorizationUsed of the token, with this payer and nonce.
The outcome that you set is not counted; the chain replaces it as soon as it can
be read. While the chain is read, this command is refused.
--not-paid also retracts a claim of a facilitator or of yours.`,
		Example: `  caddy pay-offer resolve --network base --from 0x… --nonce 0x… --not-paid --reason "nonce unused at the explorer"
  caddy pay-offer intents --claims`,
	}, resolveIntent)
	cmd.Flags().String("network", "", "The chain, such as base or eip155:8453")
	cmd.Flags().String("from", "", "The payer's address")
	cmd.Flags().String("nonce", "", "The authorization's nonce")
	cmd.Flags().String("paid", "", "It was paid, by this transaction")
	cmd.Flags().Bool("not-paid", false, "It was not paid, and can no longer be paid")
	cmd.Flags().String("reason", "", "How you know; logged and not published")
	cmd.Flags().Bool("json", false, "Print the answer of the admin API unchanged")
	cmd.MarkFlagsMutuallyExclusive("paid", "not-paid")
	cmd.MarkFlagsOneRequired("paid", "not-paid")
	return cmd
}

func resolveIntent(fl caddycmd.Flags, out io.Writer) error {
	body := operator.IntentOutcome{
		Network: fl.String("network"), From: fl.String("from"), Nonce: fl.String("nonce"),
		Outcome: "paid", Transaction: fl.String("paid"), Reason: fl.String("reason"),
	}
	if fl.Bool("not-paid") {
		body.Outcome = "not_paid"
	}
	return show(fl, out, http.MethodPost, operator.PathIntents, body, printIntent)
}

func rotateKeyCommand() *cobra.Command {
	cmd := withAdminFlags(&cobra.Command{
		Use:   "rotate-key",
		Short: "Makes a new key for signed offers and receipts",
		Long: `
Makes a new key for signed offers and receipts. It signs ten minutes later, when
every instance and cache has it. Former keys stay published.
--revoke is for a stolen key: former keys are withdrawn, the new key signs at
once, and receipts that former keys signed can no longer be verified.`,
		Example: "  caddy pay-offer rotate-key\n  caddy pay-offer rotate-key --revoke",
	}, rotateKey)
	cmd.Flags().String("offer", "", "The id of the offer, if there are several")
	cmd.Flags().Bool("revoke", false, "Withdraw all former keys")
	cmd.Flags().Bool("json", false, "Print the answer of the admin API unchanged")
	return cmd
}

func rotateKey(fl caddycmd.Flags, out io.Writer) error {
	body := operator.KeyRotation{Offer: fl.String("offer"), Revoke: fl.Bool("revoke")}
	return show(fl, out, http.MethodPost, operator.PathKeys, body, printRotatedKey)
}

func printRotatedKey(out io.Writer, key operator.RotatedKey) error {
	former := "former keys stay published"
	if key.Revoked {
		former = "all former keys are withdrawn"
	}
	_, err := fmt.Fprintf(out, "%s signs from %s; %s\n", printable(key.KeyID), printable(key.SignsFrom), former)
	return err
}
