package command

import (
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

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
)

// exportFlags are those of received --csv.
func exportFlags(cmd *cobra.Command) {
	cmd.Flags().Bool("csv", false, "Print all money that came or went back as CSV (RFC 4180), the sums on standard error")
	cmd.Flags().String("from", "", "With --csv: the first day, as in 2026-01-01, in the time zone of this machine (TZ)")
	cmd.Flags().String("to", "", "With --csv: the last day, as in 2026-12-31")
	cmd.MarkFlagsMutuallyExclusive("csv", "json")
	cmd.MarkFlagsMutuallyExclusive("csv", "receipts")
}

// span are the days of an export, both included; an empty one is no bound.
type span struct{ from, to string }

func spanOf(fl caddycmd.Flags) (s span, err error) {
	s = span{fl.String("from"), fl.String("to")}
	for name, day := range map[string]string{"from": s.from, "to": s.to} {
		if _, err := time.Parse(time.DateOnly, day); day != "" && err != nil {
			return s, fmt.Errorf("--%s is a day, as in 2026-01-31", name)
		}
	}
	if s.from != "" && s.to != "" && s.from > s.to {
		return s, errors.New("--from is after --to")
	}
	return s, nil
}

func (s span) holds(day string) bool {
	return (s.from == "" || day >= s.from) && (s.to == "" || day <= s.to)
}

// exportCSV prints the movements of an offer, and on told what they add up to. It
// fails where that is not what the ledger's sums say: what was printed must not be
// used then.
func exportCSV(fl caddycmd.Flags, out, told io.Writer) error {
	if err := checkZone(); err != nil {
		return err
	}
	days, err := spanOf(fl)
	if err != nil {
		return err
	}
	address, err := adminAddress(fl)
	if err != nil {
		return err
	}
	response, err := send(context.Background(), address, http.MethodGet, operator.PathMovements+"?"+url.Values{"offer": {fl.String("offer")}}.Encode(), nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if err := refused(response); err != nil {
		return err
	}
	table := csv.NewWriter(out)
	table.UseCRLF = true
	return export(response.Body, days, table, told)
}

// export reads movements to their end, and compares what all of them add up to with
// what the end says.
func export(from io.Reader, days span, table *csv.Writer, told io.Writer) error {
	if err := table.Write([]string{
		"date_utc", "date_local", "time_zone", "kind", "rail", "reference", "number", "asset", "amount", "amount_atomic",
		"usd_value", "value_basis", "status", "evidence", "own", "testnet", "counted", "transaction",
	}); err != nil {
		return err
	}
	var all operator.MovementsEnd
	undated, written := 0, make(tallies)
	decoder := json.NewDecoder(from)
	for {
		var line operator.MovementLine
		if err := decoder.Decode(&line); err != nil {
			return fmt.Errorf("the server's answer has no end; what was printed is not complete: %w", err)
		}
		if line.End != nil {
			if table.Flush(); table.Error() != nil {
				return table.Error()
			}
			written.print(told)
			if undated > 0 {
				fmt.Fprintf(told, "the source of %d told no date that it can have meant; 9999-12-31 stands there, look at the source for the right one\n", undated)
			}
			return agree(all, *line.End, days, told)
		}
		m := *line.Movement
		at, err := time.Parse(time.RFC3339, m.Date)
		if err != nil {
			return fmt.Errorf("the date of a movement cannot be read: %w", err)
		}
		all.Count++
		if m.Counted && m.USDCents != nil {
			all.ReceivedCents += *m.USDCents
			if !m.Own {
				all.ExternalCents += *m.USDCents
			}
		}
		if strings.HasPrefix(m.Date, operator.Undated) {
			undated++
		}
		at = at.In(time.Local)
		if !days.holds(at.Format(time.DateOnly)) {
			continue
		}
		if err := table.Write(row(m, at)); err != nil {
			return err
		}
		written.add(m)
	}
}

// agree says that all movements add up to what the ledger says, or fails.
func agree(all, end operator.MovementsEnd, days span, told io.Writer) error {
	if end.Error != "" {
		return errors.New(printable(end.Error))
	}
	if all.Count != end.Count || all.ReceivedCents != end.ReceivedCents || all.ExternalCents != end.ExternalCents {
		return fmt.Errorf("%d movements add up to %s USD received, %s of it from others; the ledger says %d, %s and %s: what was printed must not be used, please report this",
			all.Count, dollars(all.ReceivedCents), dollars(all.ExternalCents), end.Count, dollars(end.ReceivedCents), dollars(end.ExternalCents))
	}
	which := "all movements"
	if days != (span{}) {
		which = "all movements, of whatever day,"
	}
	fmt.Fprintf(told, "%s add up to the ledger's sums: %s USD received, %s of it from others\n",
		which, dollars(all.ReceivedCents), dollars(all.ExternalCents))
	if end.Partial {
		fmt.Fprintln(told, "some money of unknown value is not in these dollars: its usd_value is empty")
	}
	return nil
}

func dollars(cents int64) string { return offer.USD(cents).Decimal() }

// row is the line of a movement, with its local time.
func row(m operator.Movement, at time.Time) []string {
	usd := ""
	if m.USDCents != nil {
		usd = dollars(*m.USDCents)
	}
	return []string{
		cell(m.Date), at.Format(time.DateOnly), cell(zoneOf(at)), cell(string(m.Kind)), cell(m.Rail), cell(m.Reference),
		strconv.FormatInt(m.Number, 10), cell(m.Asset), m.Amount, strconv.FormatInt(m.Atomic, 10), usd, cell(m.ValueBasis),
		cell(m.Status), cell(m.Evidence), yesNo(m.Own), yesNo(m.Testnet), yesNo(m.Counted), cell(m.Transaction),
	}
}

// cell is a text that no spreadsheet takes for a formula
// (https://owasp.org/www-community/attacks/CSV_Injection) and no terminal for an
// order: many strings come from payers and providers.
func cell(s string) string {
	if s = printable(s); s != "" && strings.ContainsRune("=+-@\uff1d\uff0b\uff0d\uff20", []rune(s)[0]) {
		return "'" + s
	}
	return s
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// zoneOf is the name of the time zone, or its distance from UTC where the machine
// knows its rules alone.
func zoneOf(at time.Time) string {
	if name := at.Location().String(); name != "Local" {
		return name
	}
	return at.Format("UTC-07:00")
}
