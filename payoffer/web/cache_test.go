package web

import (
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

func TestACacheIsBounded(t *testing.T) {
	var c cache[int, int]
	for i := range 3 * maxCached {
		require.Equal(t, i, c.get(i, func() int { return i }))
		require.LessOrEqual(t, len(c.values), maxCached)
	}
}
