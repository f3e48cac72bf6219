// Package bitcoin runs btcd, a Bitcoin full node, on a regression-test network of its own: a real chain, mempool and
// replacement of transactions, on loopback, with no peers.
package bitcoin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/bitcoin/esplora"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/skip"
)

// startDeadline is far more than a start takes on a busy machine.
const startDeadline = 30 * time.Second

// The node's own user of its JSON-RPC, on loopback.
const user, password = "tests", "tests"

// btcd is the node, of the version that go.mod pins.
var btcd = lab.Program{Name: "btcd", Folder: "caddy/e2e", Package: "github.com/btcsuite/btcd"}

// binary builds the node, and skips the test where that is not possible.
func binary(t testing.TB) string {
	t.Helper()
	path, output, err := btcd.Path(t)
	if err != nil {
		skip.Test(t, fmt.Sprintf("btcd cannot be built: %v\n%s", err, output))
	}
	return path
}

// start runs the program until the test ends.
func (n *Node) start(t testing.TB) {
	t.Helper()
	folder, port := t.TempDir(), payoffertest.FreePort(t)
	var log bytes.Buffer
	command := exec.Command(binary(t), "--regtest", "--datadir="+folder, "--logdir="+folder, "--configfile="+os.DevNull,
		"--rpcuser="+user, "--rpcpass="+password, "--rpclisten=127.0.0.1:"+port, "--notls", "--nodnsseed", "--nolisten",
		"--txindex", "--addrindex", "--debuglevel=warn")
	command.Env = []string{"HOME=" + folder}
	command.Stdout, command.Stderr = &log, &log
	require.NoError(t, command.Start())
	ended := make(chan struct{})
	go func() {
		_ = command.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill() // its folder goes with the test
		<-ended
		if t.Failed() {
			t.Logf("btcd's log:\n%s", &log)
		}
	})

	n.url = "http://127.0.0.1:" + port
	deadline := time.After(startDeadline)
	for {
		var height int64
		err := n.Call(t.Context(), &height, "getblockcount")
		if err == nil {
			return
		}
		select {
		case <-ended:
			t.Fatalf("btcd ended before it answered:\n%s", &log)
		case <-deadline:
			t.Fatalf("btcd did not answer within %v: %v", startDeadline, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// writes are the methods that change the node. Nothing else does: it has no peers.
var writes = map[string]bool{"submitblock": true, "invalidateblock": true, "sendrawtransaction": true}

// reply is what the node answers to a request.
type reply struct {
	Result json.RawMessage   `json:"result"`
	Error  *esplora.RPCError `json:"error"`
}

// Call calls a method of the node's JSON-RPC. An error that the node answers with is an *esplora.RPCError. The node closes
// the connection after each request, so it is asked the same question once, until it is changed.
func (n *Node) Call(ctx context.Context, result any, method string, params ...any) error {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "1.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	if writes[method] {
		defer n.forget()
	}
	n.mu.Lock()
	replies := n.replies
	answer, known := replies[string(body)]
	n.mu.Unlock()
	if !known {
		if answer, err = n.ask(ctx, body); err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		n.mu.Lock()
		replies[string(body)] = answer // of the state before a change that came between
		n.mu.Unlock()
	}
	if answer.Error != nil {
		return answer.Error
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(answer.Result, result)
}

// forget is called when the node has changed.
func (n *Node) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.replies = map[string]reply{}
}

// ask sends a request to the node.
func (n *Node) ask(ctx context.Context, body []byte) (answer reply, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url, bytes.NewReader(body))
	if err != nil {
		return answer, err
	}
	req.SetBasicAuth(user, password)
	resp, err := n.client.Do(req)
	if err != nil {
		return answer, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return answer, fmt.Errorf("status %d: %w", resp.StatusCode, err)
	}
	return answer, nil
}

var _ esplora.Caller = (*Node)(nil)
