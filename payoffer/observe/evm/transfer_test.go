package evm

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const payee = "0x52908400098527886E0F7030069857D2E4169EE7"

// genuine is a Transfer of 42 USDC on Base Sepolia as an endpoint shows it.
const genuine = `{"address":"0x036cbd53842c5426634e7929541ec2318f3dcf7e","topics":[
	"0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef",
	"0x000000000000000000000000de709f2102306220921060314715629080e2fb77",
	"0x00000000000000000000000052908400098527886e0f7030069857d2e4169ee7"],
	"data":"0x000000000000000000000000000000000000000000000000000000000280de80","blockNumber":"0x10",
	"transactionHash":"0x1111111111111111111111111111111111111111111111111111111111111111","transactionIndex":"0x0",
	"blockHash":"0x2222222222222222222222222222222222222222222222222222222222222222","logIndex":"0x3","removed":false}`

func newTestObserver(t testing.TB, endpoints ...string) *Observer {
	t.Helper()
	network, err := offer.LookupNetwork("base-sepolia")
	require.NoError(t, err)
	usdc, err := offer.NewUSDC("usdc", network, payee, 42_00)
	require.NoError(t, err)
	e, err := New(Config{
		OfferID: "one", USDC: usdc, Endpoints: append(endpoints, "https://rpc.example/key"), Confirm: Safe,
		Now: func() time.Time { return time.Unix(1_800_000_000, 0) },
	})
	require.NoError(t, err)
	return e
}

// A member that is missing is no empty one: who leaves it out may leave out more.
func TestALogWithoutAMemberThatEveryLogHasIsMalformed(t *testing.T) {
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

func TestDustAndAbsurdAmountsAreNoMoney(t *testing.T) {
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
		require.Equal(t, worth, len(e.movements(&receipt{Logs: []log{l}})) == 1, amount)
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
		if decode([]byte(`{"result":{"status":"0x1","logs":[`+string(text)+`]}}`), &r) != nil {
			return
		}
		for _, m := range e.movements(&r) {
			l := r.Logs[m.ordinal]
			require.False(t, l.Removed)
			require.True(t, strings.EqualFold("0x036cbd53842c5426634e7929541ec2318f3dcf7e", l.Address.Hex()))
			require.Equal(t, "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef", l.Topics[0].Hex())
			require.Equal(t, "0x"+strings.Repeat("0", 24)+strings.ToLower(payee[2:]), l.Topics[2].Hex())
			require.Equal(t, "0x"+strings.Repeat("0", 24)+strings.ToLower(m.other.Hex()[2:]), l.Topics[1].Hex())
			require.Equal(t, []byte(l.Data), common.BigToHash(big.NewInt(m.amount)).Bytes())
			require.GreaterOrEqual(t, m.amount, int64(10_000))
			require.LessOrEqual(t, m.amount, int64(1)<<62)
		}
	})
}
