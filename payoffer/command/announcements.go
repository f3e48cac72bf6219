package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"text/tabwriter"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
)

func announcementsCommand() *cobra.Command {
	cmd := withAdminFlags(&cobra.Command{
		Use:   "announcements",
		Short: "Lists notification endpoints and undelivered notifications",
		Long: `
Lists each notification endpoint, its undelivered notifications and its last
error. A notification that is refused for three days is logged and skipped.`,
		Example: "  caddy pay-offer announcements\n  caddy pay-offer announcements --test",
	}, func(fl caddycmd.Flags, out io.Writer) error {
		if fl.Bool("test") {
			return testAnnouncements(fl, out)
		} else if fl.String("text") != "" {
			return errors.New("--text belongs to a test message; add --test")
		}
		return show(fl, out, http.MethodGet, operator.PathAnnouncements, nil, printAnnouncements)
	})
	cmd.Flags().Bool("json", false, "Print JSON")
	cmd.Flags().Bool("test", false, "Send a test message to each endpoint, and print the answers")
	cmd.Flags().String("text", "", "With --test: the text of the message, such as that a backup failed")
	cmd.MarkFlagsMutuallyExclusive("json", "test")
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

// testAnnouncements sends a test message to each endpoint of all offers.
func testAnnouncements(fl caddycmd.Flags, out io.Writer) error {
	tested, err := callAdmin[perOffer[operator.Announcements]](fl, http.MethodPost, operator.PathAnnouncements+"?"+url.Values{"text": {fl.String("text")}}.Encode(), nil)
	for _, offer := range tested.Offers {
		for _, r := range offer.Receivers {
			fmt.Fprintf(out, "%s, %s: %s\n", printable(offer.Offer), printable(r.Host), cmp.Or(printable(r.LastError), "accepted"))
			if r.LastError != "" {
				err = errors.New("an endpoint did not accept the test message; do what its answer says, and test again")
			}
		}
	}
	return err
}
