package evm

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

func TestSignedAsksOneEndpoint(t *testing.T) {
	t.Parallel()
	yes, no, reverts := any("0x01"), any("0x00"), any(fault{code: 3, words: "execution reverted: rate limit of this range"})
	for _, c := range []struct {
		name    string
		answers []any
		want    bool
		fails   bool
	}{
		{"yes", []any{yes}, true, false},
		{"yes in a whole word", []any{common.BytesToHash([]byte{1}).Hex()}, true, false},
		{"no", []any{no}, false, false},
		{"the contract reverts", []any{reverts}, false, false},
		{"it reverts in other words", []any{fault{code: -32015, words: "VM execution error: Reverted 0x"}}, false, false},
		{"it fails otherwise", []any{fault{code: -32000, words: "out of gas"}}, false, true},
		{"nothing is answered", []any{"0x"}, false, true},
		{"too much is answered", []any{hexutil.Encode(make([]byte, 33))}, false, true},
		{"another number", []any{"0x02"}, false, false},
		{"the first one answers", []any{no, yes}, false, false},
		{"the first one is silent", []any{fault{status: 500}, yes}, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openReadBeside(t, len(c.answers))
			s.settle()
			before := s.Health()
			for i, n := range s.nodes {
				n.answer("eth_call", c.answers[i])
			}
			for range 2 * backoffAfter {
				valid, err := s.Signed(t.Context(), payer.Hex(), make([]byte, 32), []byte("signed"))
				require.Equal(t, c.fails, err != nil, "%v", err)
				require.Equal(t, c.want, valid)
			}
			require.Equal(t, before, s.Health(), "the payer's code decides what its call does")
			for _, e := range s.Observer.chain.endpoints {
				require.Zero(t, e.failures, "an endpoint is not paused")
				require.True(t, e.checked)
			}
		})
	}
}

// The call creates the validator with the account, the hash and the signature, each in its place.
func TestSignedCallsValidatorContract(t *testing.T) {
	s := openReadBeside(t, 1)
	s.settle()
	var got []byte
	s.nodes[0].on("eth_call", func(c call, _ func() any) any {
		var asked struct {
			To   *common.Address
			Data hexutil.Bytes
		}
		require.NoError(t, json.Unmarshal(c.Params[0], &asked))
		require.Nil(t, asked.To)
		got = asked.Data
		return "0x01"
	})
	_, err := s.Signed(t.Context(), "0x00000000000000000000000000000000000A11ce", common.HexToHash("0x4242").Bytes(), []byte{7, 8, 9})
	require.NoError(t, err)
	require.Len(t, validator, 1684)
	require.Equal(t, validator, got[:len(validator)])
	require.Equal(t, "0x"+
		"00000000000000000000000000000000000000000000000000000000000a11ce"+
		"0000000000000000000000000000000000000000000000000000000000004242"+
		"0000000000000000000000000000000000000000000000000000000000000060"+
		"0000000000000000000000000000000000000000000000000000000000000003"+
		"0708090000000000000000000000000000000000000000000000000000000000", hexutil.Encode(got[len(validator):]))
}

const payee = "0x52908400098527886E0F7030069857D2E4169EE7"

// genuine is a Transfer of 42 USDC on Base Sepolia as an endpoint shows it.
const genuine = `{"address":"0x036cbd53842c5426634e7929541ec2318f3dcf7e","topics":[
	"0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef",
	"0x000000000000000000000000de709f2102306220921060314715629080e2fb77",
	"0x00000000000000000000000052908400098527886e0f7030069857d2e4169ee7"],
	"data":"0x000000000000000000000000000000000000000000000000000000000280de80","blockNumber":"0x10",
	"transactionHash":"0x1111111111111111111111111111111111111111111111111111111111111111","transactionIndex":"0x0",
	"blockHash":"0x2222222222222222222222222222222222222222222222222222222222222222","logIndex":"0x3","removed":false}`

func newTestObserver(t testing.TB) *Observer {
	t.Helper()
	network, err := offer.LookupNetwork("base-sepolia")
	require.NoError(t, err)
	usdc, err := offer.NewUSDC("usdc", network, payee, 42_00)
	require.NoError(t, err)
	e, err := New(Config{
		OfferID: "one", USDC: usdc, Confirm: Safe,
		ChainConfig: ChainConfig{Endpoints: []string{"https://rpc.example/key"}, Now: func() time.Time { return time.Unix(1_800_000_000, 0) }},
	})
	require.NoError(t, err)
	return e
}

// worthy are the Transfers that become receipts.
func worthy(t transfer) bool { return t.to == payTo && t.amount >= dust }

// A member that is missing is no empty one: who leaves it out may leave out more.
func TestLogMissingMemberIsMalformed(t *testing.T) {
	for _, member := range []string{"address", "topics", "data", "transactionHash"} {
		for _, instead := range []string{`"other":`, `"` + member + `":null,"other":`} {
			var l log
			require.Error(t, json.Unmarshal([]byte(strings.Replace(genuine, `"`+member+`":`, instead, 1)), &l), instead)
		}
	}
	for name, text := range map[string]string{
		"none":                "null",
		"no number":           strings.Replace(genuine, `"0x10"`, `"16"`, 1),
		"a number with zeros": strings.Replace(genuine, `"0x10"`, `"0x010"`, 1),
		"half a byte":         strings.Replace(genuine, "0280de80", "0280de8", 1),
		"a short topic":       strings.Replace(genuine, "ddf252ad", "ddf252", 1),
	} {
		var l log
		require.Error(t, json.Unmarshal([]byte(text), &l), name)
	}
}

func TestDustAndAbsurdAmountsAreIgnored(t *testing.T) {
	e := newTestObserver(t)
	for amount, worth := range map[string]bool{
		"0": false, "1": false, "9999": false, "10000": true, "4611686018427387904": true, "4611686018427387905": false,
		"9223372036854775808": false, "115792089237316195423570985008687907853269984665640564039457584007913129639935": false,
	} {
		var l log
		require.NoError(t, json.Unmarshal([]byte(genuine), &l))
		value, ok := new(big.Int).SetString(amount, 10)
		require.True(t, ok)
		l.Data = common.BigToHash(value).Bytes()
		require.Equal(t, worth, len(e.chain.transfersOf(&placed{&receipt{Status: 1, Logs: []log{l}}, new(block)}, worthy)) == 1, amount)
	}
}

// FuzzTransfer decodes logs as endpoints answer them. Whatever is taken for money is a Transfer of the token to the
// rail, of what its data says.
func FuzzTransfer(f *testing.F) {
	f.Add([]byte(genuine))
	for _, change := range [][2]string{
		{"0x036cbd53", "0x036cbd54"}, {"0xddf252ad", "0xddf252ae"}, {"52908400", "52908401"},
		{`"removed":false`, `"removed":true`},
		{"0x00000000000000000000000052908400", "0x01000000000000000000000052908400"},
		{"0x000000000000000000000000de709f21", "0x010000000000000000000000de709f21"},
		{"0280de80", "0280de8000"}, {"0280de80", "0000270f"},
		{"0x000000000000000000000000000000000000000000000000000000000280de80", "0x"},
		{`"0x000000000000000000000000de709f2102306220921060314715629080e2fb77",`, ""},
	} {
		require.Contains(f, genuine, change[0])
		f.Add([]byte(strings.Replace(genuine, change[0], change[1], 1)))
	}
	f.Add([]byte(`{"address":null,"topics":null,"data":null}`))
	f.Add([]byte("null"))
	e := newTestObserver(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		var r receipt
		if json.Unmarshal([]byte(`{"status":"0x1","logs":[`+string(text)+`]}`), &r) != nil {
			return
		}
		for _, m := range e.chain.transfersOf(&placed{&r, new(block)}, worthy) {
			l := r.Logs[m.ordinal]
			require.False(t, l.Removed)
			require.True(t, strings.EqualFold("0x036cbd53842c5426634e7929541ec2318f3dcf7e", l.Address.Hex()))
			require.Equal(t, "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef", l.Topics[0].Hex())
			require.Equal(t, "0x"+strings.Repeat("0", 24)+strings.ToLower(payee[2:]), l.Topics[2].Hex())
			require.Equal(t, "0x"+strings.Repeat("0", 24)+strings.ToLower(m.from.Hex()[2:]), l.Topics[1].Hex())
			require.Equal(t, []byte(l.Data), common.BigToHash(big.NewInt(m.amount)).Bytes())
			require.GreaterOrEqual(t, m.amount, int64(10_000))
			require.LessOrEqual(t, m.amount, int64(1)<<62)
		}
	})
}

func TestCheckEndpointMismatch(t *testing.T) {
	s := open(t, 1)
	for want, lie := range map[string][2]string{
		"":                                 {"eth_chainId", "0x14a34"},
		"the chain id is 1 and not 84532":  {"eth_chainId", "0x1"},
		"the token is no contract and not": {"eth_getCode", "0x"},
		"the token decimals is 18 and not": {"eth_call", "0x" + strings.Repeat("0", 62) + "12"},
	} {
		s.nodes[0].honest()
		s.nodes[0].answer(lie[0], lie[1])
		err := CheckEndpoint(t.Context(), s.nodes[0].url(), s.nodes, s.config.USDC.Network)
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
}
