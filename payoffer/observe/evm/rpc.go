package evm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

const (
	// maxAnswer bounds an endpoint's answer, in bytes: 10,000 logs, the most
	// that endpoints send, are half of it.
	maxAnswer = 16 << 20
	// codeLimited is the JSON-RPC error of too many calls (EIP-1474).
	codeLimited rpcError = -32005
)

// rpcError is the code of an error of JSON-RPC. The endpoint's own words are
// left out: they may repeat the URL.
type rpcError int

func (e rpcError) Error() string { return fmt.Sprintf("JSON-RPC error %d", int(e)) }

// errMalformed is an answer that is no JSON-RPC.
var errMalformed = errors.New("malformed answer")

// call calls a method and keeps count of failures. A result of null leaves
// result as it is. The error is an *observe.Error; its cause, if there is one,
// is what the endpoint answered.
func (e *endpoint) call(ctx context.Context, result any, method string, params ...any) error {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	_, err = e.client.Stream(ctx, source.Request{URL: e.url, Body: body, Limit: maxAnswer}, func(answer io.Reader) error {
		text, err := io.ReadAll(answer)
		if err != nil {
			return err
		}
		return decode(text, result)
	})
	if ctx.Err() != nil {
		return &observe.Error{Code: observe.ErrUnreachable, Host: e.host}
	}
	var failed *observe.Error
	if errors.As(err, &failed) && errors.Is(err, codeLimited) {
		failed.Code = observe.ErrLimited
	}
	e.count(failed)
	return err
}

// decode reads the answer to a call.
func decode(text []byte, result any) error {
	var answer struct {
		Error *struct {
			Code rpcError `json:"code"`
		} `json:"error"`
		Result json.RawMessage `json:"result"`
	}
	if json.Unmarshal(text, &answer) != nil {
		return errMalformed
	}
	if answer.Error != nil {
		return answer.Error.Code
	}
	if answer.Result == nil || json.Unmarshal(answer.Result, result) != nil {
		return errMalformed
	}
	return nil
}

// block is what is read of a block. Its hash is the endpoint's word: some
// chains compute it from more than Ethereum's headers hold.
type block struct {
	Number hexutil.Uint64 `json:"number"`
	Hash   common.Hash    `json:"hash"`
	Time   hexutil.Uint64 `json:"timestamp"`
}

// receipt is what is read of a transaction's receipt.
type receipt struct {
	Transaction common.Hash    `json:"transactionHash"`
	BlockHash   common.Hash    `json:"blockHash"`
	BlockNumber hexutil.Uint64 `json:"blockNumber"`
	Status      hexutil.Uint64 `json:"status"`
	Logs        []log          `json:"logs"`
}

// log is what is read of a log, in eth_getLogs and in receipts.
type log struct {
	// Address is that of the contract; never nil.
	Address     *common.Address `json:"address"`
	Topics      []common.Hash   `json:"topics"`
	Data        hexutil.Bytes   `json:"data"`
	BlockNumber hexutil.Uint64  `json:"blockNumber"`
	Transaction common.Hash     `json:"transactionHash"`
	Index       hexutil.Uint64  `json:"logIndex"`
	Removed     bool            `json:"removed"`
}

// UnmarshalJSON requires what every log has: a member that is missing is no
// empty one.
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
