package evm

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// serve starts an endpoint that answers each call by a function.
func serve(t *testing.T, answer func(method string, params []json.RawMessage) string) *endpoint {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			Method string
			Params []json.RawMessage
		}
		if json.NewDecoder(r.Body).Decode(&call) == nil {
			fmt.Fprint(w, answer(call.Method, call.Params))
		}
	}))
	t.Cleanup(server.Close)
	e, err := newEndpoint(server.URL+"/v2/secret-key", nil, func() time.Time { return time.Unix(0, 0) })
	require.NoError(t, err)
	return e
}

// logsOf answers eth_getLogs with one log in each block, but no more than most.
func logsOf(most int) func(string, []json.RawMessage) string {
	return func(_ string, params []json.RawMessage) string {
		var query struct{ FromBlock, ToBlock string }
		_ = json.Unmarshal(params[0], &query)
		low, _ := strconv.ParseInt(query.FromBlock, 0, 64)
		high, _ := strconv.ParseInt(query.ToBlock, 0, 64)
		var logs []string
		for n := low; n <= high && len(logs) < most; n++ {
			logs = append(logs, strings.Replace(genuine, `"blockNumber":"0x10"`, fmt.Sprintf(`"blockNumber":"0x%x"`, n), 1))
		}
		return `{"jsonrpc":"2.0","id":1,"result":[` + strings.Join(logs, ",") + `]}`
	}
}

func TestHalvesThatDoNotAddUpAreABadAnswer(t *testing.T) {
	whole := true
	e := serve(t, func(method string, params []json.RawMessage) string {
		if whole {
			whole = false
			return logsOf(10_000)(method, params)
		}
		return `{"jsonrpc":"2.0","id":1,"result":[]}`
	})
	_, err := e.whole(context.Background(), filter{}, 1, 500)
	require.EqualError(t, err, "bad_answer (127.0.0.1)")
}

func TestLogsOfOtherBlocksAreABadAnswer(t *testing.T) {
	e := serve(t, func(method string, params []json.RawMessage) string {
		return logsOf(1)(method, []json.RawMessage{json.RawMessage(`{"fromBlock":"0x1","toBlock":"0x1"}`)})
	})
	_, err := e.query(context.Background(), filter{}, 2, 3)
	require.EqualError(t, err, "bad_answer (127.0.0.1)")
}

func TestAReceiptOfAnotherTransactionIsABadAnswer(t *testing.T) {
	e := serve(t, func(string, []json.RawMessage) string {
		return fmt.Sprintf(`{"result":{"transactionHash":"%[1]s","blockHash":"%[1]s","blockNumber":"0x1","status":"0x1","logs":[]}}`,
			common.HexToHash("0x01"))
	})
	_, err := e.receipt(context.Background(), common.HexToHash("0x01"))
	require.NoError(t, err)
	_, err = e.receipt(context.Background(), common.HexToHash("0x03"))
	require.EqualError(t, err, "bad_answer (127.0.0.1)")
}

func TestAResponseThatIsNotJSONRPCIsABadAnswer(t *testing.T) {
	for name, text := range map[string]string{
		"a page":            "<html>",
		"nothing":           "",
		"no result":         `{"jsonrpc":"2.0","id":1}`,
		"another type":      `{"result":[1]}`,
		"a list":            `[{"result":"0x1"}]`,
		"without end":       `{"result":"` + strings.Repeat("a", maxAnswer) + `"}`,
		"an error with key": `{"error":{"code":-32000,"message":"https://rpc.example/v2/secret-key"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			e := serve(t, func(string, []json.RawMessage) string { return text })
			_, err := e.blockAt(context.Background(), "latest")
			require.EqualError(t, err, "bad_answer (127.0.0.1)")
		})
	}
}

func TestAFailingEndpointIsNotCalledForAWhile(t *testing.T) {
	calls, now := 0, time.Unix(1_800_000_000, 0)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	e, err := newEndpoint(server.URL, nil, func() time.Time { return now })
	require.NoError(t, err)
	for range 10 {
		require.EqualError(t, e.ready(context.Background(), 1, common.Address{}), "unreachable (127.0.0.1)")
	}
	require.Equal(t, backoffAfter, calls)
	for _, rest := range []time.Duration{4, 8, 16, 32, 64, 64, 64} {
		before := calls
		now = now.Add(rest*time.Second - 1)
		require.Error(t, e.ready(context.Background(), 1, common.Address{}))
		require.Equal(t, before, calls, "too early")
		now = now.Add(1)
		require.Error(t, e.ready(context.Background(), 1, common.Address{}))
		require.Equal(t, before+1, calls)
	}
}

// transport answers requests by a function.
type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

func TestACallerGetsTheBlockThoughTheFirstCallerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		e, err := newEndpoint("https://rpc.example", transport(func(r *http.Request) (*http.Response, error) {
			if calls.Add(1) == 1 {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			body := `{"jsonrpc":"2.0","id":1,"result":{"number":"0x10","hash":"0x` + strings.Repeat("1", 64) + `"}}`
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		}), time.Now)
		require.NoError(t, err)
		r := &reader{endpoint: e}
		leaving, leave := context.WithCancel(t.Context())
		go func() { _, _ = r.blockOnce(leaving, 16) }()
		synctest.Wait()
		got := make(chan error, 1)
		go func() {
			b, err := r.blockOnce(t.Context(), 16)
			if err == nil && b.Number != 16 {
				err = fmt.Errorf("block %d", b.Number)
			}
			got <- err
		}()
		synctest.Wait()
		leave()
		require.NoError(t, <-got)
	})
}

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

// openLate starts a rail after many blocks, in which payments were made that are not counted.
func openLate(t *testing.T, endpoints, blocks int) (s *till, earlier []*transaction) {
	t.Helper()
	s = open(t, endpoints)
	for range blocks / 500 {
		s.chain.mine(499)
		earlier = append(earlier, s.chain.pay(price))
	}
	s.chain.finalize()
	s.now += time.Duration(len(s.chain.blocks)) * blockTime * time.Second
	s.chain.mine(len(s.chain.blocks)) // up to now
	s.chain.finalize()
	s.round()
	s.requireObserved()
	require.Empty(t, s.rows())
	return s, earlier
}

// lower restarts the rail with an earlier first block.
func (s *till) lower(block uint64) {
	s.Helper()
	s.config.FromBlock = block
	s.restart()
}

// causes are those of the first transitions, by transaction.
func (s *till) causes() map[string]string {
	s.Helper()
	list, err := s.db.Transitions(s.Context(), offerID, 0, 10_000)
	require.NoError(s, err)
	causes := make(map[string]string)
	for _, t := range list {
		if t.Version == 1 {
			causes[strings.Split(t.ExternalID, ":")[2]] = t.Cause
		}
	}
	return causes
}

// requireLines requires so many lines of the log, the last of which holds a text.
func (s *till) requireLines(lines int, text string) {
	s.Helper()
	require.Equal(s, lines, strings.Count(s.log.String(), "\n"), s.log.String())
	require.Contains(s, s.log.String(), text)
}

func TestAnEarlierFirstBlockHasEverythingReadAgainOnce(t *testing.T) {
	t.Parallel()
	for _, endpoints := range []int{1, 2} {
		s, earlier := openLate(t, endpoints, 3000)
		later, lost := s.chain.pay(price), s.chain.pay(price)
		for _, n := range s.nodes {
			n.hide(lost)
		}
		s.chain.finalize()
		s.round()
		s.requireOnly(later)
		for _, n := range s.nodes {
			n.honest()
		}
		before := s.account().Origin
		s.db.broken = "LowerOrigin"
		s.lower(1001)
		s.requireError("ledger_unavailable (ledger)", true)
		s.db.broken = ""
		s.round()
		s.requireObserved()
		s.requireOrigin("1000")
		counted := earlier[1:] // those in the blocks from 1,399 on
		s.requireOnly(append(counted, later, lost)...)
		s.requireLines(1, "first_block=1001 before="+next(before))
		for _, tx := range counted {
			require.Equal(t, causeChain, s.causes()[tx.hash.Hex()], "when the account was first watched is not known")
			require.True(t, s.row(tx).Final)
		}
		rows, calls := s.rows(), s.nodes[0].count("eth_getLogs")
		s.restart()
		s.round()
		require.Equal(t, rows, s.rows())
		require.LessOrEqual(t, s.nodes[0].count("eth_getLogs"), calls+1, "only what is new is read")

		// Further back, and no way forward again.
		s.lower(1)
		s.round()
		s.requireObserved()
		s.requireRight()
		s.lower(1001)
		s.requireRightAfterRound()
		s.requireOrigin("0")
		s.requireLines(3, "later from_block is ignored")
	}
}

// A final block that was never there stops a rail until the endpoints show it or the first block is earlier.
func TestAnEarlierFirstBlockEndsAFalseHistory(t *testing.T) {
	s := openReadBeside(t, 1)
	s.chain.pay(price)
	s.chain.finalize()
	s.settle()
	_, err := s.db.Record(t.Context(), &ledger.Cursor{
		Offer: offerID, Account: s.config.USDC.Account(), Position: "400", Anchor: s.chain.unique().Hex(),
	})
	require.NoError(t, err)
	s.requireError("final_history_changed (one.example)", true)
	s.lower(390)
	s.settle()
	require.Len(t, s.rows(), 1)
}

// A cycle that began before the origin was lowered does not put the cursor back.
func TestACycleUnderWayDoesNotUndoALoweredOrigin(t *testing.T) {
	s := openReadBeside(t, 1)
	s.chain.mineFinal(5)
	s.round()
	s.chain.pay(price)
	s.chain.mineFinal(20)
	s.nodes[0].on("eth_getLogs", func(_ call, pass func() any) any {
		_, err := s.db.Ledger.LowerOrigin(t.Context(), offerID, s.config.USDC.Account(), "7")
		require.NoError(t, err)
		return pass()
	})
	s.round()
	require.Zero(t, s.cursor())
	s.settle()
	require.NotZero(t, s.cursor())
}

// next is the number after one.
func next(number string) string {
	n, err := observe.Position(number)
	if err != nil {
		panic(err)
	}
	return strconv.FormatInt(n+1, 10)
}
