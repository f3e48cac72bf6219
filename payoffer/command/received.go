package command

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/payoffer/caddy-pay-offer/payoffer/desk"
)

func receivedCommand() *cobra.Command {
	cmd := asking(&cobra.Command{
		Use:     "received [--receipts [--offer <id>] [--before <number>]] [--json] [--address <interface>] [--config <path>] [--adapter <name>]",
		Short:   "Prints what a running server has received",
		Example: "  caddy pay-offer received\n  caddy pay-offer received --receipts",
	}, printReceived)
	cmd.Flags().Bool("receipts", false, "List the receipts, newest first")
	cmd.Flags().String("offer", "", "With --receipts: the id of the offer, if there are several")
	cmd.Flags().Int64("before", 0, "With --receipts: go on below this number")
	cmd.Flags().Bool("json", false, "Print the answer of the admin API as it is")
	return cmd
}

func printReceived(fl caddycmd.Flags, out io.Writer) error {
	if !fl.Bool("receipts") {
		return show(fl, out, desk.PathReceived, printOffers)
	}
	query := url.Values{"limit": {strconv.Itoa(desk.MaxPage)}}
	if id := fl.String("offer"); id != "" {
		query.Set("offer", id)
	}
	if before := fl.String("before"); before != "0" {
		query.Set("before", before)
	}
	return show(fl, out, desk.PathReceipts+"?"+query.Encode(), printReceipts)
}

// show prints an answer of the admin API, with --json as it is.
func show[T any](fl caddycmd.Flags, out io.Writer, uri string, print func(io.Writer, T) error) error {
	if fl.Bool("json") {
		answer, err := ask[json.RawMessage](fl, http.MethodGet, uri, nil)
		if err == nil {
			_, err = fmt.Fprintf(out, "%s\n", answer)
		}
		return err
	}
	answer, err := ask[T](fl, http.MethodGet, uri, nil)
	if err != nil {
		return err
	}
	return print(out, answer)
}

// printedOffers is the part of the answer of GET /pay_offer/received that is
// printed for people.
type printedOffers struct {
	Offers []struct {
		ID     string        `json:"id"`
		Report printedReport `json:"report"`
	} `json:"offers"`
}

func printOffers(out io.Writer, answer printedOffers) error {
	if len(answer.Offers) == 0 {
		fmt.Fprintln(out, "no offer is running")
	}
	for n, o := range answer.Offers {
		if n > 0 {
			fmt.Fprintln(out)
		}
		if err := o.Report.print(out, o.ID); err != nil {
			return err
		}
	}
	return nil
}

// printedReport is the part of the answer of /v1/received that is printed.
type printedReport struct {
	Status   string `json:"status"`
	Goal     string `json:"goalUsdDecimal"`
	Met      bool   `json:"goalMet"`
	Received string `json:"receivedUsdDecimal"`
	External string `json:"externalUsdDecimal"`
	Clock    int64  `json:"clockOffsetSeconds"`
	Rails    []struct {
		Rail      string      `json:"rail"`
		State     string      `json:"state"`
		Testnet   bool        `json:"testnet"`
		Confirmed *printedSum `json:"confirmed"`
		Seen      *printedSum `json:"seen"`
		Claimed   *printedSum `json:"claimed"`
		Settling  *printedSum `json:"settling"`
		Refunded  *printedSum `json:"refunded"`
		Reversed  *printedSum `json:"reversed"`
		Lag       *int64      `json:"lagSeconds"`
		LastError *string     `json:"lastError"`
	} `json:"rails"`
}

// printedSum is a sum of a rail; nil while it is unknown.
type printedSum struct {
	Count  int64   `json:"count"`
	Atomic string  `json:"amountAtomic"`
	USD    *string `json:"amountUsdDecimal"`
}

// String is the value in US dollars with the number of receipts.
func (t *printedSum) String() string {
	switch {
	case t == nil:
		return "unknown"
	case t.Atomic == "0":
		return "-"
	case t.USD == nil:
		return fmt.Sprintf("? (%d)", t.Count)
	case t.Count == 0: // refunds of a part are not counted
		return printable(*t.USD)
	default:
		return fmt.Sprintf("%s (%d)", printable(*t.USD), t.Count)
	}
}

func (r printedReport) print(out io.Writer, id string) error {
	goal := "not reached yet"
	if r.Met {
		goal = "reached"
	}
	fmt.Fprintf(out, "%s: %s USD received, %s of it from others; the goal of %s is %s; %s\n",
		printable(id), printable(r.Received), printable(r.External), printable(r.Goal), goal, printable(r.Status))
	printClock(out, r.Clock)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RAIL\tSTATE\tCONFIRMED\tSEEN\tCLAIMED\tSETTLING\tREFUNDED\tREVERSED\tLAG\tERROR")
	for _, rail := range r.Rails {
		name, lag, failed := printable(rail.Rail), "-", "-"
		if rail.Testnet {
			name += " (test)"
		}
		if rail.Lag != nil {
			lag = strconv.FormatInt(*rail.Lag, 10) + "s"
		}
		if rail.LastError != nil {
			failed = printable(*rail.LastError)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", name, printable(rail.State),
			rail.Confirmed, rail.Seen, rail.Claimed, rail.Settling, rail.Refunded, rail.Reversed, lag, failed)
	}
	return table.Flush()
}

// printReceipts prints a page of receipts for people.
func printReceipts(out io.Writer, page desk.Receipts) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NUMBER\tDATE\tRAIL\tAMOUNT\tSTATUS\tEVIDENCE\tREFERENCE\tLAST REASON")
	for _, r := range page.Receipts {
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Number, day(r), printable(r.Rail), worth(r),
			printable(r.Status), printable(r.Evidence), printable(r.Reference), lastReason(r))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if page.Next != nil {
		fmt.Fprintf(out, "older ones: --before %d\n", *page.Next)
	}
	return nil
}

// day is when the money moved, for people.
func day(r desk.Receipt) string {
	date, _, _ := strings.Cut(printable(r.OccurredAt), "T")
	return date
}

// lastReason is why the operator changed it last.
func lastReason(r desk.Receipt) (reason string) {
	for _, change := range r.History {
		reason = cmp.Or(printable(change.Reason), reason)
	}
	return cmp.Or(reason, "-")
}

// worth is the amount for people: in dollars where the value is known.
func worth(r desk.Receipt) string {
	if r.AmountUSD != nil {
		return printable(r.AmountUSD.String()) + " USD"
	}
	return fmt.Sprintf("%d atomic units of %s", r.Amount, printable(r.Asset))
}
