package evm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Mismatch is a difference between a network and an endpoint.
type Mismatch struct {
	// What is "chain id", "token", "token name", "token version" or "token decimals".
	What       string
	Want, Have string
}

func (m *Mismatch) Error() string {
	return fmt.Sprintf("the %s is %s and not %s", m.What, m.Have, m.Want)
}

// decimals are those of USDC on every known network.
const decimals = 6

// check requires a chain id and a contract with six decimals. The error is a *Mismatch or an *observe.Error.
func (e *endpoint) check(ctx context.Context, chainID int64, token common.Address) error {
	var id *hexutil.Big
	var code hexutil.Bytes
	if err := e.call(ctx, &id, "eth_chainId", []any{}...); err != nil {
		return err
	}
	if id == nil {
		return e.bad()
	}
	if have := id.ToInt().String(); have != fmt.Sprint(chainID) {
		return &Mismatch{"chain id", fmt.Sprint(chainID), have}
	}
	if err := e.call(ctx, &code, "eth_getCode", token, Latest); err != nil {
		return err
	}
	if len(code) == 0 {
		return &Mismatch{"token", token.Hex(), "no contract"}
	}
	answer, err := e.contract(ctx, token, selector("decimals()"), string(Latest))
	if err == nil && answer != common.BytesToHash([]byte{decimals}) {
		return &Mismatch{"token decimals", fmt.Sprint(decimals), answer.Big().String()}
	}
	return err
}

// CheckEndpoint checks that a JSON-RPC endpoint serves a network, and that its USDC has the decimals and the EIP-712
// domain that payers sign for. The error is a *Mismatch or an *observe.Error.
func CheckEndpoint(ctx context.Context, address string, transport http.RoundTripper, network offer.Network) error {
	e, err := newEndpoint(address, transport, time.Now)
	if err != nil {
		return err
	}
	token := common.HexToAddress(network.USDC)
	if err := e.check(ctx, network.ChainID, token); err != nil {
		return err
	}
	for _, text := range []struct{ what, function, want string }{
		{"token name", "name()", network.TokenName}, {"token version", "version()", network.TokenVersion},
	} {
		have, err := e.text(ctx, token, selector(text.function))
		if refused := (rpcError{}); errors.As(err, &refused) && (refused.asks == nothing || refused.asks == reverted) {
			return &Mismatch{text.what, fmt.Sprintf("%q", text.want), "refused by the contract"}
		}
		if err != nil {
			return err
		}
		if have != text.want {
			return &Mismatch{text.what, fmt.Sprintf("%q", text.want), fmt.Sprintf("%.40q", have)}
		}
	}
	return nil
}

// text calls a function that returns a string (Solidity ABI): its offset, its length, and itself.
func (e *endpoint) text(ctx context.Context, to common.Address, data []byte) (string, error) {
	var answer hexutil.Bytes
	if err := e.call(ctx, &answer, "eth_call", map[string]any{"to": to, "data": hexutil.Bytes(data)}, Latest); err != nil {
		return "", err
	}
	const word = common.HashLength
	if len(answer) < 2*word || answer[:word].String() != common.BigToHash(common.Big32).Hex() {
		return "", e.bad()
	}
	size := common.BytesToHash(answer[word : 2*word]).Big()
	if !size.IsInt64() || size.Int64() > int64(len(answer)-2*word) {
		return "", e.bad()
	}
	return strings.ToValidUTF8(string(answer[2*word:2*word+int(size.Int64())]), "?"), nil
}
