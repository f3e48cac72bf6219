package evm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

const (
	// maxAnswer bounds a response, in bytes: 10,000 logs, the most that endpoints send, are half of it.
	maxAnswer = 16 << 20
	// codeLimited is the JSON-RPC error of an exceeded limit (EIP-1474): of calls, or of the range of a query of logs.
	codeLimited = -32005
	// codeReverted means that the contract reverted; some nodes only say it in words.
	codeReverted = 3
)

// rpcError is a JSON-RPC error without the endpoint's text, which can contain the URL.
type rpcError struct {
	code              int
	limited, reverted bool // by the number of calls; by the contract
}

func (r rpcError) Error() string { return fmt.Sprintf("JSON-RPC error %d", r.code) }

// Endpoints differ in their codes, so these words tell what they mean.
var (
	wordsRange  = regexp.MustCompile(`(?i)range|results|response size|\bblocks?\b|\blogs\b`)
	wordsRevert = regexp.MustCompile(`(?i)\brevert`)
	wordsCalls  = regexp.MustCompile(`(?i)\brate\b|second|too many request|request limit|capacity|throughput|throttl|quota|credits`)
)

func newRPCError(method string, code int, message string) rpcError {
	e := rpcError{code: code, reverted: code == codeReverted || wordsRevert.MatchString(message)}
	e.limited = !e.reverted && !wordsRange.MatchString(message) &&
		(code == http.StatusTooManyRequests || wordsCalls.MatchString(message) || code == codeLimited && method != methodLogs)
	return e
}

var errMalformed = errors.New("malformed answer")

// call calls a method when no pause is due, and again after a rate limit. A null result leaves result unchanged. The
// error is an *observe.Error; its cause is the endpoint's answer, if any.
func (e *endpoint) call(ctx context.Context, result any, method string, params ...any) error {
	for try := 1; ; try++ {
		if err := e.await(ctx); err != nil {
			return err
		}
		if err := e.callOnce(ctx, result, method, params...); ctx.Err() != nil || !e.count(err) || try == triesMost {
			return err
		}
	}
}

// callOnce calls a method at once, and does not count failures.
func (e *endpoint) callOnce(ctx context.Context, result any, method string, params ...any) error {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	_, err = e.client.Stream(ctx, source.Request{URL: e.url, Body: body, Limit: maxAnswer}, func(response io.Reader) error {
		var a struct {
			Error *struct {
				Code    int    `json:"code"`
				Message string `json:"message"`
			} `json:"error"`
			Result json.RawMessage `json:"result"`
		}
		text, err := io.ReadAll(response)
		switch {
		case err != nil:
			return err
		case json.Unmarshal(text, &a) != nil:
			return errMalformed
		case a.Error != nil:
			return newRPCError(method, a.Error.Code, a.Error.Message)
		case a.Result == nil || json.Unmarshal(a.Result, result) != nil:
			return errMalformed
		}
		return nil
	})
	var failed *observe.Error
	var refused rpcError
	if ctx.Err() != nil {
		return &observe.Error{Code: observe.ErrUnreachable, Host: e.host}
	} else if errors.As(err, &failed) && errors.As(err, &refused) && refused.limited {
		failed.Code = observe.ErrLimited
	}
	return err
}

// block is a block's header. The hash is not verified, because some chains compute it from more than Ethereum's
// headers have.
type block struct {
	Number hexutil.Uint64 `json:"number"`
	Hash   common.Hash    `json:"hash"`
	Time   hexutil.Uint64 `json:"timestamp"`
}

type receipt struct {
	Transaction common.Hash    `json:"transactionHash"`
	BlockHash   common.Hash    `json:"blockHash"`
	BlockNumber hexutil.Uint64 `json:"blockNumber"`
	Status      hexutil.Uint64 `json:"status"`
	Logs        []log          `json:"logs"`
}

// log is a log of eth_getLogs and of receipts.
type log struct {
	Address     *common.Address `json:"address"`
	Topics      []common.Hash   `json:"topics"`
	Data        hexutil.Bytes   `json:"data"`
	BlockNumber hexutil.Uint64  `json:"blockNumber"`
	BlockHash   common.Hash     `json:"blockHash"`
	Transaction common.Hash     `json:"transactionHash"`
	Index       hexutil.Uint64  `json:"logIndex"`
	Removed     bool            `json:"removed"`
}

// UnmarshalJSON requires the members that every log has.
func (l *log) UnmarshalJSON(text []byte) error {
	type plain log
	if err := json.Unmarshal(text, (*plain)(l)); err != nil {
		return err
	}
	if l.Address == nil || l.Topics == nil || l.Data == nil || l.Transaction == (common.Hash{}) {
		return errMalformed
	}
	return nil
}

const (
	// methodLogs is the only method whose size limits depend on the range.
	methodLogs = "eth_getLogs"
	// suspicious is the number of logs at which a response may have been cut off silently.
	suspicious = 100
	// spanFirst is the first range in blocks, and spanMost the largest. Endpoints limit the blocks, the logs or the
	// time of a query.
	spanFirst = 1000
	spanMost  = 5000
)

// logs reads the logs of a contract in a range of blocks, in as many queries as the endpoint needs. Their range halves
// after a failure, and grows by an eighth after each response. A topic is a hash, several alternatives, or nil for any.
func (e *endpoint) logs(ctx context.Context, topics []any, of common.Address, low, high uint64) (all []log, err error) {
	for low <= high {
		size := cmp.Or(e.span.Load(), spanFirst)
		asked := min(high-low+1, size)
		part, err := e.logsInRange(ctx, topics, of, low, low+asked-1)
		next := min(size+max(size/8, 1), spanMost)
		switch {
		case err == nil:
			if all, low = append(all, part...), low+asked; asked < size {
				continue // a smaller range says nothing
			}
		case asked == 1 || !mayBeTooLarge(err):
			return nil, err
		default:
			next = asked / 2
		}
		e.span.Store(next)
	}
	return all, nil
}

// mayBeTooLarge reports whether a query can have failed because of its size: the endpoint answered.
func mayBeTooLarge(err error) bool {
	var failed *observe.Error
	return errors.As(err, &failed) && failed.Code != observe.ErrLimited &&
		(failed.Status != 0 || failed.Code != observe.ErrUnreachable && failed.Unwrap() != nil)
}

// logsInRange reads a range. If a response is suspicious, it reads the halves, which must have no fewer logs.
func (e *endpoint) logsInRange(ctx context.Context, topics []any, of common.Address, low, high uint64) (logs []log, err error) {
	err = e.call(ctx, &logs, methodLogs, map[string]any{
		"fromBlock": hexutil.EncodeUint64(low), "toBlock": hexutil.EncodeUint64(high), "address": of, "topics": topics,
	})
	outside := func(l log) bool { return uint64(l.BlockNumber) < low || uint64(l.BlockNumber) > high }
	if err == nil && slices.ContainsFunc(logs, outside) {
		return nil, e.bad()
	}
	if err != nil || len(logs) < suspicious || low == high {
		return logs, err
	}
	var all []log
	middle := low + (high-low)/2
	for _, half := range [][2]uint64{{low, middle}, {middle + 1, high}} {
		part, err := e.logsInRange(ctx, topics, of, half[0], half[1])
		if err != nil {
			return nil, err
		}
		all = append(all, part...)
	}
	if len(all) < len(logs) {
		return nil, e.bad()
	}
	return all, nil
}
