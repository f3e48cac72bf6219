// Package esplora serves the Esplora HTTP API (Blockstream/esplora, API.md) over the JSON-RPC of a btcd node with
// --txindex and --addrindex: the part that wallets read, with Esplora's paging and limits.
package esplora

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/wire/v2"
)

// Limits of Esplora's lists.
const (
	chainPage   = 25
	mempoolList = 50
	// searched bounds the transactions of one address.
	searched = 10_000
)

// Caller is the JSON-RPC of a node. Its error is a *RPCError where the node has answered with one.
type Caller interface {
	Call(ctx context.Context, result any, method string, params ...any) error
}

// RPCError is an error that the node answered with.
type RPCError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (r *RPCError) Error() string { return r.Message }

type object = map[string]any

// errNotFound becomes the status 404.
var errNotFound = errors.New("not found")

type server struct {
	node Caller
	// network is the one that is pretended: its addresses stand for the same scripts on the node's network.
	network, own *chaincfg.Params
	// spent are outputs that inputs spend, by their wire.OutPoint: they never change, and the node is asked for each in turn.
	spent sync.Map
	// blocks are those that were asked for, by their hash.
	blocks sync.Map
}

// Handler serves the API. The chain of the node, on the network own, is shown as one of another network: extended public
// keys have no form for regression tests.
func Handler(node Caller, own, network *chaincfg.Params) http.Handler {
	return &server{node: node, network: network, own: own}
}

// Start serves Handler on a loopback port until the test ends, and returns its base URL.
func Start(t testing.TB, node Caller, own, network *chaincfg.Params) string {
	t.Helper()
	s := httptest.NewServer(Handler(node, own, network))
	t.Cleanup(s.Close)
	return s.URL
}

// StartTwo is Start for two indexes, on two hosts: the names of this machine.
func StartTwo(t testing.TB, node Caller, own, network *chaincfg.Params) []string {
	t.Helper()
	return []string{Start(t, node, own, network), strings.Replace(Start(t, node, own, network), "127.0.0.1", "localhost", 1)}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := s.answer(r.Context(), strings.Split(strings.Trim(r.URL.Path, "/"), "/"))
	var known *RPCError
	switch {
	case errors.As(err, &known), errors.Is(err, errNotFound):
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadGateway)
	default:
		if text, ok := answer.(string); ok {
			_, _ = w.Write([]byte(text))
			return
		}
		_ = json.NewEncoder(w).Encode(answer)
	}
}

func (s *server) answer(ctx context.Context, path []string) (any, error) {
	switch {
	case len(path) == 3 && path[0] == "blocks" && path[2] == "hash":
		var hash string
		return hash, s.node.Call(ctx, &hash, "getbestblockhash")
	case len(path) == 2 && path[0] == "block-height":
		return s.blockAt(ctx, path[1])
	case len(path) == 2 && path[0] == "block":
		b, err := s.blockOnChain(ctx, path[1])
		return object{"id": path[1], "height": b.Height, "timestamp": b.Time}, err
	case len(path) >= 2 && path[0] == "address":
		return s.address(ctx, path[1], path[2:])
	case len(path) == 2 && path[0] == "tx":
		return s.transaction(ctx, path[1])
	default:
		return nil, errNotFound
	}
}

func (s *server) blockAt(ctx context.Context, text string) (string, error) {
	height, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return "", errNotFound
	}
	if height == 0 {
		return s.network.GenesisHash.String(), nil
	}
	var hash string
	return hash, s.node.Call(ctx, &hash, "getblockhash", height)
}

// block is what never changes of a block.
type block struct {
	Height int64 `json:"height"`
	Time   int64 `json:"time"`
}

// block returns a block that was found on the best chain.
func (s *server) block(ctx context.Context, hash string) (block, error) {
	if known, ok := s.blocks.Load(hash); ok {
		return known.(block), nil
	}
	b, err := s.blockOnChain(ctx, hash)
	if err == nil {
		s.blocks.Store(hash, b)
	}
	return b, err
}

// blockOnChain asks the node, which knows only the blocks of its best chain.
func (s *server) blockOnChain(ctx context.Context, hash string) (b block, err error) {
	return b, s.node.Call(ctx, &b, "getblock", hash, 1)
}

// status tells where a transaction of a block stands; an empty hash is the mempool.
func (s *server) status(ctx context.Context, hash string) (object, error) {
	if hash == "" {
		return object{"confirmed": false}, nil
	}
	b, err := s.block(ctx, hash)
	return object{"confirmed": true, "block_height": b.Height, "block_hash": hash, "block_time": b.Time}, err
}

// found is a transaction as the node finds it.
type found struct {
	Hex       string `json:"hex"`
	BlockHash string `json:"blockhash"`
}

func (f found) decode() (*wire.MsgTx, error) {
	tx := new(wire.MsgTx)
	return tx, tx.Deserialize(hex.NewDecoder(strings.NewReader(f.Hex)))
}

func (s *server) transaction(ctx context.Context, txid string) (object, error) {
	var f found
	if err := s.node.Call(ctx, &f, "getrawtransaction", txid, 1); err != nil {
		return nil, err
	}
	return s.wire(ctx, f)
}

func (s *server) wire(ctx context.Context, f found) (object, error) {
	tx, err := f.decode()
	if err != nil {
		return nil, err
	}
	inputs, outputs := []object{}, []object{}
	for _, in := range tx.TxIn {
		prevout, err := s.prevout(ctx, in.PreviousOutPoint)
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, object{
			"txid": in.PreviousOutPoint.Hash.String(), "vout": in.PreviousOutPoint.Index, "prevout": prevout,
			"is_coinbase": prevout == nil, "sequence": in.Sequence,
		})
	}
	for _, out := range tx.TxOut {
		outputs = append(outputs, output(out))
	}
	status, err := s.status(ctx, f.BlockHash)
	return object{
		"txid": tx.TxHash().String(), "version": tx.Version, "locktime": tx.LockTime, "size": tx.SerializeSize(),
		"vin": inputs, "vout": outputs, "status": status,
	}, err
}

func output(out *wire.TxOut) object {
	return object{"scriptpubkey": hex.EncodeToString(out.PkScript), "value": out.Value}
}

// prevout is the output that an input spends, or nil for a coinbase.
func (s *server) prevout(ctx context.Context, o wire.OutPoint) (any, error) {
	if o.Index == wire.MaxPrevOutIndex {
		return nil, nil
	}
	if known, ok := s.spent.Load(o); ok {
		return known, nil
	}
	var f found
	if err := s.node.Call(ctx, &f, "getrawtransaction", o.Hash.String(), 1); err != nil {
		return nil, err
	}
	tx, err := f.decode()
	if err != nil || o.Index >= uint32(len(tx.TxOut)) {
		return nil, errNotFound
	}
	known, _ := s.spent.LoadOrStore(o, output(tx.TxOut[o.Index]))
	return known, nil
}

// translate gives an address of the pretended network the form of the node's.
func (s *server) translate(text string) (string, error) {
	a, err := address.DecodeAddress(text, s.network)
	if err != nil || !a.IsForNet(s.network) {
		return "", errNotFound
	}
	if s.network == s.own {
		return text, nil
	}
	witness, err := address.NewAddressWitnessPubKeyHash(a.ScriptAddress(), s.own)
	if err != nil {
		return "", errNotFound
	}
	return witness.EncodeAddress(), nil
}
