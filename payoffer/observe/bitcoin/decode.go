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
	// maxSatoshis is every satoshi that can exist: 21 million BTC.
	maxSatoshis = 21_000_000 * 100_000_000
	// maxHeight is far beyond every block of this century.
	maxHeight = 1<<31 - 1
	// maxTime is the end of block times: 32 bits, in Unix seconds.
	maxTime = 1<<32 - 1
	// maxListed bounds the transactions of one answer; Esplora lists 25
	// confirmed or 50 unconfirmed ones.
	maxListed = 1000
)

// errMalformed is the one error of all decoders: an upstream's own text
// reaches neither a log nor an error.
var errMalformed = errors.New("malformed answer")

var (
	hash256 = regexp.MustCompile(`^[0-9a-f]{64}$`)
	number  = regexp.MustCompile(`^(0|[1-9][0-9]{0,9})$`)
)

// stats are an address's transactions, counted, and its outputs.
type stats struct{ Chain, Mempool counts }

// counts is one half of an address's statistics.
type counts struct{ Transactions, Funded, Spent int64 }

// outpoint names an output.
type outpoint struct {
	Transaction string
	Index       uint32
}

// String is "txid:index".
func (o outpoint) String() string {
	return o.Transaction + ":" + strconv.FormatUint(uint64(o.Index), 10)
}

// input is what a transaction spends; Script is the spent output's, in
// hexadecimal, and empty where the endpoint does not tell.
type input struct {
	outpoint
	Script string
}

// output is an amount in satoshis and its script in hexadecimal.
type output struct {
	Script string
	Value  int64
}

// status is where a transaction stands; Time is the block's, in Unix seconds.
type status struct {
	Confirmed bool
	Height    int64
	Block     string
	Time      int64
}

// transaction is the part of a transaction that a receipt needs.
type transaction struct {
	ID      string
	Inputs  []input
	Outputs []output
	Status  status
}

// spending is the transaction that spends an output, if any.
type spending struct {
	Spent       bool
	Transaction string
	Status      status
}

// block is a block's own hash and time.
type block struct {
	ID        string
	Timestamp int64
}

func decodeHeight(r io.Reader) (int64, error) {
	text, err := decodeText(r, number)
	if err != nil {
		return 0, err
	}
	height, err := strconv.ParseInt(text, 10, 64)
	if err != nil || height > maxHeight {
		return 0, errMalformed
	}
	return height, nil
}

func decodeHash(r io.Reader) (string, error) { return decodeText(r, hash256) }

func decodeText(r io.Reader, form *regexp.Regexp) (string, error) {
	body, err := io.ReadAll(r)
	if err != nil {
		return "", errMalformed
	}
	text := strings.TrimSpace(string(body))
	if !form.MatchString(text) {
		return "", errMalformed
	}
	return text, nil
}

func decodeBlock(r io.Reader) (block, error) {
	var wire struct {
		ID        string
		Timestamp *int64
	}
	if err := decodeJSON(r, &wire); err != nil {
		return block{}, err
	}
	if !hash256.MatchString(wire.ID) || !within(wire.Timestamp, maxTime) {
		return block{}, errMalformed
	}
	return block{wire.ID, *wire.Timestamp}, nil
}

func decodeStats(r io.Reader) (stats, error) {
	type half struct {
		Transactions *int64 `json:"tx_count"`
		Funded       *int64 `json:"funded_txo_count"`
		Spent        *int64 `json:"spent_txo_count"`
	}
	var wire struct {
		Chain   half `json:"chain_stats"`
		Mempool half `json:"mempool_stats"`
	}
	if err := decodeJSON(r, &wire); err != nil {
		return stats{}, err
	}
	for _, h := range []half{wire.Chain, wire.Mempool} {
		if !within(h.Transactions, maxSatoshis) || !within(h.Funded, maxSatoshis) || !within(h.Spent, maxSatoshis) {
			return stats{}, errMalformed
		}
	}
	read := func(h half) counts { return counts{*h.Transactions, *h.Funded, *h.Spent} }
	return stats{read(wire.Chain), read(wire.Mempool)}, nil
}

func decodeSpending(r io.Reader) (spending, error) {
	var wire struct {
		Spent       *bool
		Transaction string `json:"txid"`
		Status      *wireStatus
	}
	if err := decodeJSON(r, &wire); err != nil {
		return spending{}, err
	}
	if wire.Spent == nil {
		return spending{}, errMalformed
	}
	if !*wire.Spent {
		return spending{}, nil
	}
	if !hash256.MatchString(wire.Transaction) {
		return spending{}, errMalformed
	}
	s, err := wire.Status.read()
	return spending{true, wire.Transaction, s}, err
}

// decodeTransactions reads a list, one transaction at a time: only what a
// receipt needs is kept of them.
func decodeTransactions(r io.Reader) ([]transaction, error) {
	d := json.NewDecoder(r)
	if open, err := d.Token(); err != nil || open != json.Delim('[') {
		return nil, errMalformed
	}
	var txs []transaction
	for d.More() {
		var wire wireTransaction
		if err := d.Decode(&wire); err != nil || len(txs) == maxListed {
			return nil, errMalformed
		}
		tx, err := wire.read()
		if err != nil {
			return nil, err
		}
		txs = append(txs, tx)
	}
	if _, err := d.Token(); err != nil {
		return nil, errMalformed
	}
	return txs, ended(d)
}

func decodeTransaction(r io.Reader) (transaction, error) {
	var wire wireTransaction
	if err := decodeJSON(r, &wire); err != nil {
		return transaction{}, err
	}
	return wire.read()
}

// decodeJSON reads one value and nothing after it.
func decodeJSON(r io.Reader, v any) error {
	d := json.NewDecoder(r)
	if err := d.Decode(v); err != nil {
		return errMalformed
	}
	return ended(d)
}

func ended(d *json.Decoder) error {
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errMalformed
	}
	return nil
}

func within(n *int64, limit int64) bool { return n != nil && *n >= 0 && *n <= limit }

func validScript(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && strings.ToLower(s) == s
}
