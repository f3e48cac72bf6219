package payoffer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/skip2/go-qrcode"
	"github.com/spf13/cobra"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/site"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "pay-offer",
		Short: "Checks and shows payment offers",
		Long: `
Works with the payment offers of a configuration.

Without --config the Caddyfile in the current directory is read. Nothing is
started, opened or called by check, qr and site.`,
		CobraFunc: func(cmd *cobra.Command) {
			cmd.AddCommand(checkCommand(), qrCommand(), siteCommand(), receivedCommand())
		},
	})
}

func checkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [--config <path>] [--adapter <name>]",
		Short: "Checks a configuration and prints what its offers publish",
		Args:  cobra.NoArgs,
	}
	configFlags(cmd)
	cmd.RunE = caddycmd.WrapCommandFuncForCobra(func(fl caddycmd.Flags) (int, error) {
		offers, err := configuredOffers(fl)
		if err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		for _, o := range offers {
			printOffer(cmd.OutOrStdout(), o)
		}
		return caddy.ExitCodeSuccess, nil
	})
	return cmd
}

func qrCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "qr <rail> [--config <path>] [--adapter <name>]",
		Short:   "Prints a rail's payment URI and its QR code",
		Example: "  caddy pay-offer qr usdc --config /etc/caddy/Caddyfile",
		Args:    cobra.ExactArgs(1),
	}
	configFlags(cmd)
	cmd.RunE = caddycmd.WrapCommandFuncForCobra(func(fl caddycmd.Flags) (int, error) {
		offers, err := configuredOffers(fl)
		if err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		if err := printQR(cmd.OutOrStdout(), offers, fl.Arg(0)); err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		return caddy.ExitCodeSuccess, nil
	})
	return cmd
}

func siteCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "site <dir>",
		Short: "Writes the page for people below a folder",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return site.Write(args[0])
		},
	}
}

func receivedCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "received [--address <interface>] [--config <path>] [--adapter <name>]",
		Short: "Prints the sums that a running server has received, as JSON",
		Args:  cobra.NoArgs,
	}
	configFlags(cmd)
	cmd.Flags().String("address", "", "The address of the admin API, if not that of the configuration")
	cmd.RunE = caddycmd.WrapCommandFuncForCobra(func(fl caddycmd.Flags) (int, error) {
		address, err := adminAddress(fl)
		if err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		response, err := caddycmd.AdminAPIRequest(address, http.MethodGet, adminPath, nil, nil)
		if err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		defer response.Body.Close()
		if _, err := io.Copy(cmd.OutOrStdout(), response.Body); err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		return caddy.ExitCodeSuccess, nil
	})
	return cmd
}

// adminAddress is where the admin API of the running server listens: as given,
// or as the configuration says, which may be the Caddyfile in this folder.
func adminAddress(fl caddycmd.Flags) (string, error) {
	if address := fl.String("address"); address != "" {
		return address, nil
	}
	raw, file, _, err := caddycmd.LoadConfig(fl.String("config"), fl.String("adapter"))
	if err != nil {
		return "", err
	}
	return caddycmd.DetermineAdminAPIAddress("", raw, file, fl.String("adapter"))
}

func configFlags(cmd *cobra.Command) {
	cmd.Flags().StringP("config", "c", "", "The configuration file")
	cmd.Flags().StringP("adapter", "a", "", "The configuration adapter, if the file is no Caddyfile")
}

// configuredOffers provisions a configuration, as 'caddy validate' does, and
// returns its offers.
func configuredOffers(fl caddycmd.Flags) ([]*offer.Offer, error) {
	raw, file, _, err := caddycmd.LoadConfig(fl.String("config"), fl.String("adapter"))
	if err != nil {
		return nil, err
	}
	if file == "" {
		return nil, errors.New("there is no Caddyfile here; name the configuration with --config")
	}
	var config caddy.Config
	if err := json.Unmarshal(caddy.RemoveMetaFields(raw), &config); err != nil {
		return nil, fmt.Errorf("decoding the configuration: %w", err)
	}
	ctx, err := caddy.ProvisionContext(&config)
	if err != nil {
		return nil, err
	}
	app, err := ctx.App("pay_offer")
	if err != nil {
		return nil, err
	}
	var offers []*offer.Offer
	for _, svc := range app.(*App).offers() {
		offers = append(offers, svc.offer)
	}
	if len(offers) == 0 {
		return nil, fmt.Errorf("%s has no pay_offer directive", file)
	}
	return offers, nil
}

func printOffer(w io.Writer, o *offer.Offer) {
	fmt.Fprintf(w, "%s: %s USD for %s\n  %s\n  %s\n", o.Name, o.Amount, o.Operator, o.URL(offer.PathMethods), o.SitePage())
	for _, m := range o.Methods(offer.Live{}) {
		link := m.Link()
		if !m.Available {
			link = "(" + m.Reason + ")"
		}
		fmt.Fprintf(w, "  %-12s %-10s %s\n", m.Rail, m.Scheme, link)
	}
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
