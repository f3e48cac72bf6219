package evm

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// gate is what an endpoint takes: so many calls in any second, and so many blocks in a query.
type gate struct {
	calls, blocks     int
	tooMany, tooLarge fault

	mu    sync.Mutex
	taken []time.Time
	// answered, refused and large count the calls; between is the shortest time from a refusal to the next call.
	answered, refused, large int
	between                  time.Duration
	refusedAt                time.Time
}

// guard puts a gate before an endpoint.
func (n *node) guard(g *gate) {
	g.between = time.Hour
	n.on("*", func(c call, pass func() any) any {
		g.mu.Lock()
		defer g.mu.Unlock()
		now := time.Now()
		g.taken = slices.DeleteFunc(g.taken, func(at time.Time) bool { return now.Sub(at) >= time.Second })
		if !g.refusedAt.IsZero() && now.After(g.refusedAt) {
			g.between = min(g.between, now.Sub(g.refusedAt))
			g.refusedAt = time.Time{}
		}
		if len(g.taken) >= g.calls {
			g.refused++
			g.refusedAt = now
			return g.tooMany
		}
		g.taken = append(g.taken, now)
		if c.Method == "eth_getLogs" {
			if q := c.query(); int(q.ToBlock-q.FromBlock) >= g.blocks {
				g.large++
				return g.tooLarge
			}
		}
		g.answered++
		return pass()
	})
}

// An endpoint that takes few calls of few blocks is read to the end, however it says so: what it wants is learnt, and
// it is asked no more than it takes.
func TestASmallEndpointCatchesUp(t *testing.T) {
	t.Parallel()
	ranged := fault{code: -32600, words: "Under the Free tier plan, you can make eth_getLogs requests with up to a 10 block range."}
	for name, g := range map[string]*gate{
		"429":                      {tooMany: fault{status: 429}, tooLarge: ranged},
		"429 with Retry-After":     {tooMany: fault{status: 429, retryAfter: "2"}, tooLarge: fault{code: -32614, words: "eth_getLogs is limited to a 10 range"}},
		"an error for both":        {tooMany: fault{code: -32005}, tooLarge: fault{code: -32005}},
		"an error with words":      {tooMany: fault{code: -32007, words: "8/second request limit reached"}, tooLarge: fault{status: 400}},
		"a code for calls":         {tooMany: fault{code: -32005, words: "rate exceeded"}, tooLarge: fault{code: -32602}},
		"429 in a batch of errors": {tooMany: fault{code: 429, words: "exceeded"}, tooLarge: fault{status: 413}},
	} {
		for _, endpoints := range []int{1, 2} {
			t.Run(fmt.Sprint(name, " of ", endpoints), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					const blocks = 4000
					s := openRead(t, endpoints)
					start := time.Now()
					s.config.Now = func() time.Time { return s.clock().Add(time.Since(start)) }
					for range blocks / 100 {
						s.chain.pay(price)
						s.chain.mine(99)
					}
					s.chain.finalize()
					s.now += blocks * blockTime * time.Second
					g := &gate{calls: 8, blocks: 10, tooMany: g.tooMany, tooLarge: g.tooLarge}
					s.nodes[0].guard(g)
					s.restart()
					ctx, cancel := context.WithCancel(t.Context())
					ended := make(chan struct{})
					go func() { s.Observer.Run(ctx); close(ended) }()

					// In half a minute there is something, and in five minutes all.
					took := time.Duration(0)
					for wait := 30 * time.Second; s.cursor() < s.chain.head(); wait = 15 * time.Second {
						before := s.cursor()
						s.elapse(wait)
						took += wait
						require.Greater(t, s.cursor(), before)
						require.Less(t, took, 5*time.Minute)
					}
					s.elapse(time.Minute)
					s.requireRight()
					s.requireObserved()
					cancel()
					<-ended

					// Two filters a range, one receipt a payment, and what a round costs besides.
					t.Logf("%d blocks in %v, and a minute: %d calls answered, %d refused, %d of too many blocks", blocks, took, g.answered, g.refused, g.large)
					require.LessOrEqual(t, g.refused, g.answered/20)
					require.LessOrEqual(t, g.large, g.answered/20)
					if g.tooMany.retryAfter != "" {
						require.GreaterOrEqual(t, g.between, 2*time.Second)
					}
				})
			})
		}
	}
}

// An endpoint that wants to be left alone for longer than a call waits is left alone, while another one is read; what
// was read so far is committed.
func TestARoundThatWasCutShortHasMovedTheCursor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openRead(t, 1)
		for range 50 {
			s.chain.pay(price)
			s.chain.mine(999)
		}
		s.chain.finalize()
		s.now += 100_000 * time.Second
		from, calls := s.cursor(), 0
		s.nodes[0].on("eth_getLogs", func(c call, pass func() any) any {
			if c.query().FromBlock > 20_000 {
				calls++
				return fault{status: 429, retryAfter: "60"}
			}
			return pass()
		})
		begin := time.Now()
		s.requireTrouble("rate_limited (one.example)", false)
		require.Greater(t, s.cursor(), from+19_000)
		require.Len(t, s.rows(), int(s.cursor()-399+999)/1000)
		require.Less(t, time.Since(begin), patience)
		require.Equal(t, 1, calls)
		s.requireTrouble("rate_limited (one.example)", true)
		require.Equal(t, 1, calls, "a minute is a minute")
		s.elapse(time.Minute)
		s.requireTrouble("rate_limited (one.example)", true)
		require.Equal(t, 2, calls)
		s.nodes[0].honest()
		s.elapse(time.Minute)
		s.settle()
	})
}

// Calls that were refused together are one refusal, and those that wait have their turns one after the other.
func TestThePaceIsThatOfTheEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pace
		begin := time.Now()
		for range 100 {
			_, ok := p.turn(t.Context())
			require.True(t, ok)
		}
		require.Zero(t, time.Since(begin), "nobody waits for nothing")
		for range 100 {
			p.refuse(0, 0)
		}
		require.Equal(t, gapLeast, p.gap)
		var work sync.WaitGroup
		var mu sync.Mutex
		var turns []time.Duration
		for range 4 {
			work.Go(func() {
				_, ok := p.turn(t.Context())
				require.True(t, ok)
				mu.Lock()
				defer mu.Unlock()
				turns = append(turns, time.Since(begin))
			})
		}
		work.Wait()
		require.Equal(t, []time.Duration{pauseFirst, pauseFirst + gapLeast, pauseFirst + 2*gapLeast, pauseFirst + 3*gapLeast}, turns)

		// Refusals in a row are longer and longer pauses, up to a limit; an answer begins anew.
		for _, pause := range []time.Duration{2, 4, 8, 16, 32, 64, 64} {
			p.refuse(p.refused(), 0)
			require.Equal(t, pause*time.Second, time.Until(p.next))
			_, ok := p.turn(t.Context())
			require.Equal(t, pause*time.Second <= patience, ok)
			time.Sleep(time.Until(p.next))
		}
		require.Equal(t, gapMost, p.gap)
		p.answered()
		p.refuse(p.refused(), time.Hour)
		require.Equal(t, time.Hour, time.Until(p.next))
		time.Sleep(time.Hour)
		for range 2000 {
			p.answered()
		}
		require.Zero(t, p.gap, "it is forgotten in time")

		ctx, cancel := context.WithCancel(t.Context())
		p.answered()
		p.refuse(p.refused(), 0)
		cancel()
		_, ok := p.turn(ctx)
		require.False(t, ok)
	})
}

func TestWhatAnErrorAsksForIsRead(t *testing.T) {
	for message, want := range map[string]demand{
		"query returned more than 10000 results":                      smallerRange,
		"eth_getLogs is limited to a 10,000 range":                    smallerRange,
		"block range is too wide":                                     smallerRange,
		"exceed maximum block range: 50000":                           smallerRange,
		"ranges over 10000 blocks are not supported on freetier":      smallerRange,
		"Log response size exceeded.":                                 smallerRange,
		"over rate limit":                                             fewerCalls,
		"15/second request limit reached":                             fewerCalls,
		"Too many request, try again later":                           fewerCalls,
		"Your app has exceeded its compute units per second capacity": fewerCalls,
		"daily request count exceeded, request rate limited":          fewerCalls,
		"project ID request rate exceeded on eth_getLogs, slow down":  fewerCalls,
		"limit exceeded":                                              fewerOrSmaller,
		"":                                                            fewerOrSmaller,
	} {
		require.Equal(t, want, demandOf(codeLimited, message), message)
	}
	require.Equal(t, nothing, demandOf(-32000, "header not found"))
	require.Equal(t, nothing, demandOf(-32603, "internal error while generating the answer"))
	require.Equal(t, fewerCalls, demandOf(http.StatusTooManyRequests, "exceeded"))
	require.Equal(t, smallerRange, demandOf(codeParams, "invalid"))
}
