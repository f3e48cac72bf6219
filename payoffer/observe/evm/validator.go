package evm

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"math/big"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

//go:embed erc6492.hex
var validatorFile string

// validator is the creation code of the universal validator of ERC-6492, the last line of its file. Its constructor
// takes (address account, bytes32 hash, bytes signature) and returns one byte: 1 if the signature is valid. It can
// revert otherwise.
var validator = common.FromHex(strings.TrimSpace(validatorFile[strings.LastIndexByte(strings.TrimSpace(validatorFile), '\n'):]))

// Signed reports whether a signature of a hash is valid for an account: a contract (ERC-1271, EIP-7702), one not
// deployed yet (ERC-6492), or a key. It asks as Read does and changes no health, because the account's code decides
// how long a call takes. The error is an *observe.Error.
func (e *Observer) Signed(ctx context.Context, account string, hash, signature []byte) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	data := slices.Concat(validator, wordOf(common.HexToAddress(account)).Bytes(), hash,
		common.LeftPadBytes([]byte{3 * common.HashLength}, common.HashLength), // offset of the signature
		common.BigToHash(big.NewInt(int64(len(signature)))).Bytes(), signature,
		make([]byte, -len(signature)&(common.HashLength-1))) // padding to a word
	said, errs := each(e.checked(), func(n *endpoint) (bool, error) { return n.validates(ctx, data) })
	votes := map[bool]int{}
	for i, valid := range said {
		if errs[i] == nil {
			votes[valid]++
		}
	}
	for _, valid := range []bool{true, false} {
		if votes[valid] >= min(2, len(e.endpoints)) {
			return valid, nil
		}
	}
	return false, cmp.Or(cmp.Or(errs...), error(&observe.Error{Code: observe.ErrUnreachable, Host: e.hosts()}))
}

func (e *endpoint) validates(ctx context.Context, data []byte) (bool, error) {
	var answer hexutil.Bytes
	err := e.batch(ctx, member{"eth_call", []any{map[string]any{"data": hexutil.Bytes(data)}, Latest}, &answer})
	var refused rpcError
	if errors.As(err, &refused) && refused.asks == reverted {
		return false, nil
	}
	if err == nil && (len(answer) == 0 || len(answer) > common.HashLength) {
		err = e.bad()
	}
	return err == nil && common.BytesToHash(answer) == isTrue, err
}
