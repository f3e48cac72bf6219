package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
)

func passCommand() *cobra.Command {
	cmd := withAdminFlags(&cobra.Command{
		Use:   "pass",
		Short: "Lists, makes and revokes passes of gates",
		Long: `
A pass opens the gates of an offer in up to five browsers without a payment, and
counts as no payment. Whoever has its link can use it, until it ends or is
revoked. Without --for and --revoke the command lists the passes.`,
		Example: "  caddy pay-offer pass --for 30d --note Press\n  caddy pay-offer pass --revoke k3j6d7a2x4",
	}, pass)
	cmd.Flags().String("for", "", "Make a pass that is valid for this time, such as 30d")
	cmd.Flags().String("note", "", "What the new pass is for; not published")
	cmd.Flags().String("revoke", "", "The id of the pass to revoke")
	cmd.Flags().String("offer", "", "The id of the offer, if there are several")
	cmd.Flags().Bool("json", false, "Print the answer of the admin API unchanged")
	cmd.MarkFlagsMutuallyExclusive("for", "revoke")
	return cmd
}

func pass(fl caddycmd.Flags, out io.Writer) error {
	body := operator.PassChange{Offer: fl.String("offer"), Note: fl.String("note"), Revoke: fl.String("revoke")}
	if fl.String("for") != "" {
		lifetime, err := caddy.ParseDuration(fl.String("for"))
		if err != nil {
			return fmt.Errorf("--for: %.40q is not a duration; write for example 30d", fl.String("for"))
		}
		if lifetime < time.Minute || lifetime > 3650*24*time.Hour {
			return fmt.Errorf("a pass cannot be valid for %.40s; write 1m to 3650d, such as 30d", fl.String("for"))
		}
		body.Seconds = int64(lifetime.Seconds())
	}
	switch {
	case body.Note != "" && fl.String("for") == "":
		return errors.New("--note belongs to a new pass; add --for, such as --for 30d")
	case fl.String("for") == "" && body.Revoke == "":
		return show(fl, out, http.MethodGet, operator.PathPasses, nil, printPasses)
	}
	return show(fl, out, http.MethodPost, operator.PathPasses, body, printPass)
}

// printPass prints the pass after a change. A revoked pass has no link.
func printPass(out io.Writer, p operator.Pass) error {
	if p.Revoked != "" {
		_, err := fmt.Fprintf(out, "Pass %s is revoked; its browsers are signed out within 10 seconds\n", printable(p.ID))
		return err
	}
	_, err := fmt.Fprintf(out, "Pass %s is valid until %s. Send this link only to its user:\n%s\n", printable(p.ID), printable(p.Expires), printable(p.URL))
	return err
}

func printPasses(out io.Writer, answer perOffer[operator.Passes]) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "OFFER\tPASS\tEXPIRES\tREVOKED\tBROWSERS\tNOTE")
	for _, offer := range answer.Offers {
		for _, p := range offer.Passes {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\n", printable(offer.Offer), printable(p.ID), printable(p.Expires),
				cmp.Or(printable(p.Revoked), "-"), p.Browsers, cmp.Or(printable(p.Note), "-"))
		}
	}
	return table.Flush()
}
