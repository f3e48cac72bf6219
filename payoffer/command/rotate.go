package command

import (
	"fmt"
	"io"
	"net/http"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/payoffer/caddy-pay-offer/payoffer/desk"
)

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
	body := desk.KeyRotation{Offer: fl.String("offer"), Revoke: fl.Bool("revoke")}
	key, err := ask[desk.RotatedKey](fl, http.MethodPost, desk.PathKeys, body)
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
