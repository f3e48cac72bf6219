package evm

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	// dust is the amount in atomic units below which a Transfer is ignored, 0.01 USDC. Such transfers put lookalike
	// addresses into a wallet's history.
	dust = 10_000
	// absurd is more than any token of six decimals has.
	absurd        = 1 << 62
	atomicPerCent = 10_000
)

// Topics of the token's events (ERC-20, EIP-3009).
var (
	topicTransfer = crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)"))
	topicUsed     = crypto.Keccak256Hash([]byte("AuthorizationUsed(address,bytes32)"))
	topicCanceled = crypto.Keccak256Hash([]byte("AuthorizationCanceled(address,bytes32)"))
)

// Causes in a receipt's transitions.
const (
	causeChain    = "chain"
	causeReorg    = "reorg"
	causeUnproven = "unproven"
)

// movement is a Transfer to the rail's address.
type movement struct {
	// ordinal is the position of its log in the receipt.
	ordinal  int
	other    common.Address
	amount   int64
	logIndex uint64
	// nonce is the authorization's, in lower-case hex, or empty.
	nonce string
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

// movements returns the Transfers of a receipt that are worth a row.
func (e *Observer) movements(r *receipt) []movement {
	var found []movement
	for position := range r.Logs {
		if m, ok := e.movementAt(r, position); ok && m.amount >= dust {
			found = append(found, m)
		}
	}
	return found
}

// movementAt reads one log. An authorization made the Transfer if the log before is the token's AuthorizationUsed of
// the same payer.
func (e *Observer) movementAt(r *receipt, position int) (movement, bool) {
	l := &r.Logs[position]
	from, to, amount, ok := e.chain.transfer(l)
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

// used returns the Transfer that an authorization made, also dust.
func (e *Observer) used(r *receipt, key ledger.IntentKey) []movement {
	from, nonce := common.HexToAddress(key.From), common.HexToHash(key.Nonce).Hex()
	for position := range r.Logs {
		if m, ok := e.movementAt(r, position); ok && m.other == from && m.nonce == nonce {
			return []movement{m}
		}
	}
	return nil
}

// wordOf is an address as a topic.
func wordOf(a common.Address) common.Hash { return common.BytesToHash(a.Bytes()) }

// evidence is where a transfer was when it was last read.
type evidence struct {
	Block     uint64      `json:"block"`
	BlockHash common.Hash `json:"blockHash"`
	LogIndex  uint64      `json:"logIndex"`
}

func evidenceOf(row ledger.Receipt) (was evidence) {
	_ = json.Unmarshal(row.Evidence, &was) // other evidence is block 0
	return was
}

// externalID names a movement forever: a transaction that moves to another block keeps the order of its logs.
func (e *Observer) externalID(transaction common.Hash, ordinal int) string {
	return fmt.Sprintf("%s:%s:%d", e.config.USDC.Network.CAIP2(), strings.ToLower(transaction.Hex()), ordinal)
}

// observation is final if it is confirmed in a block up to the final one. Money that the account sends to itself is
// not a payment.
func (e *Observer) observation(transaction common.Hash, c candidate, state ledger.Status, final uint64) *ledger.Observation {
	number := uint64(c.block.Number)
	cents := c.amount / atomicPerCent
	payer := strings.ToLower(c.other.Hex())
	own, settled := e.config.Own(payer), state == ledger.StatusConfirmed
	if c.other == e.payTo {
		own, state = true, ledger.StatusMoved
	}
	return &ledger.Observation{
		Offer: e.config.OfferID, Account: e.account, Rail: e.config.USDC.Name(),
		ExternalID:  e.externalID(transaction, c.ordinal),
		Transaction: strings.ToLower(transaction.Hex()), Asset: strings.ToLower(e.token.Hex()),
		Amount: c.amount, USDCents: &cents, ValueBasis: ledger.BasisFace,
		State: state, Final: settled && number <= final, EvidenceLevel: ledger.LevelChain,
		Evidence: offer.JSON(evidence{number, c.block.Hash, c.logIndex}),
		Payer:    payer, Nonce: c.nonce, Own: own, Testnet: e.config.USDC.Network.Test, OccurredAt: int64(c.block.Time), Cause: causeChain,
	}
}
