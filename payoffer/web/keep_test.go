package web

import (
	"fmt"
	"net/url"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

func TestAnAnswerIsMadeOnceForAllWhoAskForIt(t *testing.T) {
	var made atomic.Int64
	render := func() *response { made.Add(1); return new(response) }
	var answers shelf[string, *response]
	document := once(render)
	for name, ask := range map[string]func() *response{
		"on a shelf": func() *response { return answers.get("a", render) },
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

func TestWhoAsksForAnotherAnswerDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answers shelf[string, *response]
		hold, a, b := make(chan struct{}), new(response), new(response)
		slow := func() *response { <-hold; return a }
		got := make(chan *response, 1)
		go func() { got <- answers.get("a", slow) }()
		synctest.Wait()
		require.Same(t, b, answers.get("b", func() *response { return b }))
		require.Empty(t, got)
		close(hold)
		require.Same(t, a, <-got)
	})
}

// Of thousands of offers most are asked for nothing for a long time, and then for little.
func TestAnOfferMakesNothingButWhatItIsAskedFor(t *testing.T) {
	const most = 32 << 10 // bytes, fewer than the handlers of all paths take, and than a page has
	c := newWorld(t).config()
	s, err := New(c)
	require.NoError(t, err)
	for name, idle := range map[string]func(){
		"load":     func() { s, err = New(c) },
		"one path": func() { s.resources = shelf[string, *resource]{}; s.find(&url.URL{Path: offer.PathReceived}) },
		"refresh":  func() { s.Refresh() },
		"renew":    func() { s.Renew(at) },
	} {
		least := uint64(1 << 63)
		for range 3 { // the first allocates what all offers share
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			idle()
			runtime.ReadMemStats(&after)
			require.NoError(t, err)
			least = min(least, after.TotalAlloc-before.TotalAlloc)
		}
		require.Less(t, least, uint64(most), name)
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
	kept := func() [4]int {
		live, rendered := s.live.Load(), 0
		s.snapshots.latest.Load().rendered.Range(func(any, any) bool { rendered++; return true })
		return [4]int{len(s.resources.kept), len(live.answers.kept), rendered, len(s.images.kept)}
	}
	flood(40)
	before := kept()
	flood(40)
	require.Equal(t, before, kept())
}
