package evm

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Mismatch is a difference between a network and an endpoint.
type Mismatch struct {
	// What is "chain id", "token" or "token decimals".
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

// CheckEndpoint checks that a JSON-RPC endpoint serves a network with its USDC. The error is a *Mismatch or an
// *observe.Error.
func CheckEndpoint(ctx context.Context, address string, transport http.RoundTripper, network offer.Network) error {
	e, err := newEndpoint(address, transport, time.Now)
	if err != nil {
		return err
	}
	return e.check(ctx, network.ChainID, common.HexToAddress(network.USDC))
}
