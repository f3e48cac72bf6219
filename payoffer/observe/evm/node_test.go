package evm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
)

// call is a JSON-RPC request.
type call struct {
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

// fault is what an endpoint answers instead of a result: an HTTP status, the code of a JSON-RPC error, a text that may
// be anything, or nothing at all when the connection breaks.
type fault struct {
	status, code int
	text         string
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
	if bytes.HasPrefix(asked.Data, selector("decimals()")) {
		return common.BytesToHash([]byte{6}).Hex()
	}
	at := hexutil.MustDecodeUint64(c.text(1))
	return n.state(common.BytesToHash(asked.Data[4:36]), common.BytesToHash(asked.Data[36:]), at).Hex()
}

// serve answers a request as the rules say.
func (n *node) serve(request *http.Request) (*http.Response, error) {
	var c call
	if err := json.NewDecoder(request.Body).Decode(&c); err != nil {
		return nil, err
	}
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
	status, text := http.StatusOK, ""
	switch f, failed := result.(fault); {
	case !failed:
		answer, err := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "result": result})
		if err != nil {
			return nil, err
		}
		text = string(answer)
	case f.status != 0:
		status = f.status
	case f.code != 0:
		text = fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":"scripted at %s"}}`, f.code, n.url())
	case f.text != "":
		text = f.text
	default:
		return nil, errors.New("broken connection to " + n.url())
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(bytes.NewBufferString(text)), Request: request}, nil
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
