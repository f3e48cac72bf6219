package evm

import (
	"encoding/json"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
)

// block is what is read of a block. Its hash is the endpoint's word: some
// chains compute it from more than Ethereum's headers hold.
type block struct {
	Number hexutil.Uint64 `json:"number"`
	Hash   common.Hash    `json:"hash"`
	Time   hexutil.Uint64 `json:"timestamp"`
}

// receipt is what is read of a transaction's receipt.
type receipt struct {
	Transaction common.Hash    `json:"transactionHash"`
	BlockHash   common.Hash    `json:"blockHash"`
	BlockNumber hexutil.Uint64 `json:"blockNumber"`
	Status      hexutil.Uint64 `json:"status"`
	Logs        []log          `json:"logs"`
}

// log is what is read of a log, in eth_getLogs and in receipts.
type log struct {
	// Address is that of the contract; never nil.
	Address     *common.Address `json:"address"`
	Topics      []common.Hash   `json:"topics"`
	Data        hexutil.Bytes   `json:"data"`
	BlockNumber hexutil.Uint64  `json:"blockNumber"`
	Transaction common.Hash     `json:"transactionHash"`
	Index       hexutil.Uint64  `json:"logIndex"`
	Removed     bool            `json:"removed"`
}

// UnmarshalJSON requires what every log has: a member that is missing is no
// empty one.
func (l *log) UnmarshalJSON(text []byte) error {
	type plain log
	if err := json.Unmarshal(text, (*plain)(l)); err != nil {
		return err
	}
	if l.Address == nil || l.Topics == nil || l.Data == nil || l.Transaction == (common.Hash{}) {
		return errMalformed
	}
	return nil
}
