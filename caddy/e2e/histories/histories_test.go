package histories

import (
	"context"
	"fmt"
	random "math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

// seedVariable is the environment variable that names the one history to be played.
const seedVariable = "HISTORY"

// fixed are histories that went wrong once.
var fixed = []uint64{12594626181320557109}

// together is how many histories share a ground: chains grow slow with their length.
const together = 20

func TestEveryPurchaseInARandomHistoryIsChargedOnce(t *testing.T) {
	for name, database := range map[string]database{"SQLite": sqlite, "PostgreSQL": postgreSQL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seeds := seeds(t)
			for begin := 0; begin < len(seeds); begin += together {
				some := seeds[begin:min(begin+together, len(seeds))]
				t.Run(fmt.Sprintf("from %d", begin), func(t *testing.T) {
					g := openGround(t, database)
					for _, seed := range some {
						t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { play(t, g, seed) })
					}
				})
			}
		})
	}
}

// seeds are those of the histories to be played, or the one that is asked for. With FULL=1 go test needs -timeout 1h.
func seeds(t *testing.T) (seeds []uint64) {
	t.Helper()
	if asked := os.Getenv(seedVariable); asked != "" {
		seed, err := strconv.ParseUint(asked, 10, 64)
		require.NoError(t, err)
		return []uint64{seed}
	}
	count := cases.EndToEnd(5, 25, 500)
	t.Logf("%d random histories", count)
	seeds = slices.Clone(fixed)
	for range count {
		seeds = append(seeds, random.Uint64())
	}
	return seeds
}

func play(t *testing.T, g *ground, seed uint64) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, g, seed)
		defer w.close()
		w.live()
		w.model.judge()
		if w.script.gated {
			t.Logf("gated: the content %d times for %d purchases", len(w.model.openings), len(w.model.purchases))
		}
		if len(w.model.faults) > 0 {
			t.Errorf("%s\n\nThe history, which %s=%d repeats:\n%s",
				strings.Join(w.model.faults, "\n"), seedVariable, seed, strings.Join(w.model.story, "\n"))
		}
	})
}

// live lets everything happen, and ends when all is decided and everything was tried once more.
func (w *world) live() {
	for _, loop := range []func(){w.mine, w.release, w.rain, w.stranger} {
		w.background.Go(loop)
	}
	troubled, calm := context.WithCancel(w.over)
	var troubles, purchases sync.WaitGroup
	troubles.Go(func() { w.operate(troubled) })
	troubles.Go(func() { w.storm(troubled) })
	for n := range w.script.payers {
		b := &buyer{world: w, dice: w.dice(100 + uint64(n)), key: w.payers[n], name: string(rune('A' + n))}
		purchases.Go(func() {
			time.Sleep(b.between(time.Millisecond, 10*time.Second))
			count := 1 + b.roll(w.script.purchases)
			if w.script.gated {
				count = 1 // what is open needs no second payment
			}
			b.buy(count)
		})
	}
	purchases.Wait()
	calm()
	troubles.Wait()
	w.model.note("the purchases are over; everything works again")
	w.heal()
	last := w.dice(7)
	for _, p := range w.model.seen() {
		w.replay(last, p)
	}
	time.Sleep(time.Minute) // what was held up happens now
	w.awaitDecided()
}
