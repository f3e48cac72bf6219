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
