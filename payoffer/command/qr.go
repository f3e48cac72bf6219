package command

import (
	"fmt"
	"io"
	"strings"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/skip2/go-qrcode"
	"github.com/spf13/cobra"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

func qrCommand() *cobra.Command {
	return configured(&cobra.Command{
		Use:     "qr <rail> [--config <path>] [--adapter <name>]",
		Short:   "Prints a rail's payment URI and its QR code",
		Example: "  caddy pay-offer qr usdc --config /etc/caddy/Caddyfile",
		Args:    cobra.ExactArgs(1),
	}, func(fl caddycmd.Flags, out io.Writer) error {
		offers, err := configuredOffers(fl)
		if err != nil {
			return err
		}
		return printQR(out, offers, fl.Arg(0))
	})
}

// printQR prints the first offer's rail of that name. A rail that follows the
// exchange rate has no URI without a running server.
func printQR(w io.Writer, offers []*offer.Offer, name string) error {
	var names []string
	for _, o := range offers {
		rail, ok := o.Rail(name)
		if !ok {
			for _, r := range o.Rails {
				names = append(names, r.Name())
			}
			continue
		}
		m := rail.Methods(o, offer.Live{})[0]
		if !m.Available {
			return fmt.Errorf("the rail %s has no URI without a running server (%s); ask %s", name, m.Reason, o.URL(offer.URIPath(name)))
		}
		code, err := qrcode.New(m.Link(), qrcode.Medium)
		if err != nil {
			return fmt.Errorf("the URI of the rail %s does not fit into a QR code: %w", name, err)
		}
		_, err = fmt.Fprintf(w, "%s\n%s%s\n", m.Title, code.ToSmallString(false), m.Link())
		return err
	}
	return fmt.Errorf("no rail is named %q; there are: %s", name, strings.Join(names, ", "))
}
