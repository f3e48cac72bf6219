package command

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"text/tabwriter"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/payoffer/caddy-pay-offer/payoffer/desk"
)

func announcementsCommand() *cobra.Command {
	cmd := asking(&cobra.Command{
		Use:   "announcements [--retry {<seq> | all} | --skip {<seq> | all}] [--offer <id>] [--json] [--address <interface>] [--config <path>] [--adapter <name>]",
		Short: "Shows the receivers of announcements, and what is set aside",
		Long: `
Lists the receivers of announcements, and what was set aside because a receiver
refused it for three days: the later ones went on without it.

--retry sends it once more, now and out of its order, which the data say with
"outOfOrder": true; what is refused again stays set aside. --skip forgets it:
its receiver will not be told.`,
		Example: "  caddy pay-offer announcements\n  caddy pay-offer announcements --retry all\n  caddy pay-offer announcements --skip 12",
	}, announcements)
	cmd.Flags().String("retry", "", "Send again what is set aside: its number, or all")
	cmd.Flags().String("skip", "", "Forget what is set aside: its number, or all")
	cmd.Flags().String("offer", "", "With --retry and --skip: the id of the offer, if there are several")
	cmd.Flags().Bool("json", false, "Print the answer of the admin API as it is")
	cmd.MarkFlagsMutuallyExclusive("retry", "skip")
	return cmd
}

func announcements(fl caddycmd.Flags, out io.Writer) error {
	for _, action := range []string{"retry", "skip"} {
		if which := fl.String(action); which != "" {
			return decideAsides(fl, out, action, which)
		}
	}
	return show(fl, out, desk.PathAnnouncements, printAnnouncements)
}

// offersAnnounced is the answer of GET /pay_offer/announcements.
type offersAnnounced struct {
	Offers []desk.Announcements `json:"offers"`
}

func printAnnouncements(out io.Writer, answer offersAnnounced) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "OFFER\tRECEIVER\tBEHIND\tLAST ERROR")
	for _, offer := range answer.Offers {
		for _, r := range offer.Receivers {
			fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", printable(offer.Offer), printable(r.Host), r.Behind, cmp.Or(printable(r.LastError), "-"))
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, offer := range answer.Offers {
		if len(offer.SetAside) == 0 {
			continue
		}
		fmt.Fprintf(out, "\nset aside for %s; --retry or --skip them\n", printable(offer.Offer))
		fmt.Fprintln(table, "SEQ\tRECEIVER\tRECEIPT\tKIND\tSINCE\tREASON")
		for _, a := range offer.SetAside {
			fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\n", a.Seq, cmp.Or(printable(a.Host), "not configured any more"),
				printable(a.Receipt), printable(a.Kind), printable(a.Since), printable(a.Reason))
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func decideAsides(fl caddycmd.Flags, out io.Writer, action, which string) error {
	asked := desk.AsideAction{Offer: fl.String("offer"), Action: action}
	if which != "all" {
		seq, err := strconv.ParseInt(which, 10, 64)
		if err != nil || seq < 1 {
			return fmt.Errorf("--%s takes a number of the list, or all", action)
		}
		asked.Seq = seq
	}
	done, err := ask[desk.AsidesDone](fl, http.MethodPost, desk.PathAnnouncements, asked)
	if err != nil {
		return err
	}
	for _, a := range done.Taken {
		fmt.Fprintf(out, "%d %s: taken by %s, out of its order\n", a.Seq, printable(a.Receipt), printable(a.Host))
	}
	for _, a := range done.Forgotten {
		fmt.Fprintf(out, "%d %s: forgotten\n", a.Seq, printable(a.Receipt))
	}
	for _, a := range done.Left {
		fmt.Fprintf(out, "%d %s: not taken (%s)\n", a.Seq, printable(a.Receipt), printable(a.Reason))
	}
	switch {
	case len(done.Left) > 0:
		return fmt.Errorf("%d stay set aside", len(done.Left))
	case len(done.Taken)+len(done.Forgotten) == 0:
		fmt.Fprintln(out, "nothing is set aside")
	}
	return nil
}
