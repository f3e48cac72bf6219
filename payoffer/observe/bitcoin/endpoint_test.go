package bitcoin

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// answer is a fault that answers every path that holds part so.
func answer(part string, status int, body string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, part) {
			return false
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		return true
	}
}

// Whatever one endpoint of a host does, the other one is asked, and nothing of
// the first one's responses is believed.
func TestFailedEndpointIsReplaced(t *testing.T) {
	t.Parallel()
	id, block := hashOf("p"), hashOf("b")
	tx := func(status, value, script string) string {
		return `[{"txid":"` + id + `","vin":[{"txid":"` + block + `","vout":0}],"vout":[{"scriptpubkey":"` + script + `","value":` + value + `}],"status":` + status + `}]`
	}
	ours, confirmed := scriptOf(single), `{"confirmed":true,"block_height":100,"block_hash":"`+block+`","block_time":1}`
	for name, wrong := range map[string]struct {
		fault func(http.ResponseWriter, *http.Request) bool
		code  string
	}{
		"refuses":                     {answer("", 429, ""), observe.ErrLimited},
		"wants a key":                 {answer("", 401, ""), observe.ErrUnauthorized},
		"is broken":                   {answer("", 502, "<html>"), observe.ErrUnreachable},
		"knows nothing":               {answer("", 404, ""), observe.ErrBadAnswer},
		"sends elsewhere":             {answer("", 302, ""), observe.ErrBadAnswer},
		"serves another network":      {answer("/block-height/0", 200, strings.Repeat("0", 64)), observe.ErrWrongChain},
		"a web page":                  {answer("/blocks/tip/hash", 200, "<html>100</html>"), observe.ErrBadAnswer},
		"a negative height":           {answer("/blocks/tip/hash", 200, "-1"), observe.ErrBadAnswer},
		"a height beyond every chain": {answer("/blocks/tip/hash", 200, "9999999999"), observe.ErrBadAnswer},
		"an endless height":           {answer("/blocks/tip/hash", 200, strings.Repeat("1", maxText+9)), observe.ErrBadAnswer},
		"an upper-case hash":          {answer("/block-height/101", 200, strings.Repeat("A", 64)), observe.ErrBadAnswer},
		"another block":               {answer("/block/", 200, `{"id":"`+id+`","timestamp":1}`), observe.ErrBadAnswer},
		"truncated":                   {answer("/txs/chain", 200, tx(confirmed, "10", ours)[:150]), observe.ErrBadAnswer},
		"a list that is not closed":   {answer("/txs/chain", 200, strings.TrimSuffix(tx(confirmed, "10", ours), "]")), observe.ErrBadAnswer},
		"something after the list":    {answer("/txs/chain", 200, tx(confirmed, "10", ours)+"[]"), observe.ErrBadAnswer},
		"an object for a list":        {answer("/txs/chain", 200, `{}`), observe.ErrBadAnswer},
		"a negative value":            {answer("/txs/chain", 200, tx(confirmed, "-1", ours)), observe.ErrBadAnswer},
		"more than all bitcoin":       {answer("/txs/chain", 200, tx(confirmed, "2100000000000001", ours)), observe.ErrBadAnswer},
		"a script that is no hex":     {answer("/txs/chain", 200, tx(confirmed, "1", "zz")), observe.ErrBadAnswer},
		"unconfirmed in the chain":    {answer("/txs/chain", 200, tx(`{"confirmed":false}`, "1", ours)), observe.ErrBadAnswer},
		"a block off the chain": {func(w http.ResponseWriter, r *http.Request) bool {
			return answer("/txs/chain/", 200, "[]")(w, r) || answer("/txs/chain", 200, tx(confirmed, "1", ours))(w, r)
		}, observe.ErrBadAnswer},
		"hangs up": {func(w http.ResponseWriter, _ *http.Request) bool {
			panic(http.ErrAbortHandler)
		}, observe.ErrUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, single)
			sick, well := newFakeIndex(t, 100), newFakeIndex(t, 100)
			b.round(b.observer(well))
			for _, chain := range []*fakeIndex{sick, well} {
				chain.bury(1, pay("real", single, 1000))
			}
			sick.setFault(wrong.fault)
			o := b.observer(sick, well)
			b.round(o)
			require.Equal(t, ledger.StatusConfirmed, b.row("real").Status)
			require.Equal(t, int64(1000), b.row("real").Amount)

			alone := b.observer(sick)
			err := alone.Poll(t.Context())
			require.EqualError(t, err, wrong.code+" (127.0.0.1)")
			require.True(t, alone.Health().Blind)
			require.Equal(t, wrong.code, alone.Health().LastError)
			require.Equal(t, ledger.StatusConfirmed, b.row("real").Status)

			sick.setFault(nil)
			b.clock.Pass(maxPause)
			b.round(alone)
			require.Empty(t, alone.Health().LastError)
		})
	}
}

func TestFailedEndpointBackoff(t *testing.T) {
	t.Parallel()
	b, sick, well := newBench(t, single), newFakeIndex(t, 100), newFakeIndex(t, 100)
	o := b.observer(sick, well)
	sick.setFault(answer("", 503, ""))
	b.round(o)
	require.Len(t, sick.called(), 1)
	rounds, asked := 40, 0
	for range rounds {
		b.round(o)
		asked += len(sick.called())
	}
	require.Greater(t, asked, 1, "it may be well again")
	require.Less(t, asked, 10, "longer pauses each time")

	sick.setFault(nil)
	b.clock.Pass(maxPause)
	b.round(o)
	sick.called()
	b.round(o)
	require.NotEmpty(t, sick.called(), "it is asked in each round again")
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

func TestEndpointErrorNamesOnlyHost(t *testing.T) {
	t.Parallel()
	b := newBench(t, single)
	o, err := New(Config{
		OfferID: testOffer, Rail: b.rail, Endpoints: []string{"https://e.example/secret-path?key=secret"}, Confirmations: 1,
		Ledger: b.db, Now: b.clock.Now, Rate: b.observer(newFakeIndex(t, 1)).config.Rate, Logger: slog.New(slog.DiscardHandler),
		Transport: transport(func(r *http.Request) (*http.Response, error) {
			require.Equal(t, "https://e.example/secret-path/block-height/0?key=secret", r.URL.String())
			return nil, errors.New("dial secret: " + r.URL.String())
		}),
	})
	require.NoError(t, err)
	require.EqualError(t, o.Poll(t.Context()), "unreachable (e.example)")
}

func TestLaggingEndpointChangesNothing(t *testing.T) {
	t.Parallel()
	b, fast, slow := newBench(t, single), newFakeIndex(t, 100), newFakeIndex(t, 100)
	tx := pay("p", single, 1000)
	b.round(b.observer(fast))
	fast.mine(tx)
	fast.mine()
	b.round(b.observer(fast))
	slow.setPool(tx)
	o := b.observer(slow)
	require.EqualError(t, o.Poll(t.Context()), "lagging (127.0.0.1)")
	b.requireState("p", ledger.StatusConfirmed)
	slow.mine(tx)
	slow.mine()
	b.round(o)
}

func TestClosedLedgerLosesNothing(t *testing.T) {
	b, chain, o := observedBeside(t, single)
	chain.bury(1, pay("p", single, 1000))
	require.NoError(t, b.db.Close())
	require.EqualError(t, o.Poll(t.Context()), "ledger_unavailable (ledger)")
	require.Equal(t, observe.ErrLedger, o.Health().LastError)
	require.NoError(t, b.db.Open(t.Context()))
	b.becomes(o, "p", ledger.StatusConfirmed)
}

func TestRunEndsDuringCycle(t *testing.T) {
	t.Parallel()
	b, chain := newBench(t, single), newFakeIndex(t, 100)
	o := b.observer(chain)
	ctx, cancel := context.WithCancel(t.Context())
	chain.setFault(func(http.ResponseWriter, *http.Request) bool {
		cancel()
		return false
	})
	o.Run(ctx)
	require.Empty(t, o.Health().LastError, "a stop is no failure of the index")
}

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

func TestDecodeTransaction(t *testing.T) {
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

func TestDecodeCoinbaseTransaction(t *testing.T) {
	t.Parallel()
	_, err := decodeJSON[transaction](strings.NewReader(`{"txid":"` + strings.Repeat("a", 64) + `","vin":[{"txid":"` + strings.Repeat("0", 64) +
		`","vout":4294967295,"prevout":null,"is_coinbase":true}],"vout":[{"scriptpubkey":"","value":0}],"status":{"confirmed":false}}`))
	require.NoError(t, err)
}

// What every Esplora sends is required: a member that is left out, or null, is no zero.
func TestDecodeMissingMemberErrors(t *testing.T) {
	t.Parallel()
	hash := strings.Repeat("a", 64)
	half := `{"tx_count":1}`
	place := `{"confirmed":true,"block_height":0,"block_hash":"` + hash + `","block_time":0}`
	decoders := map[string]func(io.Reader) error{
		published: decoded(decodeJSON[transaction]),
		place:     decoded(decodeJSON[status]),
		`{"id":"` + hash + `","height":0,"timestamp":0}`:            decoded(decodeJSON[block]),
		`{"chain_stats":` + half + `,"mempool_stats":` + half + `}`: decoded(decodeJSON[stats]),
	}
	members := regexp.MustCompile(`"(txid|vin|vout|prevout|scriptpubkey|value|status|confirmed|block_height|block_hash|block_time|id|height|timestamp|` +
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
		_, err := hex.DecodeString(out.Script)
		require.NoError(t, err)
	}
}

// FuzzDecode gives every decoder the same bytes: none panics, what one takes
// is within its bounds, and no error holds a word of the input.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		published, "[" + published + "]", "[]", "null", "{}", "", "170", "0", "-1", strings.Repeat("a", 64) + "\n",
		`{"id":"` + strings.Repeat("b", 64) + `","height":170,"timestamp":1231731025,"mediantime":1231731025}`,
		`{"address":"a","chain_stats":{"tx_count":1,"funded_txo_count":1,"spent_txo_count":0},"mempool_stats":{"tx_count":0,"funded_txo_count":0,"spent_txo_count":0}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		read := func() *bytes.Reader { return bytes.NewReader(body) }
		hash, err2 := decodeHash(read())
		if err2 == nil {
			requireHash(t, hash)
		}
		b, err3 := decodeJSON[block](read())
		if err3 == nil {
			requireHash(t, b.ID)
			require.True(t, within(b.Height, maxHeight) && within(b.Time, maxTime))
		}
		s, err4 := decodeJSON[stats](read())
		if err4 == nil {
			require.True(t, s.chain >= 0 && s.mempool >= 0)
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
		for _, err := range []error{err2, err3, err4, err6, err7} {
			require.True(t, err == nil || err == errMalformed)
		}
	})
}
