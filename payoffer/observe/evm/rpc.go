package evm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// maxAnswer bounds an endpoint's answer, in bytes: 10,000 logs, the most that
// endpoints send, are half of it.
const maxAnswer = 16 << 20

// client calls one JSON-RPC 2.0 endpoint over HTTP.
type client struct {
	url  string
	http *http.Client
}

func newClient(url string, transport http.RoundTripper) *client {
	return &client{url, &http.Client{
		Transport: transport, Timeout: callTimeout,
		// The URL may hold a key: it is sent nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// answerError is an error that the endpoint answered with. Its own words are
// left out: they may repeat the URL.
type answerError struct {
	// status is that of HTTP, code that of JSON-RPC; one of them is 0.
	status, code int
}

func (e *answerError) Error() string {
	if e.status != 0 {
		return fmt.Sprintf("HTTP status %d", e.status)
	}
	return fmt.Sprintf("JSON-RPC error %d", e.code)
}

// errMalformed is an answer that is no JSON-RPC, or too long.
var errMalformed = errors.New("malformed answer")

// call calls a method. A result of null leaves result as it is.
func (c *client) call(ctx context.Context, result any, method string, params ...any) error {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return &answerError{status: response.StatusCode}
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return err
	}
	return decode(text, result)
}

// decode reads the answer to a call.
func decode(text []byte, result any) error {
	var answer struct {
		Error *struct {
			Code int `json:"code"`
		} `json:"error"`
		Result json.RawMessage `json:"result"`
	}
	if len(text) > maxAnswer || json.Unmarshal(text, &answer) != nil {
		return errMalformed
	}
	if answer.Error != nil {
		return &answerError{code: answer.Error.Code}
	}
	if answer.Result == nil || json.Unmarshal(answer.Result, result) != nil {
		return errMalformed
	}
	return nil
}
