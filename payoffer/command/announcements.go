package command

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
)

func announcementsCommand() *cobra.Command {
	cmd := asking(&cobra.Command{
		Use:   "announcements",
		Short: "Lists notification endpoints and undelivered notifications",
		Long: `
Lists each notification endpoint, its undelivered notifications and its last
error. A notification that is refused for three days is logged and skipped.`,
		Example: "  caddy pay-offer announcements",
	}, func(fl caddycmd.Flags, out io.Writer) error {
		return show(fl, out, operator.PathAnnouncements, printAnnouncements)
	})
	cmd.Flags().Bool("json", false, "Print JSON")
	return cmd
}

func printAnnouncements(out io.Writer, answer perOffer[operator.Announcements]) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "OFFER\tENDPOINT\tUNDELIVERED\tLAST ERROR")
	for _, offer := range answer.Offers {
		for _, r := range offer.Receivers {
			fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", printable(offer.Offer), printable(r.Host), r.Behind, cmp.Or(printable(r.LastError), "-"))
		}
	}
	return table.Flush()
}
