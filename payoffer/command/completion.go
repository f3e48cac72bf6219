package command

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/payoffer/caddy-pay-offer/payoffer/desk"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// completions are the values of flags that a shell may complete, by the flags' names.
var completions = map[string]func(caddycmd.Flags) []string{
	"rail":      servedRails,
	"offer":     servedOffers,
	"reference": servedReferences,
	"network":   func(caddycmd.Flags) []string { return offer.NetworkNames() },
	"method":    func(caddycmd.Flags) []string { return []string{http.MethodPost, http.MethodGet} },
}

// completing makes a shell complete the flags of a command and, by arguments unless it is
// nil, its one argument. Nothing is said where there is nothing to complete with.
func completing(cmd *cobra.Command, arguments func(caddycmd.Flags) []string) *cobra.Command {
	complete := func(values func(caddycmd.Flags) []string) cobra.CompletionFunc {
		return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			caddy.BufferedLog() // a shell would take log lines for values
			return values(caddycmd.Flags{FlagSet: cmd.Flags()}), cobra.ShellCompDirectiveNoFileComp
		}
	}
	for name, values := range completions {
		if cmd.Flags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, complete(values)) // there is such a flag, and none was registered
		}
	}
	if arguments != nil {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return complete(arguments)(cmd, args, typed)
		}
	}
	return cmd
}

// configuredRails are the rails of the configuration.
func configuredRails(fl caddycmd.Flags) (names []string) {
	app, _, err := configuredApp(fl)
	if err != nil {
		return nil
	}
	for _, o := range app.Offers() {
		for _, r := range o.Rails {
			names = append(names, r.Name())
		}
	}
	return distinct(names)
}

// servedRails are the rails of the running server, of one offer where that is named.
func servedRails(fl caddycmd.Flags) (names []string) {
	for _, o := range served(fl).Offers {
		if id := fl.String("offer"); id != "" && id != o.ID {
			continue
		}
		for _, r := range o.Report.Rails {
			names = append(names, printable(r.Rail))
		}
	}
	return distinct(names)
}

// servedOffers are the ids of the running server's offers.
func servedOffers(fl caddycmd.Flags) (ids []string) {
	for _, o := range served(fl).Offers {
		ids = append(ids, printable(o.ID))
	}
	return ids
}

// completionPatience is how long a server may take to tell what a shell completes with, for
// whoever pressed the key waits.
const completionPatience = time.Second

func told[T any](fl caddycmd.Flags, uri string) (T, error) {
	ctx, cancel := context.WithTimeout(context.Background(), completionPatience)
	defer cancel()
	return askUntil[T](ctx, fl, http.MethodGet, uri, nil)
}

func served(fl caddycmd.Flags) printedOffers {
	answer, _ := told[printedOffers](fl, desk.PathReceived) // without a server there are none
	return answer
}

// servedReferences are those of the newest receipts, of one rail where that is named.
func servedReferences(fl caddycmd.Flags) (references []string) {
	query := url.Values{"limit": {strconv.Itoa(desk.MaxPage)}}
	if id := fl.String("offer"); id != "" {
		query.Set("offer", id)
	}
	page, err := told[desk.Receipts](fl, desk.PathReceipts+"?"+query.Encode())
	if err != nil {
		return nil
	}
	for _, r := range page.Receipts {
		if rail := fl.String("rail"); rail == "" || rail == r.Rail {
			references = append(references, cobra.CompletionWithDesc(printable(r.Reference), printable(r.Rail)+", "+worth(r)+", "+day(r)))
		}
	}
	return references
}

func distinct(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
