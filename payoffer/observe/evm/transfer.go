package evm

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

const (
	// dust is the amount, in atomic units, below which a Transfer is ignored:
	// 0.01 USDC. Such are sent to put a lookalike address into the history of
	// a wallet.
	dust = 10_000
	// absurd is an amount that no token of six decimals has.
	absurd = 1 << 62
	// atomicPerCent is the number of atomic units (10^-6 USDC) of one cent.
	atomicPerCent = 10_000
)

// Topics of the token's events (ERC-20, EIP-3009).
var (
	topicTransfer = crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)"))
	topicUsed     = crypto.Keccak256Hash([]byte("AuthorizationUsed(address,bytes32)"))
	topicCanceled = crypto.Keccak256Hash([]byte("AuthorizationCanceled(address,bytes32)"))
)

// Causes of the history, in a receipt's transitions.
const (
	causeChain    = "chain"
	causeReorg    = "reorg"
	causeUnproven = "unproven"
)

// movement is a Transfer to the rail's address, or from there.
type movement struct {
	// ordinal is the position of its log in the receipt.
	ordinal int
	// other is who paid, or who was paid.
	other    common.Address
	amount   int64
	logIndex uint64
	// nonce is that of the authorization that made it, in lower-case hex, or
	// empty.
	nonce string
}

// transfer reads a log as a Transfer of the token.
func (e *Observer) transfer(l *log) (from, to common.Address, amount int64, ok bool) {
	return e.chain.transfer(l)
}

func (c *Chain) transfer(l *log) (from, to common.Address, amount int64, ok bool) {
	if l.Removed || *l.Address != c.token || len(l.Topics) != 3 || len(l.Data) != 32 || l.Topics[0] != topicTransfer {
		return from, to, 0, false
	}
	from, to = common.BytesToAddress(l.Topics[1].Bytes()), common.BytesToAddress(l.Topics[2].Bytes())
	value := new(big.Int).SetBytes(l.Data)
	if l.Topics[1] != wordOf(from) || l.Topics[2] != wordOf(to) || !value.IsInt64() || value.Int64() > absurd {
		return from, to, 0, false
	}
	return from, to, value.Int64(), true
}

// movements are all Transfers of a receipt that are worth a row: one
// transaction may make several.
func (e *Observer) movements(r *receipt) []movement {
	var found []movement
	for position := range r.Logs {
		if m, ok := e.movementAt(r, position); ok && m.amount >= dust {
			found = append(found, m)
		}
	}
	return found
}

// movementAt reads the log at a position. An authorization made the Transfer if
// the log before it is the token's AuthorizationUsed of the same payer.
func (e *Observer) movementAt(r *receipt, position int) (movement, bool) {
	l := &r.Logs[position]
	from, to, amount, ok := e.transfer(l)
	ok = ok && to == e.payTo
	m := movement{position, from, amount, uint64(l.Index), ""}
	if ok && position > 0 {
		before := &r.Logs[position-1]
		if *before.Address == e.token && len(before.Topics) == 3 && before.Topics[0] == topicUsed && before.Topics[1] == wordOf(from) {
			m.nonce = before.Topics[2].Hex()
		}
	}
	return m, ok
}

// used finds the Transfer that an authorization made, however small.
func (e *Observer) used(r *receipt, key ledger.IntentKey) []movement {
	from, nonce := common.HexToAddress(key.From), common.HexToHash(key.Nonce).Hex()
	for position := range r.Logs {
		if m, ok := e.movementAt(r, position); ok && m.other == from && m.nonce == nonce {
			return []movement{m}
		}
	}
	return nil
}

// wordOf is an address as a topic holds it.
func wordOf(a common.Address) common.Hash { return common.BytesToHash(a.Bytes()) }

// evidence is where a transfer stood on the chain when it was last read.
type evidence struct {
	Block     uint64      `json:"block"`
	BlockHash common.Hash `json:"blockHash"`
	LogIndex  uint64      `json:"logIndex"`
}

// evidenceOf reads what a row rests on.
func evidenceOf(row ledger.Receipt) (was evidence) {
	_ = json.Unmarshal(row.Evidence, &was) // rows that others wrote stand in block 0
	return was
}

// externalID names a movement for good: a transaction that moves to another
// block keeps the order of its logs.
func (e *Observer) externalID(transaction common.Hash, ordinal int) string {
	return fmt.Sprintf("%s:%s:%d", e.config.USDC.Network.CAIP2(), strings.ToLower(transaction.Hex()), ordinal)
}

// sighting is what the chain says of a movement. It is final when it is
// confirmed in a block up to the final one. What the account sends to itself is
// nobody's payment, at whatever level.
func (e *Observer) sighting(transaction common.Hash, c candidate, state ledger.Status, final uint64) *ledger.Sighting {
	number := uint64(c.block.Number)
	cents := c.amount / atomicPerCent
	payer := strings.ToLower(c.other.Hex())
	own, settled := e.config.Own(payer), state == ledger.StatusConfirmed
	if c.other == e.payTo {
		own, state = true, ledger.StatusMoved
	}
	return &ledger.Sighting{
		Offer: e.config.OfferID, Account: e.account, Rail: e.config.USDC.Name(),
		ExternalID:  e.externalID(transaction, c.ordinal),
		Transaction: strings.ToLower(transaction.Hex()), Asset: strings.ToLower(e.token.Hex()), Amount: c.amount, USDCents: &cents, ValueBasis: ledger.BasisFace,
		State: state, Final: settled && number <= final, EvidenceLevel: ledger.LevelChain,
		Evidence: observe.Evidence(evidence{number, c.block.Hash, c.logIndex}),
		Payer:    payer, Nonce: c.nonce, Own: own, Testnet: e.config.USDC.Network.Test, OccurredAt: int64(c.block.Time), Cause: causeChain,
	}
}
