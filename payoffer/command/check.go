package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

func checkCommand() *cobra.Command {
	return configured(&cobra.Command{
		Use:   "check [--config <path>] [--adapter <name>]",
		Short: "Checks a configuration and prints what its offers publish",
		Args:  cobra.NoArgs,
	}, func(fl caddycmd.Flags, out io.Writer) error {
		offers, err := configuredOffers(fl)
		for _, o := range offers {
			printOffer(out, o)
		}
		return err
	})
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
	offers := app.(interface{ Offers() []*offer.Offer }).Offers()
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
