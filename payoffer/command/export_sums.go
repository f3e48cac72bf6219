package command

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/desk"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/book"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// place is where movements are added up: no sum holds two assets. month is as in
// "2026-11", or empty.
type place struct{ month, rail, asset string }

// tally is what counted movements add up to: atomic units, and US cents over those
// of known value. valued and unknown are how many movements there are of either.
type tally struct{ payments, gross, back, cents, valued, unknown int64 }

// tallies are the sums of movements that count.
type tallies map[place]tally

func (t tallies) add(month string, m desk.Movement) {
	if !m.Counted {
		return
	}
	at := place{month, m.Rail, m.Asset}
	sum := t[at]
	switch m.Kind {
	case book.MovementPayment:
		sum.payments++
	case book.MovementDropped:
		sum.payments--
	}
	switch m.Kind {
	case book.MovementPayment, book.MovementDropped, book.MovementCorrection:
		sum.gross += m.Atomic
	default:
		sum.back -= m.Atomic
	}
	if m.USDCents == nil {
		sum.unknown++
	} else {
		sum.valued++
		sum.cents += *m.USDCents
	}
	t[at] = sum
}

// sorted are the places in their order.
func (t tallies) sorted() []place {
	return slices.SortedFunc(maps.Keys(t), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.month, b.month), cmp.Compare(a.rail, b.rail), cmp.Compare(a.asset, b.asset))
	})
}

// cells are the numbers of a sum: payments, gross, what went back, net, the known
// part of the net's value in US dollars, which is empty where no part is known, and
// how many movements that leaves out.
func (t tally) cells(asset string) []string {
	usd := ""
	if t.valued > 0 {
		usd = dollars(t.cents)
	}
	return []string{
		strconv.FormatInt(t.payments, 10), units(asset, t.gross), units(asset, t.back), units(asset, t.gross-t.back), usd, strconv.FormatInt(t.unknown, 10),
	}
}

// units is an amount in whole units of an asset.
func units(asset string, atomic int64) string {
	if atomic < 0 {
		return "-" + units(asset, -atomic)
	}
	return offer.UnitOf(asset).Decimal(atomic)
}

// print prints the sums for people.
func (t tallies) print(out io.Writer) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RAIL\tASSET\tPAYMENTS\tGROSS\tWENT BACK\tNET\tUSD\tUNKNOWN VALUES")
	for _, at := range t.sorted() {
		c := t[at].cells(at.asset)
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", printable(at.rail), printable(at.asset), c[0], c[1], c[2], c[3], cmp.Or(c[4], "unknown"), c[5])
	}
	_ = table.Flush() // as for every line that is told
}

// monthly prints a line for each month, rail and asset.
type monthly struct {
	table *csv.Writer
	sums  tallies
}

func (m *monthly) header() error {
	return m.table.Write([]string{"month", "time_zone", "rail", "asset", "payments", "gross", "went_back", "net", "usd_value", "unknown_values"})
}

func (m *monthly) add(movement desk.Movement, at time.Time) error {
	m.sums.add(at.Format("2006-01"), movement)
	return nil
}

func (m *monthly) end() error {
	for _, at := range m.sums.sorted() {
		first, err := time.ParseInLocation("2006-01", at.month, time.Local)
		if err != nil {
			return err
		}
		row := append([]string{at.month, cell(zoneOf(first)), cell(at.rail), cell(at.asset)}, m.sums[at].cells(at.asset)...)
		if err := m.table.Write(row); err != nil {
			return err
		}
	}
	m.table.Flush()
	return m.table.Error()
}
