package histories

import (
	"math/rand/v2"
	"sync"
	"time"
)

// dice decide what somebody does. Each has their own, so that what one does changes nothing of what the others do.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

// dice are those of one, by number, in this history.
func (w *world) dice(of uint64) *dice { return &dice{r: rand.New(rand.NewPCG(w.seed, of))} }

// chance is true so often in one.
func (d *dice) chance(p float64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.Float64() < p
}

// roll is a number from 0 to n-1.
func (d *dice) roll(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}

// between is a time between two others.
func (d *dice) between(least, most time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return least + time.Duration(d.r.Int64N(int64(most-least)))
}
