package transfers

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
)

// call is a JSON-RPC request.
type call struct {
	Version string            `json:"jsonrpc"`
	ID      json.RawMessage   `json:"id"`
	Method  string            `json:"method"`
	Params  []json.RawMessage `json:"params"`
}

// with returns the call with another first parameter.
func (c call) with(param any) call {
	c.Params = append([]json.RawMessage{encode(param)}, c.Params[1:]...)
	return c
}

// first is the first parameter if that is a string.
func (c call) first() (text string) {
	_ = json.Unmarshal(c.Params[0], &text)
	return text
}

// fault is what an endpoint answers instead of a result: an HTTP status, or the code of a JSON-RPC error.
type fault struct{ status, code int }

func (f fault) Error() string { return "scripted" }

// rule answers a call, which it may pass on to the chain.
type rule func(c call, pass func(call) json.RawMessage) (json.RawMessage, error)

// proxy stands before the chain's RPC endpoint and lies as scripted.
type proxy struct {
	URL    string
	target string

	mu    sync.Mutex
	rules map[string]rule
}

func startProxy(t testing.TB, target string) *proxy {
	t.Helper()
	p := &proxy{target: target, rules: map[string]rule{}}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	p.URL = server.URL
	return p
}

// on has a rule answer a method, or all of them for "*"; nil passes everything on.
func (p *proxy) on(method string, r rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules[method] = r
}

// honest ends all lies.
func (p *proxy) honest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.rules)
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	var batch []call
	single := json.Unmarshal(body, &batch) != nil
	if single {
		batch = make([]call, 1)
		if json.Unmarshal(body, &batch[0]) != nil {
			panic(http.ErrAbortHandler)
		}
	}
	answers := make([]map[string]any, len(batch))
	for i, c := range batch {
		var status int
		if answers[i], status = p.respond(c); status != 0 {
			w.WriteHeader(status)
			return
		}
	}
	if single {
		_ = json.NewEncoder(w).Encode(answers[0])
		return
	}
	_ = json.NewEncoder(w).Encode(answers)
}

// respond answers one call, or the whole request by an HTTP status other than 0.
func (p *proxy) respond(c call) (answer map[string]any, status int) {
	p.mu.Lock()
	rule := p.rules[c.Method]
	if all := p.rules["*"]; all != nil {
		rule = all
	}
	p.mu.Unlock()
	answer = map[string]any{"jsonrpc": "2.0", "id": c.ID}
	result, err := p.answer(rule, c)
	f, _ := err.(fault)
	if err != nil {
		answer["error"] = map[string]any{"code": f.code, "message": "scripted " + p.URL}
	} else {
		answer["result"] = result
	}
	return answer, f.status
}

func (p *proxy) answer(r rule, c call) (json.RawMessage, error) {
	if r == nil {
		return p.pass(c)
	}
	var failed error
	result, err := r(c, func(c call) json.RawMessage {
		result, err := p.pass(c)
		if err != nil {
			failed = err
		}
		return result
	})
	if err == nil {
		err = failed
	}
	return result, err
}

// pass asks the chain.
func (p *proxy) pass(c call) (json.RawMessage, error) {
	response, err := http.Post(p.target, "application/json", bytes.NewReader(encode(c)))
	if err != nil {
		return nil, fault{status: http.StatusBadGateway}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fault{status: http.StatusBadGateway}
	}
	var answer struct {
		Result json.RawMessage
		Error  *struct{ Code int }
	}
	if json.Unmarshal(body, &answer) != nil {
		return nil, fault{status: http.StatusBadGateway}
	}
	if answer.Error != nil {
		return nil, fault{code: answer.Error.Code}
	}
	if answer.Result == nil {
		return null, nil
	}
	return answer.Result, nil
}

var null = json.RawMessage("null")

// fail answers every call with a fault.
func (p *proxy) fail(f fault) {
	p.on("*", func(call, func(call) json.RawMessage) (json.RawMessage, error) { return nil, f })
}

// finalAt says that a block is the newest final one.
func (p *proxy) finalAt(number uint64) {
	p.on("eth_getBlockByNumber", func(c call, pass func(call) json.RawMessage) (json.RawMessage, error) {
		if c.first() == "finalized" {
			c = c.with(hexutil.EncodeUint64(number))
		}
		return pass(c), nil
	})
}

// hide denies a transaction: its receipt and its logs.
func (p *proxy) hide(transaction common.Hash) {
	p.on("eth_getTransactionReceipt", func(c call, pass func(call) json.RawMessage) (json.RawMessage, error) {
		if common.HexToHash(c.first()) == transaction {
			return null, nil
		}
		return pass(c), nil
	})
	p.on("eth_getLogs", func(c call, pass func(call) json.RawMessage) (json.RawMessage, error) {
		var logs []map[string]any
		if err := json.Unmarshal(pass(c), &logs); err != nil {
			return nil, fault{code: -32000}
		}
		return encode(slices.DeleteFunc(logs, func(l map[string]any) bool {
			return common.HexToHash(l["transactionHash"].(string)) == transaction
		})), nil
	})
}

// atMost refuses queries of more blocks.
func (p *proxy) atMost(blocks uint64) {
	p.on("eth_getLogs", func(c call, pass func(call) json.RawMessage) (json.RawMessage, error) {
		var query struct{ FromBlock, ToBlock hexutil.Uint64 }
		if json.Unmarshal(c.Params[0], &query) != nil || uint64(query.ToBlock-query.FromBlock) >= blocks {
			return nil, fault{code: -32602}
		}
		return pass(c), nil
	})
}

func encode(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}
