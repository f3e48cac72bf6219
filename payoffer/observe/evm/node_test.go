package evm

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
)

// call is a JSON-RPC request.
type call struct {
	ID     json.RawMessage
	Method string
	Params []json.RawMessage
}

// text is a parameter that is a string.
func (c call) text(i int) (s string) {
	_ = json.Unmarshal(c.Params[i], &s)
	return s
}

func (c call) query() (q query) {
	if err := json.Unmarshal(c.Params[0], &q); err != nil {
		panic(err)
	}
	return q
}

// fault is what an endpoint answers instead of a result: an HTTP status, maybe with Retry-After, the code of a JSON-RPC
// error, maybe with words, a text that may be anything, nothing until the caller gives up, or nothing at all when the
// connection breaks.
type fault struct {
	status, code      int
	retryAfter, words string
	text              string
	hangs             bool
}

// rule answers a call, which it may pass on; the result is a fault or what JSON shows.
type rule func(c call, pass func() any) any

// node is a JSON-RPC endpoint. It shows a branch, and lies as scripted.
type node struct {
	host string
	*branch

	mu    sync.Mutex
	rules map[string]rule
	calls map[string]int
}

// url holds a key that must appear nowhere.
func (n *node) url() string { return "https://" + n.host + "/v2/secret-key" }

// on has a rule answer a method, or all of them for "*".
func (n *node) on(method string, r rule) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rules[method] = r
}

// answer has a method, or all of them for "*", answered by a value or a fault.
func (n *node) answer(method string, result any) {
	n.on(method, func(call, func() any) any { return result })
}

// honest ends all lies about the branch.
func (n *node) honest() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.rules)
}

// count is how often a method was called.
func (n *node) count(method string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls[method]
}

// hide denies a transaction: its receipt and its logs.
func (n *node) hide(tx *transaction) {
	n.on("eth_getTransactionReceipt", func(c call, pass func() any) any {
		if c.text(0) == tx.hash.Hex() {
			return nil
		}
		return pass()
	})
	n.on("eth_getLogs", func(_ call, pass func() any) any {
		shown := []object{}
		for _, l := range pass().([]object) {
			if l["transactionHash"] != tx.hash.Hex() {
				shown = append(shown, l)
			}
		}
		return shown
	})
}

// withoutTags answers the tags of finality by a value or a fault.
func (n *node) withoutTags(instead any) {
	n.on("eth_getBlockByNumber", func(c call, pass func() any) any {
		if tag := c.text(0); tag == "safe" || tag == "finalized" {
			return instead
		}
		return pass()
	})
}

// atBlock changes what is shown of a block.
func (n *node) atBlock(at string, change func(object)) {
	n.on("eth_getBlockByNumber", func(c call, pass func() any) any {
		block := pass()
		if c.text(0) == at {
			change(block.(object))
		}
		return block
	})
}

// spends answers authorizationState.
func (n *node) spends(result any) {
	n.on("eth_call", func(c call, pass func() any) any {
		if c.text(1) == "latest" {
			return pass()
		}
		return result
	})
}

// pass answers by the branch.
func (n *node) pass(c call) any {
	n.branch.mu.Lock()
	defer n.branch.mu.Unlock()
	switch c.Method {
	case "eth_chainId":
		return "0x14a34"
	case "eth_getCode":
		return "0x6080"
	case "eth_call":
		return n.contract(c)
	case "eth_getBlockByNumber":
		return n.showBlock(c.text(0))
	case "eth_getTransactionReceipt":
		return n.showReceipt(common.HexToHash(c.text(0)))
	case "eth_getLogs":
		return n.find(c.query())
	default:
		return fault{code: -32601}
	}
}

// contract is the token.
func (n *node) contract(c call) any {
	var asked struct{ Data hexutil.Bytes }
	if json.Unmarshal(c.Params[0], &asked) != nil || len(asked.Data) < 4 {
		return fault{code: -32602}
	}
	at, known := n.blockAt(c.Params[1])
	switch {
	case !known:
		return fault{code: -32000}
	case bytes.HasPrefix(asked.Data, selector("decimals()")):
		return common.BytesToHash([]byte{6}).Hex()
	case bytes.HasPrefix(asked.Data, selector("balanceOf(address)")):
		return common.BigToHash(n.funds).Hex()
	default:
		return n.state(common.BytesToHash(asked.Data[4:36]), common.BytesToHash(asked.Data[36:]), at).Hex()
	}
}

// serve answers a request as the rules say.
func (n *node) serve(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	var c call
	if err := json.Unmarshal(body, &c); err != nil {
		return nil, err
	}
	result := n.answered(c)
	if f, failed := result.(fault); failed {
		return f.serve(request, n.url())
	}
	return respond(request, http.StatusOK, result.(json.RawMessage)), nil
}

// answered is the answer to a call, or a fault of the whole request.
func (n *node) answered(c call) any {
	n.mu.Lock()
	n.calls[c.Method]++
	r := n.rules[c.Method]
	if all := n.rules["*"]; all != nil {
		r = all
	}
	n.mu.Unlock()
	var result any
	if r == nil {
		result = n.pass(c)
	} else {
		result = r(c, func() any { return n.pass(c) })
	}
	f, failed := result.(fault)
	if failed && f.code == 0 {
		return f
	}
	answer := object{"jsonrpc": "2.0", "id": c.ID, "result": result}
	if failed {
		answer = object{"jsonrpc": "2.0", "id": c.ID, "error": object{"code": f.code, "message": f.words + " scripted at " + n.url()}}
	}
	return encode(answer)
}

// serve answers a request by the fault.
func (f fault) serve(request *http.Request, url string) (*http.Response, error) {
	switch {
	case f.status != 0:
		response := respond(request, f.status, nil)
		response.Header.Set("Retry-After", f.retryAfter)
		return response, nil
	case f.text != "":
		return respond(request, http.StatusOK, []byte(f.text)), nil
	case f.hangs:
		<-request.Context().Done()
		return nil, request.Context().Err()
	default:
		return nil, errors.New("broken connection to " + url)
	}
}

func respond(request *http.Request, status int, text []byte) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(text)), Request: request}
}

func encode(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// nodes carry calls to one of them.
type nodes []*node

func (all nodes) RoundTrip(request *http.Request) (*http.Response, error) {
	for _, n := range all {
		if n.host == request.URL.Hostname() {
			return n.serve(request)
		}
	}
	return nil, errors.New("no such host")
}
