package evm

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Calls that were refused together are one refusal, and those that wait have their turns one after the other.
func TestThePaceAdaptsToTheEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pace
		begin := time.Now()
		for range 100 {
			_, ok := p.await(t.Context())
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
				_, ok := p.await(t.Context())
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
			_, ok := p.await(t.Context())
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
		_, ok := p.await(ctx)
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
