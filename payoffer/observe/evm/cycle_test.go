package evm

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

func TestHealthBeforeFirstCycle(t *testing.T) {
	s := openBeside(t, 2)
	require.Equal(t, observe.Health{Rail: "usdc", Source: "chain", Blind: true, Partial: true}, s.Health())
}

// The chain and the token are checked at the start, and again after the connection failed: somebody else may answer.
func TestWrongChainEndpointIsNotRead(t *testing.T) {
	t.Parallel()
	for name, lie := range map[string]func(n *node){
		"another chain":      func(n *node) { n.answer("eth_chainId", "0x1") },
		"a chain beyond all": func(n *node) { n.answer("eth_chainId", "0x1ffffffffffffffffffff") },
		"no token":           func(n *node) { n.answer("eth_getCode", "0x") },
		"eighteen decimals":  func(n *node) { n.answer("eth_call", "0x"+strings.Repeat("0", 62)+"12") },
	} {
		t.Run(name, func(t *testing.T) {
			s := openBeside(t, 1)
			lie(s.nodes[0])
			s.requireError("wrong_chain (one.example)", true)
			s.nodes[0].honest()
			s.round()
			checks := s.nodes[0].count("eth_chainId")
			s.round()
			require.Equal(t, checks, s.nodes[0].count("eth_chainId"), "once is enough")

			s.nodes[0].answer("*", fault{status: 502})
			s.requireError("unreachable (one.example)", true)
			s.nodes[0].honest()
			lie(s.nodes[0])
			s.chain.pay(price)
			s.requireError("wrong_chain (one.example)", true)
			require.Empty(t, s.rows())
			s.nodes[0].honest()
			s.settle()
		})
	}
}

func TestEndpointErrorCodes(t *testing.T) {
	t.Parallel()
	for code, faults := range map[string][]fault{
		"unreachable":  {{status: 503}, {}},
		"rate_limited": {{status: 429}, {code: -32005}},
		"unauthorized": {{status: 403}, {status: 401}},
		"bad_answer":   {{code: -32601}, {status: 404}, {text: "<html>"}, {text: `{"jsonrpc":"2.0","id":1}`}},
	} {
		for _, f := range faults {
			t.Run(fmt.Sprint(code, f), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := openRead(t, 1)
					s.chain.pay(price)
					s.nodes[0].answer("*", f)
					for range 6 {
						s.requireError(code+" (one.example)", true)
					}
					s.nodes[0].honest()
					s.now.Add(int64(time.Minute))
					s.elapse(time.Minute)
					s.settle()
				})
			})
		}
	}
}

// An answer about blocks that is none leaves the rail blind.
func TestMalformedBlockIsBadAnswer(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(n *node){
		"no head":       func(n *node) { n.atBlock("latest", func(b object) { delete(b, "hash") }) },
		"null":          func(n *node) { n.answer("eth_getBlockByNumber", nil) },
		"absurd time":   func(n *node) { n.atBlock("latest", func(b object) { b["timestamp"] = number(math.MaxUint64) }) },
		"absurd number": func(n *node) { n.atBlock("latest", func(b object) { b["number"] = number(math.MaxUint64) }) },
		"no number":     func(n *node) { n.atBlock("latest", func(b object) { b["number"] = "ten" }) },
		"another number": func(n *node) {
			n.withoutTags(nil)
			n.rules["eth_getBlockByNumber"] = misnumbered(n.rules["eth_getBlockByNumber"])
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := openBeside(t, 1)
			change(s.nodes[0])
			s.requireError("bad_answer (one.example)", true)
		})
	}
}

// misnumbered shows another block than the number that was asked for.
func misnumbered(r rule) rule {
	return func(c call, pass func() any) any {
		shown := r(c, pass)
		if block, ok := shown.(object); ok && strings.HasPrefix(c.text(0), "0x") {
			block["number"] = "0x1"
		}
		return shown
	}
}

// Where a chain has no safe or final blocks, those far below its head count as such.
func TestFinalityFallsBackToDeepBlocks(t *testing.T) {
	t.Parallel()
	for name, instead := range map[string]any{"an error": fault{code: -32602}, "null": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openAt(t, 1, Safe)
			s.nodes[0].withoutTags(instead)
			s.round()
			payment := s.chain.pay(price)
			s.chain.mine(deepBlocks - 1)
			s.round()
			s.requireStatus(ledger.StatusSeen, payment)
			s.chain.mine(1)
			s.requireRightAfterRound()
			require.True(t, s.row(payment).Final)
			require.Equal(t, s.chain.head()-deepBlocks, s.cursor())
			require.Equal(t, 1, strings.Count(s.log.String(), "reports no finalized blocks"), s.log.String())
		})
	}
}

// One that knew the tags once and does not answer them now has failed: blocks far below the head could be less final.
func TestLostFinalityTagIsError(t *testing.T) {
	t.Parallel()
	for name, instead := range map[string]any{"an error": fault{code: -32602}, "null": nil} {
		t.Run(name, func(t *testing.T) {
			s := openReadBeside(t, 1)
			s.nodes[0].withoutTags(instead)
			s.requireError("bad_answer (one.example)", true)
			require.NotContains(t, s.log.String(), "far below its head")
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := open(t, 1)
		s.nodes[0].withoutTags(fault{code: -32005})
		s.requireError("rate_limited (one.example)", true)
		s.elapse(time.Minute)
		s.nodes[0].withoutTags(fault{status: 500})
		s.requireError("unreachable (one.example)", true)
		require.NotContains(t, s.log.String(), "far below its head", "to be limited is not to lack a tag")
	})
}

// A chain that shows no new block for minutes hides what was paid since: the rail does not claim to know all.
func TestStalledChainIsPartial(t *testing.T) {
	s := openReadBeside(t, 1)
	s.now.Add(int64(staleAfter * time.Second))
	s.round()
	s.requireProblem("lagging", false)
	require.Equal(t, s.chain.blocks[s.chain.head()].time, s.Health().At)
	s.chain.mine(staleAfter / blockTime)
	s.round()
	s.requireObserved()
}

// The loop reads the chain again and again, and may be run again after it ended.
func TestRunPollsUntilCanceled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, 2)
		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { s.Observer.Run(ctx); close(ended) }()
			synctest.Wait()
			s.requireObserved()
			payment := s.chain.pay(price)
			s.elapse(watchEvery)
			s.requireStatus(ledger.StatusConfirmed, payment)
			cancel()
			<-ended
		}
		require.Empty(t, s.log.String())
	})
}

// While the chain cannot be read it is asked less often; the log tells once of each trouble, and of its end.
func TestProblemIsLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, 2)
		start := time.Now()
		s.config.Now = func() time.Time { return s.clock().Add(time.Since(start)) }
		s.restart()
		go s.Observer.Run(t.Context())
		synctest.Wait()
		// expect lets ten minutes pass and requires one line of the log.
		expect := func(message, problem string) {
			t.Helper()
			s.elapse(10 * time.Minute)
			require.Equal(t, 1, strings.Count(s.log.String(), "\n"), s.log.String())
			require.Contains(t, s.log.String(), message)
			require.Contains(t, s.log.String(), "rail=usdc network=eip155:84532"+problem)
			require.NotContains(t, s.log.String(), "secret")
			s.log.Reset()
		}
		s.nodes[1].answer("*", fault{})
		expect(`level=WARN msg="the chain cannot be read completely"`, ` error="unreachable (two.example)"`)
		s.nodes[0].answer("*", fault{})
		expect(`level=WARN msg="the chain cannot be read completely"`, ` error="unreachable (one.example)"`)
		rounds := s.nodes[1].count("eth_chainId")
		s.elapse(time.Hour)
		require.InDelta(t, 60, s.nodes[1].count("eth_chainId")-rounds, 30, "a chain that cannot be read is asked about once a minute")
		for _, n := range s.nodes {
			n.honest()
		}
		s.elapse(10 * time.Minute)
		require.Contains(t, s.log.String(), `level=INFO msg="the chain can be read again"`)
		s.log.Reset()
		s.chain.mineFinal(1)
		s.elapse(time.Minute)
		s.chain.rewind(1)
		s.chain.mine(2)
		expect(`level=WARN msg="the chain cannot be read completely`, ` error="final_history_changed (one.example, two.example)"`)
	})
}

// The newest block shows a clock that is ahead and one that is behind.
func TestClockOffsetUsesNewestBlock(t *testing.T) {
	t.Parallel()
	s := open(t, 2)
	_, read := s.Observer.chain.ClockOffset()
	require.False(t, read)
	for _, c := range []struct{ ahead, want time.Duration }{
		{0, 0}, {time.Minute, 0}, {-time.Minute, 0}, {61 * time.Second, 61 * time.Second}, {-61 * time.Second, -61 * time.Second}, {-time.Hour, -time.Hour},
	} {
		s.config.Now = func() time.Time { return time.Unix(s.made(399), 0).Add(c.ahead) }
		s.restart()
		s.round()
		offset, read := s.Observer.chain.ClockOffset()
		require.True(t, read)
		require.Equal(t, c.want, offset)
	}
}
