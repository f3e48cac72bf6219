package command

import (
	"github.com/spf13/cobra"

	"github.com/payoffer/caddy-pay-offer/payoffer/site"
)

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
