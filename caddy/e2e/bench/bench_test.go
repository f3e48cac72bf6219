// Package bench compares the built binary with a bare Caddy handler that writes the same bytes, with the reference seller
// @x402/express, and with a bare server of the MCP library, in one run on loopback. Only ratios within a run mean something,
// because absolute numbers depend on the machine. Run it with make -f xcaddy.mk bench.
package bench

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	rows   = flag.String("rows", "", "the rows to measure, separated by commas; empty is all of them")
	rounds = flag.Int("rounds", 9, "how often those that are compared take turns")
)

// row is a part of the table that can be asked for by its name.
type row struct {
	name    string
	measure func(*testing.B, *table)
}

var all = []row{
	{"documents", measureDocuments},
	{"gate", measureGate},
	{"mcp", measureToolsCall},
	{"paid", measurePaid},
	{"offers", measureOffers},
}

// BenchmarkRatios measures the rows once, whatever b.N is, and prints their table.
func BenchmarkRatios(b *testing.B) {
	wanted := strings.FieldsFunc(*rows, func(r rune) bool { return r == ',' })
	for _, name := range wanted {
		require.True(b, slices.ContainsFunc(all, func(r row) bool { return r.name == name }), "there is no row %q", name)
	}
	var t table
	for _, r := range all {
		if len(wanted) > 0 && !slices.Contains(wanted, r.name) {
			continue
		}
		b.Run(r.name, func(b *testing.B) { r.measure(b, &t) })
	}
	fmt.Fprintf(os.Stdout, "\n%s", t.text())
}
