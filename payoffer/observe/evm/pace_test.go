package evm

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Calls that were refused together are one refusal.
func TestCallsWaitAfterARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pace
		begin := time.Now()
		_, ok := p.await(t.Context())
		require.True(t, ok)
		require.Zero(t, time.Since(begin))
		for range 100 {
			p.refuse(0, 0)
		}
		_, ok = p.await(t.Context())
		require.True(t, ok)
		require.Equal(t, pauseFirst, time.Since(begin))

		// Refusals in a row are longer and longer pauses, up to a limit; an answer ends the row.
		for _, pause := range []time.Duration{2, 4, 8, 16, 32, 64, 64} {
			p.refuse(p.refused(), 0)
			require.Equal(t, pause*time.Second, time.Until(p.next))
			_, ok := p.await(t.Context())
			require.Equal(t, pause*time.Second <= patience, ok)
			time.Sleep(time.Until(p.next))
		}
		p.answered()
		p.refuse(p.refused(), time.Hour)
		require.Equal(t, time.Hour, time.Until(p.next))
		time.Sleep(time.Hour)

		ctx, cancel := context.WithCancel(t.Context())
		p.answered()
		p.refuse(p.refused(), 0)
		cancel()
		_, ok = p.await(ctx)
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
