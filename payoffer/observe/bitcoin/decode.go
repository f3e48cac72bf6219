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
)

// errMalformed is the only error of all decoders, so that no upstream text reaches a log or an error.
var errMalformed = errors.New("malformed answer")

var (
	hash256 = regexp.MustCompile(`^[0-9a-f]{64}$`)
	number  = regexp.MustCompile(`^(0|[1-9][0-9]{0,9})$`)
)

type stats struct {
	Chain   counts `json:"chain_stats"`
	Mempool counts `json:"mempool_stats"`
}

type counts struct {
	Transactions int64 `json:"tx_count"`
	Funded       int64 `json:"funded_txo_count"`
	Spent        int64 `json:"spent_txo_count"`
}

type outpoint struct {
	Transaction string
	Index       uint32
}

// String is "txid:index".
func (o outpoint) String() string {
	return o.Transaction + ":" + strconv.FormatUint(uint64(o.Index), 10)
}

// input is what a transaction spends. Script is the spent output's, in hexadecimal, if the endpoint has it (HasScript).
type input struct {
	outpoint
	Script    string
	HasScript bool
}

// nothing is the transaction id that coinbase inputs name.
const nothing = "0000000000000000000000000000000000000000000000000000000000000000"

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

// spending is the transaction that spends an output, if any.
type spending struct {
	Spent       bool
	Transaction string
	Status      status
}

type block struct {
	ID        string `json:"id"`
	Timestamp int64  `json:"timestamp"`
}

// header is a listed block; Median is its median time past (BIP 113). Times are Unix seconds.
type header struct {
	ID     string `json:"id"`
	Height int64  `json:"height"`
	Time   int64  `json:"timestamp"`
	Median int64  `json:"mediantime"`
}

// missing is set before decoding, so that a missing member is not read as zero.
const missing = -1

func (b *block) UnmarshalJSON(text []byte) error {
	type plain block
	*b = block{Timestamp: missing}
	if json.Unmarshal(text, (*plain)(b)) != nil || !hash256.MatchString(b.ID) || !within(b.Timestamp, maxTime) {
		return errMalformed
	}
	return nil
}

func (h *header) UnmarshalJSON(text []byte) error {
	type plain header
	*h = header{Height: missing, Time: missing, Median: missing}
	if json.Unmarshal(text, (*plain)(h)) != nil || !hash256.MatchString(h.ID) ||
		!within(h.Height, maxHeight) || !within(h.Time, maxTime) || !within(h.Median, maxTime) {
		return errMalformed
	}
	return nil
}

func (s *stats) UnmarshalJSON(text []byte) error {
	type plain stats
	none := counts{missing, missing, missing}
	*s = stats{none, none}
	if json.Unmarshal(text, (*plain)(s)) != nil {
		return errMalformed
	}
	for _, c := range []counts{s.Chain, s.Mempool} {
		if !within(c.Transactions, maxSatoshis) || !within(c.Funded, maxSatoshis) || !within(c.Spent, maxSatoshis) {
			return errMalformed
		}
	}
	return nil
}

func (s *spending) UnmarshalJSON(text []byte) error {
	var wire struct {
		Spent       *bool   `json:"spent"`
		Transaction string  `json:"txid"`
		Status      *status `json:"status"`
	}
	switch {
	case json.Unmarshal(text, &wire) != nil || wire.Spent == nil:
		return errMalformed
	case !*wire.Spent:
		*s = spending{}
	case wire.Status == nil || !hash256.MatchString(wire.Transaction):
		return errMalformed
	default:
		*s = spending{true, wire.Transaction, *wire.Status}
	}
	return nil
}

func (t *transaction) UnmarshalJSON(text []byte) error {
	type plain transaction
	*t = transaction{Status: status{Height: missing}}
	if json.Unmarshal(text, (*plain)(t)) != nil || !hash256.MatchString(t.ID) ||
		len(t.Inputs) == 0 || len(t.Outputs) == 0 || t.Status.Height == missing {
		return errMalformed
	}
	var sum int64 // so that no sum of them overflows
	for _, out := range t.Outputs {
		if sum += out.Value; sum > maxSatoshis {
			return errMalformed
		}
	}
	return nil
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
		in.Script, in.HasScript = wire.Prevout.Script, true
	}
	return nil
}

func (o *output) UnmarshalJSON(text []byte) error {
	type plain output
	*o = output{Script: "missing", Value: missing}
	if json.Unmarshal(text, (*plain)(o)) != nil || !validScript(o.Script) || !within(o.Value, maxSatoshis) {
		return errMalformed
	}
	return nil
}

// UnmarshalJSON requires a block of a confirmed transaction and ignores it otherwise.
func (s *status) UnmarshalJSON(text []byte) error {
	wire := struct {
		Confirmed *bool  `json:"confirmed"`
		Height    int64  `json:"block_height"`
		Block     string `json:"block_hash"`
		Time      int64  `json:"block_time"`
	}{Height: missing, Time: missing}
	switch {
	case json.Unmarshal(text, &wire) != nil || wire.Confirmed == nil:
		return errMalformed
	case !*wire.Confirmed:
		*s = status{}
	case !within(wire.Height, maxHeight) || !hash256.MatchString(wire.Block) || !within(wire.Time, maxTime):
		return errMalformed
	default:
		*s = status{true, wire.Height, wire.Block, wire.Time}
	}
	return nil
}

func decodeHeight(r io.Reader) (int64, error) {
	text, err := decodeText(r, number)
	height, _ := strconv.ParseInt(text, 10, 64) // it has at most ten digits
	if err != nil || height > maxHeight {
		return 0, errMalformed
	}
	return height, nil
}

func decodeHash(r io.Reader) (string, error) { return decodeText(r, hash256) }

func decodeText(r io.Reader, form *regexp.Regexp) (string, error) {
	body, err := io.ReadAll(r)
	text := strings.TrimSpace(string(body))
	if err != nil || !form.MatchString(text) {
		return "", errMalformed
	}
	return text, nil
}

// decodeTransactions decodes one transaction at a time and keeps only what a receipt needs.
func decodeTransactions(r io.Reader) ([]transaction, error) {
	d := json.NewDecoder(r)
	if open, err := d.Token(); err != nil || open != json.Delim('[') {
		return nil, errMalformed
	}
	var txs []transaction
	for d.More() {
		var tx transaction
		if d.Decode(&tx) != nil {
			return nil, errMalformed
		}
		txs = append(txs, tx)
	}
	if _, err := d.Token(); err != nil {
		return nil, errMalformed
	}
	return txs, ended(d)
}

// decodeJSON decodes one value and nothing after it.
func decodeJSON[T any](r io.Reader) (value T, err error) {
	d := json.NewDecoder(r)
	if d.Decode(&value) != nil || ended(d) != nil {
		return *new(T), errMalformed
	}
	return value, nil
}

func ended(d *json.Decoder) error {
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errMalformed
	}
	return nil
}

func within(n, limit int64) bool { return n >= 0 && n <= limit }

func validScript(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && strings.ToLower(s) == s
}
