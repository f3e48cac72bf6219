package command

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
)

// place is a sum's rail and asset, because no sum contains two assets.
type place struct{ rail, asset string }

// tally is the sum of counted movements: in atomic units, and in US cents as far as the value is known. valued and
// unknown count the movements with and without a known value.
type tally struct{ payments, gross, back, cents, valued, unknown int64 }

// tallies are the sums of movements that count.
type tallies map[place]tally

func (t tallies) add(m report.Movement) {
	if !m.Counted {
		return
	}
	at, atomic := place{m.Rail, offer.UnitOf(m.Asset).Symbol}, report.Atomic(m.AmountAtomic)
	sum := t[at]
	switch m.Kind {
	case accounting.MovementPayment:
		sum.payments++
	case accounting.MovementDropped:
		sum.payments--
	}
	switch m.Kind {
	case accounting.MovementPayment, accounting.MovementDropped, accounting.MovementCorrection:
		sum.gross += atomic
	default:
		sum.back -= atomic
	}
	if m.AmountUSD == nil {
		sum.unknown++
	} else {
		sum.valued++
		sum.cents += int64(*m.AmountUSD)
	}
	t[at] = sum
}

// print prints the sums for people. The dollars are the known part of the net; the last column counts the movements
// that they do not include.
func (t tallies) print(out io.Writer) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RAIL\tASSET\tPAYMENTS\tGROSS\tWENT BACK\tNET\tUSD\tUNKNOWN VALUES")
	for _, at := range slices.SortedFunc(maps.Keys(t), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.rail, b.rail), cmp.Compare(a.asset, b.asset))
	}) {
		sum, usd := t[at], "unknown"
		units := func(atomic int64) string { return report.Decimal(offer.UnitOf(at.asset), atomic) }
		if sum.valued > 0 {
			usd = dollars(sum.cents)
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%d\n", printable(at.rail), printable(at.asset), sum.payments,
			units(sum.gross), units(sum.back), units(sum.gross-sum.back), usd, sum.unknown)
	}
	_ = table.Flush() // as for every line on standard error
}
