package evm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

const (
	// maxAnswer bounds a response, in bytes: 10,000 logs, the most that endpoints send, are half of it.
	maxAnswer = 16 << 20
	// codeLimited is the JSON-RPC error of an exceeded limit (EIP-1474), of calls or of a range.
	codeLimited = -32005
	// codeRequest and codeParams are invalid calls (JSON-RPC 2.0).
	codeRequest = -32600
	codeParams  = -32602
	// codeReverted means that the contract reverted; some nodes only say it in words.
	codeReverted = 3
)

// rpcError is a JSON-RPC error without the endpoint's text, which can contain the URL.
type rpcError struct {
	code int
	asks demand
}

func (e rpcError) Error() string { return fmt.Sprintf("JSON-RPC error %d", e.code) }

// demand is what an error asks for.
type demand int

const (
	nothing demand = iota
	fewerCalls
	smallerRange
	fewerOrSmaller // one of the two
	reverted       // nothing: the contract failed
)

// Endpoints differ in their codes, so these words tell what they ask for.
var (
	wordsRange  = regexp.MustCompile(`(?i)range|results|response size|\bblocks?\b|\blogs\b`)
	wordsRevert = regexp.MustCompile(`(?i)\brevert`)
	wordsCalls  = regexp.MustCompile(`(?i)\brate\b|second|too many request|request limit|capacity|throughput|throttl|quota|credits`)
)

func demandOf(code int, message string) demand {
	switch {
	case code == codeReverted, wordsRevert.MatchString(message):
		return reverted
	case wordsRange.MatchString(message):
		return smallerRange
	case code == http.StatusTooManyRequests, wordsCalls.MatchString(message):
		return fewerCalls
	case code == codeLimited:
		return fewerOrSmaller
	case code == codeParams, code == codeRequest:
		return smallerRange // the calls are otherwise valid
	default:
		return nothing
	}
}

func demanded(err error) demand {
	var failed *observe.Error
	var answer rpcError
	switch {
	case errors.As(err, &answer):
		return answer.asks
	case errors.As(err, &failed) && failed.Code == observe.ErrLimited:
		return fewerCalls
	default:
		return nothing
	}
}

var errMalformed = errors.New("malformed answer")

// member is one call of a batch.
type member struct {
	method string
	params []any
	// result is where the response goes.
	result any
}

func (m member) request(id int) any {
	return map[string]any{"jsonrpc": "2.0", "id": id, "method": m.method, "params": m.params}
}

// call calls a method when its turn has come, and again after a rate limit. A null result leaves result unchanged.
// The error is an *observe.Error; its cause is the endpoint's answer, if any.
func (e *endpoint) call(ctx context.Context, result any, method string, params ...any) error {
	for err := error(nil); ; {
		refusals, ok := e.pace.await(ctx)
		switch {
		case ok:
		case ctx.Err() != nil:
			return &observe.Error{Code: observe.ErrUnreachable, Host: e.host}
		case err != nil:
			return err
		default:
			return &observe.Error{Code: observe.ErrLimited, Host: e.host}
		}
		err = e.post(ctx, member{method: method, params: params}.request(1), func(text []byte) error { return decode(text, result) })
		var failed *observe.Error
		_ = errors.As(err, &failed)
		switch asked := demanded(err); {
		case ctx.Err() != nil:
			return err
		case asked == fewerCalls, asked == fewerOrSmaller && method != methodLogs:
			e.pace.refuse(refusals, failed.Wait)
		case err == nil:
			e.pace.answered()
			fallthrough
		default:
			e.count(failed)
			return err
		}
	}
}

// batch makes several calls in one request, fails with any of them, and does not count failures.
func (e *endpoint) batch(ctx context.Context, members ...member) error {
	requests := make([]any, len(members))
	for id, m := range members {
		requests[id] = m.request(id)
	}
	return e.post(ctx, requests, func(text []byte) error { return decodeBatch(text, members) })
}

func (e *endpoint) post(ctx context.Context, request any, read func(text []byte) error) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	_, err = e.client.Stream(ctx, source.Request{URL: e.url, Body: body, Limit: maxAnswer}, func(answer io.Reader) error {
		text, err := io.ReadAll(answer)
		if err != nil {
			return err
		}
		return read(text)
	})
	if ctx.Err() != nil {
		return &observe.Error{Code: observe.ErrUnreachable, Host: e.host}
	}
	var failed *observe.Error
	if asked := demanded(err); errors.As(err, &failed) && (asked == fewerCalls || asked == fewerOrSmaller) {
		failed.Code = observe.ErrLimited
	}
	return err
}

type answer struct {
	ID    json.RawMessage `json:"id"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Result json.RawMessage `json:"result"`
}

func decode(text []byte, result any) error {
	var a answer
	if json.Unmarshal(text, &a) != nil {
		return errMalformed
	}
	return a.into(result)
}

// decodeBatch decodes the answers to a batch, in any order.
func decodeBatch(text []byte, members []member) error {
	var answers []answer
	if json.Unmarshal(text, &answers) != nil {
		return errMalformed
	}
	byID := make(map[string]answer)
	for _, a := range answers {
		byID[string(a.ID)] = a
	}
	for id, m := range members {
		if err := byID[strconv.Itoa(id)].into(m.result); err != nil {
			return err
		}
	}
	return nil
}

func (a answer) into(result any) error {
	if a.Error != nil {
		return rpcError{a.Error.Code, demandOf(a.Error.Code, a.Error.Message)}
	}
	if a.Result == nil || json.Unmarshal(a.Result, result) != nil {
		return errMalformed
	}
	return nil
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
