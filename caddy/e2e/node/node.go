// Package node runs the official x402 facilitator and clients, which are Node.js programs. Each process lives no longer
// than the test that started it.
package node

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"
)

// patience is how long a payment may take: far more than it does on a busy machine.
const patience = 2 * time.Minute

// Buyer is the script of one official client.
type Buyer string

// The official clients.
const (
	BuyerV1 Buyer = "pay-v1.mjs" // x402-fetch
	BuyerV2 Buyer = "pay-v2.mjs" // @x402/fetch
)

// Answer is what a Buyer got for its request.
type Answer struct {
	// Status is the HTTP status of the last answer.
	Status int
	// Body is the last answer's body.
	Body string
	// Payment is the settlement that the answer's header names, nil without one.
	Payment *Settlement
}

// Settlement is a decoded PAYMENT-RESPONSE or X-PAYMENT-RESPONSE header.
type Settlement struct {
	Success     bool
	Transaction common.Hash
	Network     string
	Payer       common.Address
}

// StartFacilitator runs the official facilitator until the test ends and returns its address. The key's account pays
// for the transactions.
func StartFacilitator(t testing.TB, rpcURL string, key *ecdsa.PrivateKey) string {
	t.Helper()
	out := start(t.Context(), t, "facilitator.mjs", "RPC_URL="+rpcURL, "PRIVATE_KEY="+privateKey(key))
	var ready struct{ URL string }
	readLine(t, out, &ready)
	return ready.URL
}

// Seller is a running reference seller: its address and its process's id.
type Seller struct {
	URL string
	Pid int
}

// StartSeller runs the reference seller until the test ends.
func StartSeller(t testing.TB, facilitator string, payee common.Address) (s Seller) {
	t.Helper()
	readLine(t, start(t.Context(), t, "seller-express.mjs", "FACILITATOR="+facilitator, "PAYEE="+payee.Hex()), &s)
	return s
}

// Pay lets a Buyer send a POST to an address and pay when asked to.
func Pay(t testing.TB, buyer Buyer, url string, key *ecdsa.PrivateKey) Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out := start(ctx, t, string(buyer), "URL="+url, "PRIVATE_KEY="+privateKey(key))
	var answer Answer
	readLine(t, out, &answer)
	return answer
}

// start runs a script with the given environment and returns its standard output. The script is killed when ctx is done;
// should this process die before, the script's standard input closes, on which it leaves. What it wrote to standard error
// is logged if the test failed.
func start(ctx context.Context, t testing.TB, script string, env ...string) io.Reader {
	t.Helper()
	command := exec.CommandContext(ctx, "node", Bundle(t, script))
	command.Env = append(env, "PATH="+os.Getenv("PATH"))
	var stderr bytes.Buffer
	command.Stderr = &stderr
	_, err := command.StdinPipe()
	require.NoError(t, err)
	stdout, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Wait()
		if t.Failed() {
			t.Logf("%s wrote:\n%s", script, &stderr)
		}
	})
	return stdout
}

// DecodedInvoice is what a wallet's library makes of a payment request.
type DecodedInvoice struct {
	Satoshis json.Number
	Hash     string
	End      int64 // Unix seconds
}

// DecodeInvoice returns what two libraries make of a payment request (BOLT 11).
func DecodeInvoice(t testing.TB, request string) (all []DecodedInvoice) {
	t.Helper()
	readLine(t, start(t.Context(), t, "validate-invoice.mjs", "REQUEST="+request), &all)
	return all
}

func readLine(t testing.TB, out io.Reader, into any) {
	t.Helper()
	line, err := bufio.NewReader(out).ReadBytes('\n')
	require.NoError(t, err, "the program ended without an answer")
	require.NoError(t, json.Unmarshal(line, into), "%s", line)
}

func privateKey(key *ecdsa.PrivateKey) string { return hexutil.Encode(crypto.FromECDSA(key)) }
