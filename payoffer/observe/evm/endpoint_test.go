package evm

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
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

func TestSplitRangeLogsMustAddUp(t *testing.T) {
	whole := true
	e := serve(t, func(method string, params []json.RawMessage) string {
		if whole {
			whole = false
			return logsOf(10_000)(method, params)
		}
		return `{"jsonrpc":"2.0","id":1,"result":[]}`
	})
	_, err := e.logsInRange(context.Background(), nil, token, 1, 500)
	require.EqualError(t, err, "bad_answer (127.0.0.1)")
}

func TestLogsOutsideRangeAreBadAnswer(t *testing.T) {
	e := serve(t, func(method string, params []json.RawMessage) string {
		return logsOf(1)(method, []json.RawMessage{json.RawMessage(`{"fromBlock":"0x1","toBlock":"0x1"}`)})
	})
	_, err := e.logsInRange(context.Background(), nil, token, 2, 3)
	require.EqualError(t, err, "bad_answer (127.0.0.1)")
}

func TestForeignReceiptIsBadAnswer(t *testing.T) {
	e := serve(t, func(string, []json.RawMessage) string {
		return fmt.Sprintf(`{"result":{"transactionHash":"%[1]s","blockHash":"%[1]s","blockNumber":"0x1","status":"0x1","logs":[]}}`,
			common.HexToHash("0x01"))
	})
	_, err := e.receipt(context.Background(), common.HexToHash("0x01"))
	require.NoError(t, err)
	_, err = e.receipt(context.Background(), common.HexToHash("0x03"))
	require.EqualError(t, err, "bad_answer (127.0.0.1)")
}

func TestNonJSONRPCResponseIsBadAnswer(t *testing.T) {
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
			_, err := e.block(context.Background(), "latest")
			require.EqualError(t, err, "bad_answer (127.0.0.1)")
		})
	}
}

func TestFailingEndpointBackoff(t *testing.T) {
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
		now = now.Add(rest*time.Second - patience - 1)
		require.Error(t, e.ready(context.Background(), 1, common.Address{}))
		require.Equal(t, before, calls, "too early")
		now = now.Add(patience + 1)
		require.Error(t, e.ready(context.Background(), 1, common.Address{}))
		require.Equal(t, before+1, calls)
	}
}

// A host is no witness of itself, however it is written.
func TestEndpointHostIgnoresCase(t *testing.T) {
	e, err := newEndpoint("https://RPC.Example:443/v2/key", nil, time.Now)
	require.NoError(t, err)
	require.Equal(t, "rpc.example", e.host)
}

// Calls that were refused together are one refusal. Refusals in a row are longer and longer pauses.
func TestRefusedEndpointIsPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := newEndpoint("https://rpc.example", nil, time.Now)
		require.NoError(t, err)
		limited := &observe.Error{Code: observe.ErrLimited, Host: "rpc.example"}
		for range 100 {
			require.True(t, e.count(limited))
		}
		begin := time.Now()
		require.NoError(t, e.await(t.Context()))
		require.Equal(t, pauseFirst, time.Since(begin))
		for _, pause := range []time.Duration{2, 4, 8, 16, 32, 64, 64} {
			require.True(t, e.count(limited))
			require.Equal(t, pause*time.Second, time.Until(e.pausedUntil))
			if pause*time.Second > patience {
				require.Equal(t, error(limited), e.await(t.Context()))
			}
			time.Sleep(time.Until(e.pausedUntil))
		}
		require.False(t, e.count(nil))
		require.True(t, e.count(&observe.Error{Code: observe.ErrLimited, Wait: time.Hour}))
		require.Equal(t, time.Hour, time.Until(e.pausedUntil), "the endpoint asks for it")
		time.Sleep(time.Hour)
		require.False(t, e.count(nil))
		require.True(t, e.count(limited))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, e.await(ctx))
	})
}

func TestRPCErrorLimits(t *testing.T) {
	for message, limited := range map[string]bool{
		"query returned more than 10000 results":                      false,
		"eth_getLogs is limited to a 10,000 range":                    false,
		"block range is too wide":                                     false,
		"ranges over 10000 blocks are not supported on freetier":      false,
		"Log response size exceeded.":                                 false,
		"execution reverted: over rate limit":                         false,
		"over rate limit":                                             true,
		"15/second request limit reached":                             true,
		"Too many request, try again later":                           true,
		"Your app has exceeded its compute units per second capacity": true,
		"project ID request rate exceeded on eth_getLogs, slow down":  true,
	} {
		require.Equal(t, limited, newRPCError(methodLogs, codeLimited, message).limited, message)
	}
	require.False(t, newRPCError(methodLogs, codeLimited, "limit exceeded").limited, "of the range")
	require.True(t, newRPCError("eth_call", codeLimited, "limit exceeded").limited, "of the calls")
	require.False(t, newRPCError("eth_call", -32000, "header not found").limited)
	require.True(t, newRPCError("eth_call", http.StatusTooManyRequests, "exceeded").limited)
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
	s.now.Add(int64(time.Duration(len(s.chain.blocks)) * blockTime * time.Second))
	s.chain.mine(len(s.chain.blocks)) // up to now
	s.chain.finalize()
	s.round()
	s.requireObserved()
	require.Empty(t, s.rows())
	return s, earlier
}

// lower restarts the rail with an earlier first block.
func (ti *till) lower(block uint64) {
	ti.Helper()
	ti.config.FromBlock = block
	ti.restart()
}

// causes are those of the first transitions, by transaction.
func (ti *till) causes() map[string]string {
	ti.Helper()
	list, err := ti.db.Transitions(ti.Context(), offerID, 0, 10_000)
	require.NoError(ti, err)
	causes := make(map[string]string)
	for _, t := range list {
		if t.Version == 1 {
			causes[strings.Split(t.ExternalID, ":")[2]] = t.Cause
		}
	}
	return causes
}

// requireLines requires so many lines of the log, the last of which holds a text.
func (ti *till) requireLines(lines int, text string) {
	ti.Helper()
	require.Equal(ti, lines, strings.Count(ti.log.String(), "\n"), ti.log.String())
	require.Contains(ti, ti.log.String(), text)
}

func TestLowerOriginRereadsOnce(t *testing.T) {
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
func TestLowerOriginClearsFalseHistory(t *testing.T) {
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
func TestLowerOriginDuringCycle(t *testing.T) {
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
