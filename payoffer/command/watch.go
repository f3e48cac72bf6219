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

// watchPause is the pause before a server that is down is asked again.
const watchPause = 2 * time.Second

func watchCommand() *cobra.Command {
	cmd := new(cobra.Command)
	cmd.Use = "watch"
	cmd.Short = "Prints payments and changes of receipts as they happen"
	cmd.Long = `
Prints a line for each new or changed receipt, until it is stopped (Ctrl-C).
--since begins after the change with that "cursor", which --json and
notifications contain. While the server restarts, the command waits.`
	cmd.Example = "  caddy pay-offer watch\n  caddy pay-offer watch --json --since 12.00c0ffee00c0ffee"
	withAdminFlags(cmd, func(fl caddycmd.Flags, out io.Writer) error {
		address, err := adminAddress(fl)
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		w := watcher{address: address, offer: fl.String("offer"), cursor: fl.String("since"), json: fl.Bool("json"), out: out, info: cmd.ErrOrStderr(), pause: watchPause}
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
	info                   io.Writer     // for messages
	pause                  time.Duration // while the server is down
}

// feedPage is the answer of GET /pay_offer/feed.
type feedPage struct {
	Offer   string            `json:"offer"`
	Cursor  string            `json:"cursor"`
	Changes []json.RawMessage `json:"changes"`
}

// run prints changes until ctx ends.
func (w *watcher) run(ctx context.Context) error {
	now, _, err := w.request(ctx, "")
	if err != nil {
		return withoutInterrupt(ctx, err)
	}
	w.cursor = cmp.Or(w.cursor, now.Cursor)
	fmt.Fprintf(w.info, "watching %s after %s; stop with Ctrl-C\n", printable(now.Offer), printable(w.cursor))
	if !w.json {
		fmt.Fprintf(w.out, changeLine, "NUMBER", "TIME", "RAIL", "AMOUNT", "REFUNDED", "STATUS", "EVIDENCE", "REFERENCE: CHANGE; WHY (YOUR REASON)")
	}
	for gone := false; ; {
		feed, down, err := w.request(ctx, w.cursor)
		switch {
		case err != nil && (!down || ctx.Err() != nil):
			return withoutInterrupt(ctx, err)
		case err != nil:
			if !gone {
				fmt.Fprintf(w.info, "waiting for the server: %v\n", err)
			}
			gone = true
			select {
			case <-time.After(w.pause):
			case <-ctx.Done():
			}
			continue
		case gone:
			fmt.Fprintln(w.info, "the server is back; the changes since then follow")
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

// withoutInterrupt returns nil if the operator stopped the command, and otherwise the error.
func withoutInterrupt(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// request gets the changes after a cursor, or the newest cursor. down reports that the request may be repeated: the
// server does not answer, or is starting.
func (w *watcher) request(ctx context.Context, after string) (feed feedPage, down bool, err error) {
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
	if err := statusError(response); err != nil {
		return feed, response.StatusCode == http.StatusServiceUnavailable || response.StatusCode == http.StatusNotFound, err
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&feed); err != nil {
		return feed, true, fmt.Errorf("the admin address does not answer as pay_offer (%w); write the right one, such as --address localhost:2019", err)
	}
	return feed, false, nil
}

// changeLine are the columns of a change. The unbounded one is last, so that all lines are aligned.
const changeLine = "%-7v %-19s %-12s %-16s %-16s %-10s %-9s %s\n"

func (w *watcher) print(raw json.RawMessage) error {
	if w.json {
		_, err := fmt.Fprintf(w.out, "%s\n", raw)
		return err
	}
	var c operator.Change
	if err := json.Unmarshal(raw, &c); err != nil {
		return fmt.Errorf("the admin address does not answer as pay_offer (%w); write the right one, such as --address localhost:2019", err)
	}
	at := "-"
	if moment, err := time.Parse(time.RFC3339, c.At); err == nil {
		at = moment.Local().Format(time.DateTime)
	}
	what := c.Receipt + ": " + c.Words
	if c.Reason != "" {
		what += " (" + c.Reason + ")"
	}
	_, err := fmt.Fprintf(w.out, changeLine, c.Number, at, printable(c.Rail), printable(c.Value()), orDash(c.Refunded()),
		printable(c.Classification().Word()), printable(c.Evidence), printable(what))
	return err
}
