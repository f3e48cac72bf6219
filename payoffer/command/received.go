package command

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"text/tabwriter"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
)

func receivedCommand() *cobra.Command {
	cmd := new(cobra.Command)
	cmd.Use = "received [--receipts [--before <number>] | --csv [--from <day>] [--to <day>]] [--offer <id>] [--json] [--address <interface>] [--config <path>] [--adapter <name>]"
	cmd.Short = "Prints what a running server has received"
	cmd.Example = "  caddy pay-offer received\n  caddy pay-offer received --receipts\n  caddy pay-offer received --csv --from 2026-01-01 --to 2026-12-31 >2026.csv"
	asking(cmd, func(fl caddycmd.Flags, out io.Writer) error {
		if fl.Bool("csv") {
			return exportCSV(fl, out, cmd.ErrOrStderr())
		}
		if fl.String("from")+fl.String("to") != "" {
			return errors.New("--from and --to belong to --csv")
		}
		return printReceived(fl, out)
	})
	cmd.Flags().Bool("receipts", false, "List the receipts, newest first")
	cmd.Flags().String("offer", "", "With --receipts and --csv: the id of the offer, if there are several")
	cmd.Flags().Int64("before", 0, "With --receipts: go on below this number")
	cmd.Flags().Bool("json", false, "Print the answer of the admin API as it is")
	exportFlags(cmd)
	return cmd
}

func printReceived(fl caddycmd.Flags, out io.Writer) error {
	if !fl.Bool("receipts") {
		return show(fl, out, operator.PathReceived, printOffers)
	}
	query := url.Values{"limit": {strconv.Itoa(operator.MaxPage)}}
	if id := fl.String("offer"); id != "" {
		query.Set("offer", id)
	}
	if before := fl.String("before"); before != "0" {
		query.Set("before", before)
	}
	return show(fl, out, operator.PathReceipts+"?"+query.Encode(), printReceipts)
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
		ID           string                 `json:"id"`
		Trouble      string                 `json:"trouble"`
		Report       printedReport          `json:"report"`
		Facilitators []operator.Facilitator `json:"facilitators"`
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
		if o.Trouble != "" {
			fmt.Fprintf(out, "%s takes no payments: %s\n", printable(o.ID), printable(o.Trouble))
			continue
		}
		if err := o.Report.print(out, o.ID); err != nil {
			return err
		}
		if err := printFacilitators(out, o.Facilitators); err != nil {
			return err
		}
	}
	return nil
}

// printFacilitators prints who settles, and whether they list the offer.
func printFacilitators(out io.Writer, all []operator.Facilitator) error {
	if len(all) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nFACILITATOR\tNETWORK\tSTATE\tBAZAAR\tREASON")
	for _, f := range all {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", printable(f.Host), printable(f.Network),
			cmp.Or(printable(f.Reason), "up"), cmp.Or(printable(f.BazaarStatus), "-"), cmp.Or(printable(f.BazaarReason), "-"))
	}
	return table.Flush()
}

// printedReport is the part of the answer of /v1/received that is printed.
type printedReport struct {
	Status   string `json:"status"`
	Goal     string `json:"goalUsdDecimal"`
	Met      *bool  `json:"goalMet"`
	Missing  string `json:"remainingUsdDecimal"`
	Received string `json:"receivedUsdDecimal"`
	Payments int64  `json:"payments"`
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
	Count   int64   `json:"count"`
	Atomic  string  `json:"amountAtomic"`
	USD     *string `json:"amountUsdDecimal"`
	Unknown int64   `json:"unknownUsd"`
}

// String is the value in US dollars with the number of receipts.
func (t *printedSum) String() string {
	switch {
	case t == nil:
		return "unknown"
	case t.Atomic == "0" && t.Count == 0:
		return "-"
	case t.USD == nil:
		return fmt.Sprintf("? (%d)", t.Count)
	case t.Unknown > 0:
		return fmt.Sprintf("%s+? (%d)", printable(*t.USD), t.Count)
	case t.Count == 0: // refunds of a part are not counted
		return printable(*t.USD)
	default:
		return fmt.Sprintf("%s (%d)", printable(*t.USD), t.Count)
	}
}

// payments is their number for people.
func payments(n int64) string {
	if n == 1 {
		return "1 payment"
	}
	return fmt.Sprintf("%d payments", n)
}

// goal is what is to be said of the goal.
func (r printedReport) goal() string {
	switch {
	case r.Met == nil:
		return fmt.Sprintf("; at most %s are missing to the goal of %s", printable(r.Missing), printable(r.Goal))
	case !*r.Met:
		return fmt.Sprintf("; the goal of %s is not reached yet", printable(r.Goal))
	default:
		return fmt.Sprintf("; the goal of %s is reached", printable(r.Goal))
	}
}

func (r printedReport) print(out io.Writer, id string) error {
	least := ""
	if r.Status == "partial" {
		least = "at least "
	}
	fmt.Fprintf(out, "%s: %s%s USD received in %s, %s of it from others%s; %s\n",
		printable(id), least, printable(r.Received), payments(r.Payments), printable(r.External), r.goal(), printable(r.Status))
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
func printReceipts(out io.Writer, page operator.Receipts) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NUMBER\tDATE\tRAIL\tAMOUNT\tREFUNDED\tSTATUS\tEVIDENCE\tREFERENCE\tLAST REASON")
	for _, r := range page.Receipts {
		refunded := "-"
		if r.Refunded != 0 {
			refunded = printable(r.Returned + " " + r.Unit)
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Number, day(r), printable(r.Rail), worth(r), refunded,
			printable(r.Status), printable(r.Evidence), printable(r.Reference), lastReason(r))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if page.Next != nil {
		fmt.Fprintf(out, "older ones: --before %d\n", *page.Next)
	}
	printPages(out, page.Receipts)
	return nil
}

// printPages prints the addresses of the receipts' pages.
func printPages(out io.Writer, receipts []operator.Receipt) {
	title := "\na page for each payer, to be given to nobody else:\n"
	for _, r := range receipts {
		if r.Page != "" {
			fmt.Fprintf(out, "%s%d: %s\n", title, r.Number, printable(r.Page))
			title = ""
		}
	}
}

// day is the day on which the money moved, in the time zone of this machine.
func day(r operator.Receipt) string {
	at, err := time.Parse(time.RFC3339, r.OccurredAt)
	if err != nil {
		return "-"
	}
	return at.Local().Format(time.DateOnly)
}

// local is a moment in the time zone of this machine, and in UTC.
func local(moment string) string {
	at, err := time.Parse(time.RFC3339, moment)
	if err != nil {
		return "-"
	}
	zone := time.Local.String()
	if zone == "Local" { // known by its rules alone
		zone = at.Local().Format("MST")
	}
	return at.Local().Format("2006-01-02 15:04") + " " + zone + " = " + at.UTC().Format(time.RFC3339)
}

// lastReason is why the operator changed it last.
func lastReason(r operator.Receipt) (reason string) {
	for _, change := range r.History {
		reason = cmp.Or(printable(change.Reason), reason)
	}
	return cmp.Or(reason, "-")
}

// worth is the amount for people: in dollars where the value is known, else in its
// own unit.
func worth(r operator.Receipt) string {
	if r.AmountUSD != nil {
		return printable(r.AmountUSD.String()) + " USD"
	}
	return printable(r.Paid + " " + r.Unit)
}
