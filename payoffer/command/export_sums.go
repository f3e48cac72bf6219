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
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
)

// place is where movements are added up, because no sum holds two assets.
type place struct{ rail, asset string }

// tally is what counted movements add up to: atomic units, and US cents over those
// of known value. valued and unknown are how many movements there are of either.
type tally struct{ payments, gross, back, cents, valued, unknown int64 }

// tallies are the sums of movements that count.
type tallies map[place]tally

func (t tallies) add(m operator.Movement) {
	if !m.Counted {
		return
	}
	at := place{m.Rail, m.Asset}
	sum := t[at]
	switch m.Kind {
	case accounting.MovementPayment:
		sum.payments++
	case accounting.MovementDropped:
		sum.payments--
	}
	switch m.Kind {
	case accounting.MovementPayment, accounting.MovementDropped, accounting.MovementCorrection:
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

// units is an amount in whole units of an asset.
func units(asset string, atomic int64) string {
	if atomic < 0 {
		return "-" + units(asset, -atomic)
	}
	return offer.UnitOf(asset).Decimal(atomic)
}

// print prints the sums for people. The dollars are the known part of the net, and
// the last column counts the movements that they leave out.
func (t tallies) print(out io.Writer) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RAIL\tASSET\tPAYMENTS\tGROSS\tWENT BACK\tNET\tUSD\tUNKNOWN VALUES")
	for _, at := range slices.SortedFunc(maps.Keys(t), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.rail, b.rail), cmp.Compare(a.asset, b.asset))
	}) {
		sum, usd := t[at], "unknown"
		if sum.valued > 0 {
			usd = dollars(sum.cents)
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%d\n", printable(at.rail), printable(at.asset), sum.payments,
			units(at.asset, sum.gross), units(at.asset, sum.back), units(at.asset, sum.gross-sum.back), usd, sum.unknown)
	}
	_ = table.Flush() // as for every line that is told
}
