package evm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

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
