package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
)

func rewindCommand() *cobra.Command {
	cmd := asking(&cobra.Command{
		Use:   "rewind <rail> [--offer <id>] [--address <interface>] [--config <path>] [--adapter <name>]",
		Short: "Has a rail read again from its origin on",
		Long: `
Has the running server read a rail again from the origin of its account on:
where a source has shown what was not true, so that payments are missing, the
rail has stopped, or an extended key has moved to an address too far ahead.
since and from_block say where the origin is.

Nothing is deleted, and what is read again is counted once. Until it has caught
up the rail is partial. Of an extended key the address after the last one that
was used is published then; the one before is read on.`,
		Example: "  caddy pay-offer rewind btc\n  caddy pay-offer rewind usdc-42161 --offer pay.example.org",
	}, rewind)
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return errors.New("name one rail, as in 'caddy pay-offer rewind btc'; 'caddy pay-offer received' lists them")
		}
		return nil
	}
	cmd.Flags().String("offer", "", "The id of the offer, if there are several")
	return cmd
}

func rewind(fl caddycmd.Flags, out io.Writer) error {
	done, err := ask[operator.Rewound](fl, http.MethodPost, operator.PathRewind, operator.Rewind{Offer: fl.String("offer"), Rail: fl.Arg(0)})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s of %s is read again from %s on; what is known stays, and is counted once\n",
		printable(done.Rail), printable(done.Offer), cmp.Or(printable(done.From), "its origin"))
	if done.Kept != "" {
		fmt.Fprintf(out, "  what is paid to %s, which was published until now, is read on\n", printable(done.Kept))
	}
	return nil
}
