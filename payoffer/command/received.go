package command

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
)

func receivedCommand() *cobra.Command {
	cmd := new(cobra.Command)
	cmd.Use = "received [--receipts | --csv | --check]"
	cmd.Short = "Prints what a running server has received"
	cmd.Example = "  caddy pay-offer received\n  caddy pay-offer received --receipts\n  caddy pay-offer received --check\n  caddy pay-offer received --csv --from 2026-01-01 --to 2026-12-31 >2026.csv"
	withAdminFlags(cmd, func(fl caddycmd.Flags, out io.Writer) error {
		if fl.Bool("csv") {
			return exportCSV(fl, out, cmd.ErrOrStderr())
		}
		if fl.String("from")+fl.String("to")+fl.String("recorded-since") != "" || fl.Changed("decimal") {
			return errors.New("--from, --to, --recorded-since and --decimal need --csv, " +
				"such as: caddy pay-offer received --csv --from 2026-01-01 --to 2026-12-31")
		}
		if fl.Bool("check") {
			return checkReceived(fl)
		}
		return printReceived(fl, out)
	})
	cmd.Flags().Bool("check", false, "Print only problems, and exit with status 1 if there are any")
	cmd.Flags().Bool("receipts", false, "List the receipts, newest first")
	cmd.Flags().String("offer", "", "With --receipts and --csv: the id of the offer, if there are several")
	cmd.Flags().Int64("before", 0, "With --receipts: list receipts below this number")
	cmd.Flags().Bool("json", false, "Print the answer of the admin API unchanged")
	exportFlags(cmd)
	cmd.MarkFlagsMutuallyExclusive("receipts", "csv", "check")
	cmd.MarkFlagsMutuallyExclusive("json", "check")
	return cmd
}

func printReceived(fl caddycmd.Flags, out io.Writer) error {
	if !fl.Bool("receipts") {
		if fl.String("offer") != "" || fl.String("before") != "0" {
			return errors.New("--offer and --before need --receipts, such as: caddy pay-offer received --receipts --before 42")
		}
		return show(fl, out, http.MethodGet, operator.PathReceived, nil, printOffers)
	}
	query := url.Values{"limit": {strconv.Itoa(operator.MaxPage)}}
	if id := fl.String("offer"); id != "" {
		query.Set("offer", id)
	}
	if before := fl.String("before"); before != "0" {
		query.Set("before", before)
	}
	return show(fl, out, http.MethodGet, operator.PathReceipts+"?"+query.Encode(), nil, printReceipts)
}

// show prints an answer of the admin API, with --json unchanged.
func show[T any](fl caddycmd.Flags, out io.Writer, method, uri string, body any, print func(io.Writer, T) error) error {
	if fl.Bool("json") {
		answer, err := callAdmin[json.RawMessage](fl, method, uri, body)
		if err == nil {
			_, err = fmt.Fprintf(out, "%s\n", answer)
		}
		return err
	}
	answer, err := callAdmin[T](fl, method, uri, body)
	if err != nil {
		return err
	}
	return print(out, answer)
}

func printOffers(out io.Writer, answer perOffer[operator.Received]) error {
	if len(answer.Offers) == 0 {
		fmt.Fprintln(out, "no offer is running")
	}
	for n, o := range answer.Offers {
		if n > 0 {
			fmt.Fprintln(out)
		}
		if o.Report == nil {
			fmt.Fprintf(out, "%s takes no payments: %s\n", printable(o.ID), printable(o.Trouble))
			continue
		}
		if err := printSummary(out, o.ID, *o.Report); err != nil {
			return err
		}
		if err := printFacilitators(out, o.Facilitators); err != nil {
			return err
		}
	}
	return nil
}

// checkReceived fails if no payments can be made, or payments may be missed.
func checkReceived(fl caddycmd.Flags) error {
	answer, err := callAdmin[perOffer[operator.Received]](fl, http.MethodGet, operator.PathReceived, nil)
	if err == nil && len(answer.Offers) == 0 {
		err = errors.New("no offer is running; add the directive pay_offer to the configuration and reload it")
	}
	for _, o := range answer.Offers {
		if o.Report == nil {
			err = errors.Join(err, fmt.Errorf("%s takes no payments: %s", printable(o.ID), printable(o.Trouble)))
			continue
		}
		for _, rail := range o.Report.Rails {
			if rail.LastError != nil {
				err = errors.Join(err, fmt.Errorf("%s: payments by %s may be missing: %s; read the server's log", printable(o.ID), printable(rail.Rail), printable(*rail.LastError)))
			}
		}
	}
	return err
}

// printFacilitators prints the facilitators, and whether they list the offer.
func printFacilitators(out io.Writer, all []operator.Facilitator) error {
	if len(all) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nFACILITATOR\tNETWORK\tSTATE\tBAZAAR\tREASON")
	for _, f := range all {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", printable(f.Host), printable(f.Network),
			cmp.Or(printable(f.Reason), "up"), orDash(f.BazaarStatus), orDash(f.BazaarReason))
	}
	return table.Flush()
}

// sum is a sum of a rail for people: the value in US dollars and the number of payments.
func sum(t *report.Tally) string {
	switch {
	case t == nil || t.AmountAtomic == "0" && t.Count == 0:
		return "-"
	case t.AmountUSDDecimal == nil:
		return fmt.Sprintf("? (%d)", t.Count)
	case t.UnknownUSD > 0:
		return fmt.Sprintf("%s+? (%d)", printable(*t.AmountUSDDecimal), t.Count)
	case t.Count == 0: // partial refunds are not counted
		return printable(*t.AmountUSDDecimal)
	default:
		return fmt.Sprintf("%s (%d)", printable(*t.AmountUSDDecimal), t.Count)
	}
}

// payments is a number of payments for people.
func payments(n int64, kind string) string {
	if n == 1 {
		return "1 " + kind + "payment"
	}
	return fmt.Sprintf("%d %spayments", n, kind)
}

// monitoring is a state of report.Rail for people. An unknown state depends on the error.
var monitoring = map[string]string{
	report.StatusObserved: "automatic", report.StatusPartial: "in part", report.StateManual: "by hand", report.StateRemoved: "removed",
}

func printSummary(out io.Writer, id string, s report.Summary) error {
	fmt.Fprintf(out, "%s: %s USD received in %s", printable(id), printable(s.ReceivedDecimal), payments(s.Payments, ""))
	if s.ExternalUSD != s.ReceivedUSD {
		fmt.Fprintf(out, ", %s USD of it from customers", printable(s.ExternalDecimal))
	}
	fmt.Fprintln(out)
	if s.Test.Count > 0 {
		fmt.Fprintf(out, "%s, %s USD (test money, not counted)\n", payments(s.Test.Count, "test "), printable(s.Test.AmountUSDDecimal))
	}
	switch {
	case !s.GoalSet:
	case s.GoalMet != nil && *s.GoalMet:
		fmt.Fprintf(out, "The goal of %s USD is reached.\n", printable(s.GoalUSDDecimal))
	default:
		fmt.Fprintf(out, "%s USD remain to the goal of %s USD.\n", printable(s.RemainingDecimal), printable(s.GoalUSDDecimal))
	}
	printClock(out, s.ClockOffsetSeconds)
	if err := printRails(out, s.Rails); err != nil {
		return err
	}
	if names := s.Unmonitored(); len(names) > 0 {
		fmt.Fprintf(out, "\nSome payment methods are not monitored automatically: %s\n", printable(strings.Join(names, ", ")))
	}
	return nil
}

// printRails prints the sums of each rail. It leaves out columns in which no rail has a value.
func printRails(out io.Writer, rails []report.Rail) error {
	rows := [][]string{{
		"METHOD", "MONITORED", "CONFIRMED", "PENDING", "UNVERIFIED", "OUTCOME UNKNOWN", "REFUNDED", "DISPUTED/VOIDED", "LAST CHECK", "ERROR",
	}}
	for _, rail := range rails {
		name, monitored, lag, failed := printable(rail.Rail), cmp.Or(monitoring[rail.State], "none"), "-", "-"
		if rail.Testnet {
			name += " (test)"
		}
		if rail.LagSeconds != nil {
			lag = strconv.FormatInt(*rail.LagSeconds, 10) + "s ago"
		}
		if rail.LastError != nil {
			monitored, failed = cmp.Or(monitoring[rail.State], "not now"), printable(*rail.LastError)
		}
		rows = append(rows, []string{name, monitored, sum(rail.Confirmed), sum(rail.Seen),
			sum(rail.Claimed), sum(rail.Settling), sum(rail.Refunded), sum(rail.Reversed), lag, failed})
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		var cells []string
		for column, cell := range row {
			if column < 3 || slices.ContainsFunc(rows[1:], func(r []string) bool { return r[column] != "-" }) {
				cells = append(cells, cell)
			}
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush()
}

// printReceipts prints a page of receipts for people.
func printReceipts(out io.Writer, page operator.Receipts) error {
	if len(page.Receipts) == 0 {
		fmt.Fprintln(out, "No receipts in this list. Payments that nothing proves yet: caddy pay-offer intents --claims")
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NUMBER\tTIME\tMETHOD\tAMOUNT\tREFUNDED\tSTATUS\tEVIDENCE\tREFERENCE\tLAST REASON")
	for _, r := range page.Receipts {
		method := printable(r.Rail)
		if r.Testnet {
			method += " (test)"
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Number, minute(r), method, printable(r.Value()),
			orDash(r.Refunded()), printable(r.Classification().Word()), printable(r.Evidence), printable(r.ID), lastReason(r))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, r := range page.Receipts {
		for _, hint := range r.Hints {
			fmt.Fprintf(out, "%d: %s\n", r.Number, printable(hint))
		}
	}
	if page.Next != nil {
		fmt.Fprintf(out, "Older receipts: caddy pay-offer received --receipts --before %d\n", *page.Next)
	}
	printPages(out, page.Receipts)
	return nil
}

// printPages prints the addresses of the receipts' pages.
func printPages(out io.Writer, receipts []operator.Receipt) {
	title := "\nReceipt pages (send each one only to its payer):\n"
	for _, r := range receipts {
		if r.Page != "" {
			fmt.Fprintf(out, "%s%d: %s\n", title, r.Number, printable(r.Page))
			title = ""
		}
	}
}

// minute is when the money moved, in the time zone of this machine.
func minute(r operator.Receipt) string {
	at, err := time.Parse(time.RFC3339, r.OccurredAt)
	if err != nil {
		return "-"
	}
	return at.Local().Format("2006-01-02 15:04")
}

// local is a moment in the time zone of this machine, and in UTC.
func local(moment string) string {
	at, err := time.Parse(time.RFC3339, moment)
	if err != nil {
		return "-"
	}
	return at.Local().Format("2006-01-02 15:04") + " " + zoneOf(at.Local()) + " = " + at.UTC().Format(time.RFC3339)
}

// lastReason is the operator's reason of the last change that has one.
func lastReason(r operator.Receipt) (reason string) {
	for _, change := range r.History {
		reason = cmp.Or(change.Reason, reason)
	}
	return orDash(reason)
}

// orDash is a text for a terminal, or a dash for an empty one.
func orDash(s string) string { return cmp.Or(printable(s), "-") }
