package bitcoin

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// published is a transaction in the responses of the public API: the first one
// that paid a person, with the fields that Esplora sends.
const published = `{"txid":"f4184fc596403b9d638783cf57adfe4c75c605f6356fbc91338530e9831e9e16","version":1,"locktime":0,
"vin":[{"txid":"0437cd7f8525ceed2324359c2d0ba26006d92d856a9c20fa0241106ee5a597c9","vout":0,
"prevout":{"scriptpubkey":"410411db93e1dcdb8a016b49840f8c53bc1eb68a382e97b1482ecad7b148a6909a5cb2e0eaddfb84ccf9744464f82e160bfa9b8b64f9d4c03f999b8643f656b412a3ac","scriptpubkey_asm":"OP_PUSHBYTES_65","scriptpubkey_type":"p2pk","value":5000000000},
"scriptsig":"47","scriptsig_asm":"OP_PUSHBYTES_71","is_coinbase":false,"sequence":4294967295}],
"vout":[{"scriptpubkey":"4104ae1a62fe09c5f51b13905f07f06b99a2f7159b2225f374cd378d71302fa28414e7aab37397f554a7df5f142c21c1b7303b8a0626f1baded5c72a704f7e6cd84cac","scriptpubkey_type":"p2pk","value":1000000000},
{"scriptpubkey":"410411db93e1dcdb8a016b49840f8c53bc1eb68a382e97b1482ecad7b148a6909a5cb2e0eaddfb84ccf9744464f82e160bfa9b8b64f9d4c03f999b8643f656b412a3ac","scriptpubkey_type":"p2pk","value":4000000000}],
"size":275,"weight":1100,"sigops":8,"fee":0,
"status":{"confirmed":true,"block_height":170,"block_hash":"00000000d1145790a8694403d4063f323d499e655c83426834d4ce2f8dd4a2ee","block_time":1231731025}}`

func TestATransactionOfThePublicAPIIsRead(t *testing.T) {
	t.Parallel()
	tx, err := decodeJSON[transaction](strings.NewReader(published))
	require.NoError(t, err)
	require.Equal(t, "f4184fc596403b9d638783cf57adfe4c75c605f6356fbc91338530e9831e9e16", tx.ID)
	require.Equal(t, status{true, 170, "00000000d1145790a8694403d4063f323d499e655c83426834d4ce2f8dd4a2ee", 1231731025}, tx.Status)
	require.Equal(t, "0437cd7f8525ceed2324359c2d0ba26006d92d856a9c20fa0241106ee5a597c9:0", tx.Inputs[0].String())
	require.Equal(t, tx.Inputs[0].Script, tx.Outputs[1].Script)
	require.Equal(t, []int64{1_000_000_000, 4_000_000_000}, []int64{tx.Outputs[0].Value, tx.Outputs[1].Value})

	txs, err := decodeTransactions(strings.NewReader("[" + published + ",\n" + published + "]\n"))
	require.NoError(t, err)
	require.Len(t, txs, 2)
}

func TestTheNullInputOfACoinbaseIsRead(t *testing.T) {
	t.Parallel()
	_, err := decodeJSON[transaction](strings.NewReader(`{"txid":"` + strings.Repeat("a", 64) + `","vin":[{"txid":"` + strings.Repeat("0", 64) +
		`","vout":4294967295,"prevout":null,"is_coinbase":true}],"vout":[{"scriptpubkey":"","value":0}],"status":{"confirmed":false}}`))
	require.NoError(t, err)
}

// What every Esplora sends is required: a member that is left out, or null, is no zero.
func TestAMissingMemberIsNotZero(t *testing.T) {
	t.Parallel()
	hash := strings.Repeat("a", 64)
	half := `{"tx_count":1,"funded_txo_count":1,"spent_txo_count":0}`
	place := `{"confirmed":true,"block_height":0,"block_hash":"` + hash + `","block_time":0}`
	decoders := map[string]func(io.Reader) error{
		published:                             decoded(decodeJSON[transaction]),
		place:                                 decoded(decodeJSON[status]),
		`{"id":"` + hash + `","timestamp":0}`: decoded(decodeJSON[block]),
		`{"chain_stats":` + half + `,"mempool_stats":` + half + `}`:   decoded(decodeJSON[stats]),
		`{"spent":true,"txid":"` + hash + `","status":` + place + `}`: decoded(decodeJSON[spending]),
	}
	members := regexp.MustCompile(`"(txid|vin|vout|scriptpubkey|value|status|confirmed|block_height|block_hash|block_time|id|timestamp|` +
		`\w+_stats|\w+_count|spent)":`)
	for text, decode := range decoders {
		require.NoError(t, decode(strings.NewReader(text)))
		for _, at := range members.FindAllStringIndex(text, -1) {
			name := text[at[0]+1 : at[1]-2]
			left := text[:at[0]+1] + "other" + text[at[1]-2:]
			require.Equal(t, errMalformed, decode(strings.NewReader(left)), "%s in %s", name, text)
		}
	}
}

func decoded[T any](decode func(io.Reader) (T, error)) func(io.Reader) error {
	return func(r io.Reader) error {
		_, err := decode(r)
		return err
	}
}

func requireHash(t *testing.T, s string) {
	t.Helper()
	require.Len(t, s, 64)
	require.Equal(t, "", strings.Trim(s, "0123456789abcdef"))
}

func requireStatus(t *testing.T, s status) {
	t.Helper()
	if !s.Confirmed {
		require.Zero(t, s)
		return
	}
	requireHash(t, s.Block)
	require.True(t, s.Height >= 0 && s.Height <= maxHeight && s.Time >= 0 && s.Time <= maxTime)
}

func requireTransaction(t *testing.T, tx transaction) {
	t.Helper()
	requireHash(t, tx.ID)
	requireStatus(t, tx.Status)
	require.NotEmpty(t, tx.Inputs)
	require.NotEmpty(t, tx.Outputs)
	for _, in := range tx.Inputs {
		requireHash(t, in.Transaction)
		_, ok := parseOutpoint(in.String())
		require.True(t, ok)
	}
	for _, out := range tx.Outputs {
		require.True(t, out.Value >= 0 && out.Value <= maxSatoshis)
		require.True(t, validScript(out.Script))
	}
}

// FuzzDecode gives every decoder the same bytes: none panics, what one takes
// is within its bounds, and no error holds a word of the input.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		published, "[" + published + "]", "[]", "null", "{}", "", "170", "0", "-1", strings.Repeat("a", 64) + "\n",
		`{"id":"` + strings.Repeat("b", 64) + `","timestamp":1231731025}`,
		`{"address":"a","chain_stats":{"tx_count":1,"funded_txo_count":1,"spent_txo_count":0},"mempool_stats":{"tx_count":0,"funded_txo_count":0,"spent_txo_count":0}}`,
		`{"spent":true,"txid":"` + strings.Repeat("c", 64) + `","vin":0,"status":{"confirmed":false}}`, `{"spent":false}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		read := func() *bytes.Reader { return bytes.NewReader(body) }
		height, err1 := decodeHeight(read())
		if err1 == nil {
			require.Equal(t, strconv.FormatInt(height, 10), strings.TrimSpace(string(body)))
		}
		hash, err2 := decodeHash(read())
		if err2 == nil {
			requireHash(t, hash)
		}
		b, err3 := decodeJSON[block](read())
		if err3 == nil {
			requireHash(t, b.ID)
			require.True(t, b.Timestamp >= 0 && b.Timestamp <= maxTime)
		}
		s, err4 := decodeJSON[stats](read())
		if err4 == nil {
			require.True(t, s.Chain.Transactions >= 0 && s.Mempool.Transactions >= 0)
		}
		sp, err5 := decodeJSON[spending](read())
		if err5 == nil && sp.Spent {
			requireHash(t, sp.Transaction)
			requireStatus(t, sp.Status)
		}
		tx, err6 := decodeJSON[transaction](read())
		if err6 == nil {
			requireTransaction(t, tx)
		}
		txs, err7 := decodeTransactions(read())
		if err7 == nil {
			require.True(t, json.Valid(body))
			for _, tx := range txs {
				requireTransaction(t, tx)
			}
		}
		for _, err := range []error{err1, err2, err3, err4, err5, err6, err7} {
			require.True(t, err == nil || err == errMalformed)
		}
	})
}
