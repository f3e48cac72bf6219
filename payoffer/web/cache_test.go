package web

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnAnswerIsMadeOnceForAllWhoAskForIt(t *testing.T) {
	var made atomic.Int64
	render := func() *response { made.Add(1); return new(response) }
	var answers cache[string, *response]
	document := once(render)
	for name, ask := range map[string]func() *response{
		"in a cache": func() *response { return answers.get("a", render) },
		"fixed":      func() *response { return document(nil) },
	} {
		made.Store(0)
		first := ask()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { require.Same(t, first, ask(), name) })
		}
		all.Wait()
		require.EqualValues(t, 1, made.Load(), name)
	}
}

// Whoever floods the paths with addresses and headers of his own has nothing made or
// kept for them.
func TestAFloodMakesNothingNew(t *testing.T) {
	w := newWorld(t)
	w.changed = func() uint64 { return 1 }
	s := w.server(t)
	flood := func(rounds int) {
		for i := range rounds {
			for _, target := range targets(s) {
				for _, accept := range accepts {
					lang := []string{"", "de", "xx", "en-GB"}[i%4]
					fetch(s, "GET", fmt.Sprintf("/v1/pay/%d.uri", i))
					fetch(s, "GET", fmt.Sprintf("%s?_=%d&lang=%s&utm=%[2]d", target, i, lang), "Accept", accept+fmt.Sprintf(", x/%d", i),
						"Accept-Language", fmt.Sprintf("xx-%d, fr;q=0.%d", i, i%10), "Accept-Encoding", fmt.Sprintf("x-%d, gzip;q=0.%d", i, i%10), "If-None-Match", fmt.Sprintf(`"%d"`, i))
				}
			}
		}
	}
	kept := func() [3]int {
		live, reading := s.live.Load(), s.arrivals.done.Load()
		return [3]int{len(live.answers.values), len(reading.shown.values), len(s.images.values)}
	}
	flood(40)
	before, reads := kept(), w.reads.Load()
	flood(40)
	require.Equal(t, before, kept())
	require.Equal(t, reads, w.reads.Load())
}

func TestACacheIsBounded(t *testing.T) {
	var c cache[int, int]
	for i := range 3 * maxCached {
		require.Equal(t, i, c.get(i, func() int { return i }))
		require.LessOrEqual(t, len(c.values), maxCached)
	}
}
