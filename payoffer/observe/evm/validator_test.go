package evm

import (
	"encoding/json"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/require"
)

func TestASignatureIsValidWhereEnoughEndpointsSaySo(t *testing.T) {
	t.Parallel()
	yes, no, reverts := any("0x01"), any("0x00"), any(fault{code: 3, words: "execution reverted: rate limit of this range"})
	for _, c := range []struct {
		name    string
		answers []any
		want    bool
		fails   bool
	}{
		{"one says yes", []any{yes}, true, false},
		{"one says yes in a whole word", []any{common.BytesToHash([]byte{1}).Hex()}, true, false},
		{"one says no", []any{no}, false, false},
		{"the contract reverts", []any{reverts}, false, false},
		{"it reverts in other words", []any{fault{code: -32015, words: "VM execution error: Reverted 0x"}}, false, false},
		{"it fails otherwise", []any{fault{code: -32000, words: "out of gas"}}, false, true},
		{"nothing is answered", []any{"0x"}, false, true},
		{"too much is answered", []any{hexutil.Encode(make([]byte, 33))}, false, true},
		{"another number", []any{"0x02"}, false, false},
		{"two say yes", []any{yes, yes}, true, false},
		{"two say no", []any{no, reverts}, false, false},
		{"one of two lies", []any{yes, no}, false, true},
		{"one of two is silent", []any{yes, fault{status: 500}}, false, true},
		{"one of three lies", []any{yes, no, yes}, true, false},
		{"one of three lies the other way", []any{yes, no, reverts}, false, false},
		{"one of three is silent", []any{yes, fault{status: 500}, yes}, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openReadBeside(t, len(c.answers))
			s.settle()
			before, calls := s.Health(), make([]int, len(s.nodes))
			for i, n := range s.nodes {
				calls[i] = n.count("eth_call")
				n.answer("eth_call", c.answers[i])
			}
			for range 2 * backoffAfter {
				valid, err := s.Signed(t.Context(), payer.Hex(), make([]byte, 32), []byte("signed"))
				require.Equal(t, c.fails, err != nil, "%v", err)
				require.Equal(t, c.want, valid)
			}
			require.Equal(t, before, s.Health(), "the payer's code decides what its call does")
			for i, e := range s.endpoints {
				checked, _ := e.status()
				require.True(t, checked)
				require.Equal(t, 2*backoffAfter, s.nodes[i].count("eth_call")-calls[i], "an endpoint is not paused")
			}
		})
	}
}

// The call creates the validator with the account, the hash and the signature, each in its place.
func TestTheValidatorGetsTheSignature(t *testing.T) {
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
