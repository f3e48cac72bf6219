package bitcoin

import (
	"bytes"
	"encoding/hex"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/btcutil/v2"
	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/integration/rpctest"
	"github.com/btcsuite/btcd/txscript/v2"
	"github.com/btcsuite/btcd/wire/v2"
	"github.com/stretchr/testify/require"
)

const (
	// coins is how many coins a new node's miner has, of coinValue satoshis each.
	coins, coinValue = 250, 10_000_000
	// replaceable signals that a transaction may be replaced (BIP-125).
	replaceable = wire.MaxTxInSequenceNum - 2
	// fee of a transaction, in satoshis, before a replacement adds to it.
	fee = 2_000
)

// Params is the network of the node.
var Params = &chaincfg.RegressionNetParams

// anyone is a script that anyone can spend from, hidden in a pay-to-script-hash address: the miner needs no key.
var anyone = []byte{txscript.OP_TRUE}

// Node is a running node and its only miner. A test makes each block, with the transactions that it names and no
// others, one second after the last.
type Node struct {
	url    string
	client http.Client
	miner  address.Address
	blocks []*btcutil.Block // by height, from 1
	clock  time.Time        // the time of the newest block ever
	coins  []wire.OutPoint

	mu sync.Mutex
	// replies are the node's, by request, since it changed last.
	replies map[string]reply
}

// Start runs a new node until the test ends, with a miner that has money. The last block is less than an hour old.
func Start(t testing.TB) *Node {
	t.Helper()
	miner, err := address.NewAddressScriptHash(anyone, Params)
	require.NoError(t, err)
	n := &Node{miner: miner, clock: time.Now().Add(-time.Hour).Truncate(time.Second), replies: map[string]reply{}}
	n.start(t)
	t.Cleanup(n.client.CloseIdleConnections)

	n.MineEmpty(t, int(Params.CoinbaseMaturity)+1)
	split := n.spend(wire.OutPoint{Hash: *n.blocks[0].Transactions()[0].Hash()})
	for range coins {
		split.AddTxOut(n.output(t, miner.EncodeAddress(), coinValue))
	}
	n.Mine(t, split)
	for i := range coins {
		n.coins = append(n.coins, wire.OutPoint{Hash: split.TxHash(), Index: uint32(i)})
	}
	return n
}

// Mine adds a block with transactions to the chain.
func (n *Node) Mine(t testing.TB, txs ...*wire.MsgTx) {
	t.Helper()
	var last *btcutil.Block
	if len(n.blocks) > 0 {
		last = n.blocks[len(n.blocks)-1]
	}
	var included []*btcutil.Tx
	for _, tx := range txs {
		included = append(included, btcutil.NewTx(tx))
	}
	// The time tells a block from the one that it takes the place of.
	n.clock = n.clock.Add(time.Second)
	block, err := rpctest.CreateBlock(last, included, rpctest.BlockVersion, n.clock, n.miner, nil, Params)
	require.NoError(t, err)
	raw, err := block.Bytes()
	require.NoError(t, err)
	var refused string // null where it is not
	require.NoError(t, n.Call(t.Context(), &refused, "submitblock", hex.EncodeToString(raw)))
	require.Empty(t, refused)
	block.SetHeight(int32(len(n.blocks) + 1))
	n.blocks = append(n.blocks, block)

	var height int
	require.NoError(t, n.Call(t.Context(), &height, "getblockcount"))
	require.Equal(t, len(n.blocks), height, "the block is on the best chain")
}

// MineEmpty adds blocks without transactions.
func (n *Node) MineEmpty(t testing.TB, count int) {
	t.Helper()
	for range count {
		n.Mine(t)
	}
}

// Payment makes a transaction that pays an address from a new coin of the miner, and may be replaced. It is not sent.
func (n *Node) Payment(t testing.TB, to string, satoshis int64) *wire.MsgTx {
	t.Helper()
	require.NotEmpty(t, n.coins, "the miner has no coins left")
	tx := n.spend(n.coins[0])
	n.coins = n.coins[1:]
	n.fill(t, tx, to, satoshis, fee)
	return tx
}

// Send puts a transaction into the mempool.
func (n *Node) Send(t testing.TB, txs ...*wire.MsgTx) {
	t.Helper()
	for _, tx := range txs {
		var raw bytes.Buffer
		require.NoError(t, tx.Serialize(&raw))
		require.NoError(t, n.Call(t.Context(), nil, "sendrawtransaction", hex.EncodeToString(raw.Bytes())))
	}
}

// Miner is an address of the miner.
func (n *Node) Miner() string { return n.miner.EncodeAddress() }

func (n *Node) spend(coin wire.OutPoint) *wire.MsgTx {
	tx := wire.NewMsgTx(2)
	in := wire.NewTxIn(&coin, append([]byte{byte(len(anyone))}, anyone...), nil)
	in.Sequence = replaceable
	tx.AddTxIn(in)
	return tx
}

// fill adds the payment, and the change but for the fee.
func (n *Node) fill(t testing.TB, tx *wire.MsgTx, to string, satoshis, fee int64) {
	t.Helper()
	tx.AddTxOut(n.output(t, to, satoshis))
	tx.AddTxOut(n.output(t, n.Miner(), coinValue-satoshis-fee))
}

// output pays an address of any network: the script is the same.
func (n *Node) output(t testing.TB, to string, satoshis int64) *wire.TxOut {
	t.Helper()
	for _, params := range []*chaincfg.Params{Params, &chaincfg.TestNet3Params} {
		a, err := address.DecodeAddress(to, params)
		if err != nil || !a.IsForNet(params) {
			continue
		}
		script, err := txscript.PayToAddrScript(a)
		require.NoError(t, err)
		return wire.NewTxOut(satoshis, script)
	}
	t.Fatalf("%s is no address of a test network", to)
	return nil
}
