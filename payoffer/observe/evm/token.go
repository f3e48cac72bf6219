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

// Mismatch is a difference between a network and what an endpoint answers for.
type Mismatch struct {
	// What is "chain id", "token", "token name", "token version" or "token decimals".
	What       string
	Want, Have string
}

func (m *Mismatch) Error() string {
	return fmt.Sprintf("the %s is %s and not %s", m.What, m.Have, m.Want)
}

// CheckEndpoint asks a JSON-RPC endpoint whether it answers for a network and whether
// its USDC has the EIP-712 domain that payers sign for, and the decimals that amounts
// are in. The error is a *Mismatch, or an *observe.Error of an endpoint that does not
// answer, whose host alone it names.
func CheckEndpoint(ctx context.Context, address string, transport http.RoundTripper, network offer.Network) error {
	e, err := newEndpoint(address, transport, time.Now)
	if err != nil {
		return err
	}
	token := common.HexToAddress(network.USDC)
	var id *hexutil.Big
	var code hexutil.Bytes
	if err := e.call(ctx, &id, "eth_chainId"); err != nil {
		return err
	}
	if id == nil {
		return e.bad()
	}
	if have := id.ToInt().String(); have != fmt.Sprint(network.ChainID) {
		return &Mismatch{"chain id", fmt.Sprint(network.ChainID), have}
	}
	if err := e.call(ctx, &code, "eth_getCode", token, Latest); err != nil {
		return err
	}
	if len(code) == 0 {
		return &Mismatch{"token", network.USDC, "no contract"}
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
	places, err := e.contract(ctx, token, selector("decimals()"), string(Latest))
	if err == nil && places != common.BytesToHash([]byte{decimals}) {
		return &Mismatch{"token decimals", fmt.Sprint(decimals), places.Big().String()}
	}
	return err
}

// text calls a function that answers a string (Solidity ABI): the place of the string,
// its length, and itself.
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
