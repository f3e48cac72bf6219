package command

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
)

// watchPause is how long a server that is away is left alone.
const watchPause = 2 * time.Second

func watchCommand() *cobra.Command {
	cmd := new(cobra.Command)
	cmd.Use = "watch [--since <cursor>] [--offer <id>] [--json] [--address <interface>] [--config <path>] [--adapter <name>]"
	cmd.Short = "Prints what happens to receipts, as it happens"
	cmd.Long = `
Prints a line for each receipt and for each change of one, from now on, until
it is stopped (Ctrl-C).

--since begins after a change that was seen before: its "cursor", which --json
prints and announcements hold. A restart of the server is waited for, and
nothing that was recorded meanwhile is missed.`
	cmd.Example = "  caddy pay-offer watch\n  caddy pay-offer watch --json --since 12.00c0ffee00c0ffee"
	asking(cmd, func(fl caddycmd.Flags, out io.Writer) error {
		address, err := adminAddress(fl)
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		w := watcher{address: address, offer: fl.String("offer"), cursor: fl.String("since"), json: fl.Bool("json"), out: out, aside: cmd.ErrOrStderr(), pause: watchPause}
		return w.run(ctx)
	})
	cmd.Flags().String("since", "", "Begin after the change with this cursor")
	cmd.Flags().String("offer", "", "The id of the offer, if there are several")
	cmd.Flags().Bool("json", false, "Print each change as a line of JSON")
	return cmd
}

// watcher follows the feed of one offer.
type watcher struct {
	address, offer, cursor string
	json                   bool
	out                    io.Writer
	aside                  io.Writer     // takes what is no change
	pause                  time.Duration // while the server is away
}

// watched is the answer of GET /pay_offer/feed.
type watched struct {
	Offer   string            `json:"offer"`
	Cursor  string            `json:"cursor"`
	Changes []json.RawMessage `json:"changes"`
}

// run ends with ctx, which is no error.
func (w *watcher) run(ctx context.Context) error {
	now, _, err := w.ask(ctx, "")
	if err != nil {
		return ended(ctx, err)
	}
	w.cursor = cmp.Or(w.cursor, now.Cursor)
	fmt.Fprintf(w.aside, "watching %s after %s; stop with Ctrl-C\n", printable(now.Offer), printable(w.cursor))
	if !w.json {
		fmt.Fprintf(w.out, changeLine, "NUMBER", "TIME", "RAIL", "AMOUNT", "REFUNDED", "STATUS", "EVIDENCE", "REFERENCE: CHANGE; WHY (YOUR REASON)")
	}
	for gone := false; ; {
		feed, away, err := w.ask(ctx, w.cursor)
		switch {
		case err != nil && (!away || ctx.Err() != nil):
			return ended(ctx, err)
		case err != nil:
			if !gone {
				fmt.Fprintf(w.aside, "the server is away and is waited for: %v\n", err)
			}
			gone = true
			select {
			case <-time.After(w.pause):
			case <-ctx.Done():
			}
			continue
		case gone:
			fmt.Fprintln(w.aside, "the server is back; what was recorded meanwhile follows")
			gone = false
		}
		for _, change := range feed.Changes {
			if err := w.print(change); err != nil {
				return err
			}
		}
		w.cursor = feed.Cursor
	}
}

// ended is nil where somebody stopped it.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// ask asks for what follows a cursor, or for the newest. away says that the same may be asked again: the server
// does not answer, or is being started.
func (w *watcher) ask(ctx context.Context, after string) (feed watched, away bool, err error) {
	query := url.Values{}
	for name, value := range map[string]string{"offer": w.offer, "after": after} {
		if value != "" {
			query.Set(name, value)
		}
	}
	response, err := send(ctx, w.address, http.MethodGet, operator.PathFeed+"?"+query.Encode(), nil)
	if err != nil {
		return feed, true, err
	}
	defer response.Body.Close()
	if err := refused(response); err != nil {
		return feed, response.StatusCode == http.StatusServiceUnavailable || response.StatusCode == http.StatusNotFound, err
	}
	if err := json.NewDecoder(response.Body).Decode(&feed); err != nil {
		return feed, true, fmt.Errorf("the admin API's answer cannot be read: %w", err)
	}
	return feed, false, nil
}

// changeLine are the columns of a change. What has no bound stands last, so that all
// lines are as the first one.
const changeLine = "%-7v %-19s %-12s %-16s %-16s %-10s %-9s %s\n"

func (w *watcher) print(raw json.RawMessage) error {
	if w.json {
		_, err := fmt.Fprintf(w.out, "%s\n", raw)
		return err
	}
	var c operator.Change
	if err := json.Unmarshal(raw, &c); err != nil {
		return fmt.Errorf("the admin API's answer cannot be read: %w", err)
	}
	refunded := "-"
	if c.Returned != "0" {
		refunded = printable(c.Returned + " " + c.Unit)
	}
	at := "-"
	if moment, err := time.Parse(time.RFC3339, c.At); err == nil {
		at = moment.Local().Format(time.DateTime)
	}
	what := c.Reference + ": " + c.Change
	if c.Reason != "" {
		what += " (" + c.Reason + ")"
	}
	_, err := fmt.Fprintf(w.out, changeLine, c.Number, at, printable(c.Rail), worth(operator.Receipt{AmountUSD: c.AmountUSD, Paid: c.Paid, Unit: c.Unit}),
		refunded, printable(c.Status), printable(c.Evidence), printable(what))
	return err
}
