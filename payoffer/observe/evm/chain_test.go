package evm

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

const (
	// price is 42 USDC in atomic units.
	price = 42_000_000
	// genesis is when the first block was made, in Unix seconds; another one follows every two.
	genesis   = 1_800_000_000
	blockTime = 2
)

var (
	token    = common.HexToAddress("0x036cbd53842c5426634e7929541ec2318f3dcf7e")
	payTo    = common.HexToAddress(payee)
	payer    = common.HexToAddress("0xde709f2102306220921060314715629080e2fb77")
	stranger = common.HexToAddress("0x27b1fdb04752bbc536007a920d24acb045561c26")
)

// event is a log that has no place on a chain yet.
type event struct {
	address common.Address
	topics  []common.Hash
	data    []byte
}

// transaction may stand on several branches.
type transaction struct {
	hash   common.Hash
	events []event
	failed bool
}

// mined is a block with what stands in it.
type mined struct {
	hash         common.Hash
	time         int64
	transactions []*transaction
}

// branch is a small chain in memory: its blocks by number, and the newest safe and final ones. Another branch of it
// shares the blocks.
type branch struct {
	t           testing.TB
	blocks      []*mined
	safe, final uint64
	made        *int        // counts blocks and transactions over all branches
	mu          *sync.Mutex // held while blocks are added, and while an endpoint answers
	// funds are what everybody has.
	funds *big.Int
}

// newBranch begins a chain of so many final blocks.
func newBranch(t testing.TB, blocks int) *branch {
	b := &branch{t: t, made: new(int), mu: new(sync.Mutex), funds: big.NewInt(price)}
	b.mineFinal(blocks)
	return b
}

// unique is a hash that was never used on any branch.
func (b *branch) unique() common.Hash {
	*b.made++
	return crypto.Keccak256Hash(fmt.Appendf(nil, "%d", *b.made))
}

func (b *branch) head() uint64 { return uint64(len(b.blocks)) - 1 }

// mine adds blocks, the first of which holds the transactions.
func (b *branch) mine(blocks int, transactions ...*transaction) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range blocks {
		b.blocks = append(b.blocks, &mined{b.unique(), genesis + blockTime*int64(len(b.blocks)), transactions})
		transactions = nil
	}
}

// mineFinal adds final blocks, the first of which holds the transactions.
func (b *branch) mineFinal(blocks int, transactions ...*transaction) {
	b.mine(blocks, transactions...)
	b.finalize()
}

// finalize makes all blocks final.
func (b *branch) finalize() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.safe, b.final = b.head(), b.head()
}

// fork is another branch that begins as this one.
func (b *branch) fork() *branch {
	other := *b
	other.blocks = slices.Clone(b.blocks)
	return &other
}

// rewind takes the newest blocks away and returns what stood in them.
func (b *branch) rewind(blocks int) (transactions []*transaction) {
	keep := len(b.blocks) - blocks
	for _, gone := range b.blocks[keep:] {
		transactions = append(transactions, gone.transactions...)
	}
	b.blocks = b.blocks[:keep]
	b.safe, b.final = min(b.safe, b.head()), min(b.final, b.head())
	return transactions
}

// transaction makes one of these events.
func (b *branch) transaction(events ...[]event) *transaction {
	return &transaction{hash: b.unique(), events: slices.Concat(events...)}
}

// pay mines a Transfer of an amount to the rail.
func (b *branch) pay(amount int64) *transaction {
	tx := b.transaction(sends(payer, payTo, amount))
	b.mine(1, tx)
	return tx
}

// sends, used and canceled are the logs that the token makes.
func sends(from, to common.Address, amount int64) []event {
	return []event{{token, []common.Hash{topicTransfer, wordOf(from), wordOf(to)}, common.BigToHash(big.NewInt(amount)).Bytes()}}
}

// authorize makes the key of an authorization that was not used yet.
func (b *branch) authorize() ledger.IntentKey {
	return ledger.IntentKey{Network: "eip155:84532", Asset: token.Hex(), From: payer.Hex(), Nonce: b.unique().Hex()}
}

func used(key ledger.IntentKey) []event     { return spent(topicUsed, key) }
func canceled(key ledger.IntentKey) []event { return spent(topicCanceled, key) }

func spent(topic common.Hash, key ledger.IntentKey) []event {
	return []event{{token, []common.Hash{topic, wordOf(common.HexToAddress(key.From)), common.HexToHash(key.Nonce)}, nil}}
}

// place is where a transaction stands.
func (b *branch) place(hash common.Hash) (number, firstLog uint64, found *transaction) {
	for number := len(b.blocks) - 1; number >= 0; number-- {
		index := 0
		for _, tx := range b.blocks[number].transactions {
			if tx.hash == hash {
				return uint64(number), uint64(index), tx
			}
			index += len(tx.logs())
		}
	}
	return 0, 0, nil
}

// logs are the events, unless the transaction failed.
func (tx *transaction) logs() []event {
	if tx.failed {
		return nil
	}
	return tx.events
}

// transfers are the amounts that the chain moved to the rail, by external id. Dust is left out, and what came from there.
func (b *branch) transfers() map[string]int64 {
	found := make(map[string]int64)
	for _, block := range b.blocks {
		for _, tx := range block.transactions {
			for ordinal, e := range tx.logs() {
				amount := common.BytesToHash(e.data).Big().Int64()
				if len(e.topics) == 3 && e.topics[0] == topicTransfer && e.topics[1] != wordOf(payTo) && e.topics[2] == wordOf(payTo) && amount >= 10_000 {
					found[fmt.Sprintf("eip155:84532:%s:%d", tx.hash.Hex(), ordinal)] = amount
				}
			}
		}
	}
	return found
}

// object is a JSON object.
type object = map[string]any

func number(n uint64) string { return hexutil.EncodeUint64(n) }

// showBlock is a block as JSON-RPC shows it; nil for none.
func (b *branch) showBlock(at string) any {
	n, err := hexutil.DecodeUint64(at)
	if err != nil {
		n = map[string]uint64{"latest": b.head(), "safe": b.safe, "finalized": b.final}[at]
	}
	if n > b.head() {
		return nil
	}
	block := b.blocks[n]
	return object{"number": number(n), "hash": block.hash.Hex(), "timestamp": number(uint64(block.time))}
}

// blockAt is the block that a call is made at: a tag, a number, or a hash (EIP-1898).
func (b *branch) blockAt(at json.RawMessage) (number uint64, known bool) {
	var text string
	if json.Unmarshal(at, &text) == nil {
		block, _ := b.showBlock(text).(object)
		if block == nil {
			return 0, false
		}
		return hexutil.MustDecodeUint64(block["number"].(string)), true
	}
	var byHash struct {
		BlockHash        common.Hash
		RequireCanonical bool
	}
	if json.Unmarshal(at, &byHash) != nil || !byHash.RequireCanonical {
		return 0, false
	}
	n := slices.IndexFunc(b.blocks, func(m *mined) bool { return m.hash == byHash.BlockHash })
	return uint64(n), n >= 0
}

// showReceipt is a receipt as JSON-RPC shows it; nil for none.
func (b *branch) showReceipt(hash common.Hash) any {
	n, first, tx := b.place(hash)
	if tx == nil {
		return nil
	}
	status := uint64(1)
	if tx.failed {
		status = 0
	}
	return object{
		"transactionHash": hash.Hex(), "blockHash": b.blocks[n].hash.Hex(), "blockNumber": number(n),
		"status": number(status), "logs": b.showLogs(n, first, tx),
	}
}

func (b *branch) showLogs(n, first uint64, tx *transaction) []object {
	logs := []object{}
	for i, e := range tx.logs() {
		logs = append(logs, object{
			"address": e.address.Hex(), "topics": e.topics, "data": hexutil.Encode(e.data), "blockNumber": number(n),
			"transactionHash": tx.hash.Hex(), "blockHash": b.blocks[n].hash.Hex(), "logIndex": number(first + uint64(i)), "removed": false,
		})
	}
	return logs
}

// query is the filter of eth_getLogs.
type query struct {
	FromBlock, ToBlock hexutil.Uint64
	Address            common.Address
	Topics             []alternatives
}

// alternatives are the hashes of which a topic must be one; nil for any.
type alternatives []common.Hash

func (a *alternatives) UnmarshalJSON(text []byte) error {
	var one *common.Hash
	if json.Unmarshal(text, &one) != nil {
		return json.Unmarshal(text, (*[]common.Hash)(a))
	}
	if one != nil {
		*a = alternatives{*one}
	}
	return nil
}

// find shows the logs that a query asks for.
func (b *branch) find(q query) []object {
	found := []object{}
	for n := uint64(q.FromBlock); n <= min(uint64(q.ToBlock), b.head()); n++ {
		first := uint64(0)
		for _, tx := range b.blocks[n].transactions {
			for i, shown := range b.showLogs(n, first, tx) {
				if q.asksFor(tx.events[i]) {
					found = append(found, shown)
				}
			}
			first += uint64(len(tx.logs()))
		}
	}
	return found
}

func (q query) asksFor(e event) bool {
	for i, topic := range q.Topics {
		if topic != nil && (i >= len(e.topics) || !slices.Contains(topic, e.topics[i])) {
			return false
		}
	}
	return e.address == q.Address
}

// state is the token's authorizationState in a block.
func (b *branch) state(payer, nonce common.Hash, at uint64) common.Hash {
	for n := uint64(0); n <= at; n++ {
		for _, tx := range b.blocks[n].transactions {
			for _, e := range tx.logs() {
				if (e.topics[0] == topicUsed || e.topics[0] == topicCanceled) && e.topics[1] == payer && e.topics[2] == nonce {
					return common.BigToHash(common.Big1)
				}
			}
		}
	}
	return common.Hash{}
}
