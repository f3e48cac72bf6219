package bitcoin

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
)

const (
	maxSatoshis = 21_000_000 * 100_000_000
	maxHeight   = 1<<31 - 1
	// maxTime is the last block time (32 bits, Unix seconds).
	maxTime = 1<<32 - 1
	// coinbaseID is the transaction id that coinbase inputs name.
	coinbaseID = "0000000000000000000000000000000000000000000000000000000000000000"
	// missing is set before decoding, so that a missing member is not read as zero.
	missing = -1
)

// errMalformed is the only error of all decoders, so that no upstream text reaches a log or an error.
var errMalformed = errors.New("malformed answer")

var hash256 = regexp.MustCompile(`^[0-9a-f]{64}$`)

// stats counts the transactions of an address.
type stats struct{ chain, mempool int64 }

type outpoint struct {
	Transaction string
	Index       uint32
}

// String is "txid:index".
func (o outpoint) String() string {
	return o.Transaction + ":" + strconv.FormatUint(uint64(o.Index), 10)
}

func parseOutpoint(text string) (outpoint, bool) {
	txid, index, found := strings.Cut(text, ":")
	n, err := strconv.ParseUint(index, 10, 32)
	return outpoint{txid, uint32(n)}, found && err == nil && hash256.MatchString(txid)
}

// input is what a transaction spends. Script is the spent output's, in hexadecimal, empty for new coins.
type input struct {
	outpoint
	Script string
}

// output is an amount in satoshis and its script in hexadecimal.
type output struct {
	Script string `json:"scriptpubkey"`
	Value  int64  `json:"value"`
}

// status is the block of a transaction, if any. Time is the block's time in Unix seconds.
type status struct {
	Confirmed bool
	Height    int64
	Block     string
	Time      int64
}

type transaction struct {
	ID      string   `json:"txid"`
	Inputs  []input  `json:"vin"`
	Outputs []output `json:"vout"`
	Status  status   `json:"status"`
}

// block is a block's header. Time is in Unix seconds.
type block struct {
	ID     string `json:"id"`
	Height int64  `json:"height"`
	Time   int64  `json:"timestamp"`
}

func (b *block) UnmarshalJSON(text []byte) error {
	type plain block
	*b = block{Height: missing, Time: missing}
	err := json.Unmarshal(text, (*plain)(b))
	return malformedUnless(err == nil && hash256.MatchString(b.ID) && within(b.Height, maxHeight) && within(b.Time, maxTime))
}

func (s *stats) UnmarshalJSON(text []byte) error {
	type counts struct {
		Transactions int64 `json:"tx_count"`
	}
	wire := struct {
		Chain   counts `json:"chain_stats"`
		Mempool counts `json:"mempool_stats"`
	}{counts{missing}, counts{missing}}
	err := json.Unmarshal(text, &wire)
	*s = stats{wire.Chain.Transactions, wire.Mempool.Transactions}
	return malformedUnless(err == nil && within(s.chain, maxSatoshis) && within(s.mempool, maxSatoshis))
}

func (t *transaction) UnmarshalJSON(text []byte) error {
	type plain transaction
	*t = transaction{Status: status{Height: missing}}
	err := json.Unmarshal(text, (*plain)(t))
	var sum int64 // so that no sum of them overflows
	for _, out := range t.Outputs {
		sum = min(sum+out.Value, maxSatoshis+1)
	}
	return malformedUnless(err == nil && hash256.MatchString(t.ID) && len(t.Inputs) > 0 && len(t.Outputs) > 0 &&
		t.Status.Height != missing && sum <= maxSatoshis)
}

func (in *input) UnmarshalJSON(text []byte) error {
	var wire struct {
		Transaction string  `json:"txid"`
		Index       *uint32 `json:"vout"`
		Prevout     *output `json:"prevout"`
	}
	if json.Unmarshal(text, &wire) != nil || !hash256.MatchString(wire.Transaction) || wire.Index == nil {
		return errMalformed
	}
	*in = input{outpoint: outpoint{wire.Transaction, *wire.Index}}
	if wire.Prevout != nil {
		in.Script = wire.Prevout.Script
	}
	return malformedUnless(wire.Prevout != nil || wire.Transaction == coinbaseID)
}

func (o *output) UnmarshalJSON(text []byte) error {
	type plain output
	*o = output{Script: "missing", Value: missing}
	err := json.Unmarshal(text, (*plain)(o))
	_, wrong := hex.DecodeString(o.Script)
	return malformedUnless(err == nil && wrong == nil && strings.ToLower(o.Script) == o.Script && within(o.Value, maxSatoshis))
}

// UnmarshalJSON requires a block of a confirmed transaction and ignores it otherwise.
func (s *status) UnmarshalJSON(text []byte) error {
	wire := struct {
		Confirmed *bool  `json:"confirmed"`
		Height    int64  `json:"block_height"`
		Block     string `json:"block_hash"`
		Time      int64  `json:"block_time"`
	}{Height: missing, Time: missing}
	*s = status{}
	if err := json.Unmarshal(text, &wire); err != nil || wire.Confirmed == nil || !*wire.Confirmed {
		return malformedUnless(err == nil && wire.Confirmed != nil)
	}
	*s = status{true, wire.Height, wire.Block, wire.Time}
	return malformedUnless(within(s.Height, maxHeight) && hash256.MatchString(s.Block) && within(s.Time, maxTime))
}

func decodeHash(r io.Reader) (string, error) {
	body, err := io.ReadAll(r)
	text := strings.TrimSpace(string(body))
	return text, malformedUnless(err == nil && hash256.MatchString(text))
}

// decodeTransactions decodes one transaction at a time and keeps only what a receipt needs.
func decodeTransactions(r io.Reader) (txs []transaction, err error) {
	d := json.NewDecoder(r)
	if open, err := d.Token(); err != nil || open != json.Delim('[') {
		return nil, errMalformed
	}
	for d.More() {
		var tx transaction
		if d.Decode(&tx) != nil {
			return nil, errMalformed
		}
		txs = append(txs, tx)
	}
	_, err = d.Token()
	return txs, malformedUnless(err == nil)
}

func decodeJSON[T any](r io.Reader) (value T, err error) {
	return value, malformedUnless(json.NewDecoder(r).Decode(&value) == nil)
}

func malformedUnless(valid bool) error {
	if !valid {
		return errMalformed
	}
	return nil
}

func within(n, limit int64) bool { return n >= 0 && n <= limit }
