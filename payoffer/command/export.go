package command

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/manual"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
)

// exportFlags are those of received --csv.
func exportFlags(cmd *cobra.Command) {
	cmd.Flags().Bool("csv", false, "Print all payments, refunds and disputes as CSV (RFC 4180), the sums on standard error")
	cmd.Flags().String("from", "", "With --csv: the first day, such as 2026-01-01, in the time zone of this machine (TZ)")
	cmd.Flags().String("to", "", "With --csv: the last day, such as 2026-12-31")
	cmd.Flags().String("recorded-since", "", "With --csv: only lines that were recorded or changed since this day or moment")
	cmd.Flags().String("decimal", "point", "With --csv: comma writes 42,50 and ; for spreadsheets of countries with a decimal comma")
	cmd.MarkFlagsMutuallyExclusive("csv", "json")
	cmd.MarkFlagsMutuallyExclusive("csv", "receipts")
}

// span are the days of an export, both included, and since when its lines were recorded; an empty one means no limit.
type span struct {
	from, to string
	since    time.Time
}

func spanOf(fl caddycmd.Flags) (s span, err error) {
	s = span{from: fl.String("from"), to: fl.String("to")}
	if since := fl.String("recorded-since"); since != "" {
		if s.since, err = manual.ParseDate(since, time.Local); err != nil {
			return s, fmt.Errorf("--recorded-since: %w", err)
		}
	}
	for name, day := range map[string]string{"from": s.from, "to": s.to} {
		if _, err := time.Parse(time.DateOnly, day); day != "" && err != nil {
			return s, fmt.Errorf("--%s %.20q is not a day; write for example --%s 2026-01-31", name, day, name)
		}
	}
	if s.from != "" && s.to != "" && s.from > s.to {
		return s, fmt.Errorf("--from %s is after --to %s; exchange them", s.from, s.to)
	}
	return s, nil
}

func (s span) contains(day string, recorded time.Time) bool {
	return (s.from == "" || day >= s.from) && (s.to == "" || day <= s.to) && !recorded.Before(s.since)
}

// exportCSV prints the movements of an offer, and their sums on info. It fails if the sums differ from the ledger's
// totals, and the export must then not be used.
func exportCSV(fl caddycmd.Flags, out, info io.Writer) error {
	if err := checkZone(); err != nil {
		return err
	}
	days, err := spanOf(fl)
	if err != nil {
		return err
	}
	table := csv.NewWriter(out)
	table.UseCRLF = true
	begin := ""
	switch decimal := fl.String("decimal"); decimal {
	case "point":
	case "comma":
		table.Comma, begin = ';', "\ufeff" // by the byte order mark, spreadsheets know that it is UTF-8
	default:
		return fmt.Errorf("--decimal %.20q is unknown; write point or comma", decimal)
	}
	uri := operator.PathMovements + "?" + url.Values{"offer": {fl.String("offer")}}.Encode()
	response, err := openAdmin(context.Background(), fl, http.MethodGet, uri, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.WriteString(out, begin); err != nil {
		return err
	}
	return export(response.Body, days, table, info)
}

// export reads all movements and compares their sums with the totals at the end.
func export(from io.Reader, days span, table *csv.Writer, info io.Writer) error {
	if err := table.Write(report.MovementColumns); err != nil {
		return err
	}
	var all operator.MovementsEnd
	var printed struct{ lines, cents int64 }
	decoder := json.NewDecoder(from)
	for {
		var line operator.MovementLine
		if err := decoder.Decode(&line); err != nil {
			return fmt.Errorf("the answer of the server ended early (%w), so the export is incomplete; export again", err)
		}
		if line.End != nil {
			if table.Flush(); table.Error() != nil {
				return table.Error()
			}
			fmt.Fprintf(info, "%d lines, %s USD counted\n", printed.lines, dollars(printed.cents))
			return checkTotals(all, *line.End, days, info)
		}
		if line.Movement == nil {
			return errors.New("the answer of the server has an unknown line, so the export is incomplete; use the same version for command and server")
		}
		m := *line.Movement
		at, err := time.Parse(time.RFC3339, m.Date)
		recorded, failed := time.Parse(time.RFC3339, m.RecordedAt)
		if err = cmp.Or(err, failed); err != nil {
			return fmt.Errorf("the date of a payment cannot be read (%w); use the same version for command and server", err)
		}
		counted := int64(0)
		if m.Counted && m.AmountUSD != nil {
			counted = int64(*m.AmountUSD)
		}
		if all.Count, all.ReceivedCents = all.Count+1, all.ReceivedCents+counted; !m.Own {
			all.ExternalCents += counted
		}
		at = at.In(time.Local)
		if !days.contains(at.Format(time.DateOnly), recorded) {
			continue
		}
		printed.lines, printed.cents = printed.lines+1, printed.cents+counted
		row := m.Row(at, zoneOf(at))
		for i, column := range report.MovementColumns {
			if row[i] = cell(row[i]); table.Comma == ';' && (column == "amount" || column == "usd_value") {
				row[i] = strings.Replace(row[i], ".", ",", 1)
			}
		}
		if err := table.Write(row); err != nil {
			return err
		}
	}
}

// checkTotals prints that all movements add up to the ledger's totals, or fails.
func checkTotals(all, end operator.MovementsEnd, days span, info io.Writer) error {
	if end.Error != "" {
		return errors.New(printable(end.Error))
	}
	if all.Count != end.Count || all.ReceivedCents != end.ReceivedCents || all.ExternalCents != end.ExternalCents {
		return fmt.Errorf("%d movements add up to %s USD received, %s of it from others; the ledger says %d, %s and %s: do not use this export, and report this as a bug",
			all.Count, dollars(all.ReceivedCents), dollars(all.ExternalCents), end.Count, dollars(end.ReceivedCents), dollars(end.ExternalCents))
	}
	which := "all movements"
	if days != (span{}) {
		which = "all movements, of whatever day,"
	}
	fmt.Fprintf(info, "%s add up to the ledger's sums: %s USD received, %s of it from others\n",
		which, dollars(all.ReceivedCents), dollars(all.ExternalCents))
	if end.Partial {
		fmt.Fprintln(info, "some money of unknown value is not in these dollars: its usd_value is empty")
	}
	return nil
}

func dollars(cents int64) string { return offer.USD(cents).Decimal() }

// cell is a value that no spreadsheet takes for a formula (https://owasp.org/www-community/attacks/CSV_Injection)
// and no terminal for a command, because payers and providers choose many texts. A number stays as it is.
func cell(s string) string {
	s = printable(s)
	if _, err := strconv.ParseFloat(s, 64); err != nil && s != "" && strings.ContainsRune("=+-@\uff1d\uff0b\uff0d\uff20", []rune(s)[0]) {
		return "'" + s
	}
	return s
}

// zoneOf is the name of the time zone, or its offset from UTC if the machine knows only the rules of its zone.
func zoneOf(at time.Time) string {
	if name := at.Location().String(); name != "Local" {
		return name
	}
	if _, offset := at.Zone(); offset == 0 {
		return "UTC"
	}
	return at.Format("UTC-07:00")
}
