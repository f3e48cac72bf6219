// Package indexes observes random histories of a real Bitcoin chain over two Esplora indexes, one of which lies, hides, lags
// and truncates.
package indexes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

// Histories end with what the honest chain holds, or say that they are partial; where no index lies in the end, they do
// the first. At no time does anything count that the chain never confirmed, or another amount, and no address is passed
// that nobody has paid to. FULL=1 needs -timeout 3h.
func TestNothingIsBelievedOnOneIndexsWord(t *testing.T) {
	count := cases.EndToEnd(20, 30, 10_000)
	var equal, partial, honest int
	for first := 0; first < count; first += atOnce {
		t.Run(fmt.Sprint("from ", first), func(t *testing.T) {
			w := newWorld(t, first, min(atOnce, count-first))
			w.run()
			for _, h := range w.histories {
				o := h.judge()
				if o.equal {
					equal++
				}
				if o.partial {
					partial++
				}
				if h.honestEnd {
					honest++
				}
				if len(h.wrong) > 0 {
					t.Errorf("%s: %s\n\t%s", h.name, strings.Join(h.wrong, "; "), strings.Join(h.journal, "\n\t"))
				}
				require.NoError(t, h.book.Close())
			}
		})
	}
	t.Logf("%d random histories: %d ended with what the chain holds, and %d said partial; of %d, where no index lied in the end, all must do the first only",
		count, equal, partial, honest)
	require.GreaterOrEqual(t, equal, count*3/4)
	require.GreaterOrEqual(t, honest, count/4)
}
