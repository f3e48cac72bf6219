package evm

import (
	"context"
	"math/big"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

const (
	// searchStep is how many blocks one look for a log covers.
	searchStep = 500
	// searchSlack is how far before an authorization was sent its
	// transaction is looked for, in seconds: clocks differ.
	searchSlack = 600
)

// Reasons of a definite no.
const (
	reasonCanceled  = "authorization_canceled"
	reasonElsewhere = "authorization_used_elsewhere"
	reasonExpired   = "authorization_expired"
)

// Prove reads a transaction and returns the Transfer that the authorization
// made in it. found is false when the transaction is not on the chain, failed,
// or holds no such Transfer.
func (e *Observer) Prove(ctx context.Context, key ledger.IntentKey, transaction string) (s ledger.Sighting, found bool, err error) {
	err = e.each(ctx, func(endpoint *endpoint) error {
		heads, err := e.heads(ctx, endpoint)
		if err != nil {
			return err
		}
		receipt, block, err := endpoint.canonical(ctx, transaction)
		if err != nil || receipt == nil || receipt.Status != types.ReceiptStatusSuccessful {
			return err
		}
		m, ok := e.used(receipt, key)
		if !ok {
			return nil
		}
		s, err = e.sighting(heads, receipt, block, m)
		found = err == nil
		return err
	})
	return s, found, err
}

// Find looks for the Transfer of an authorization in every block since a time,
// from the newest backwards.
func (e *Observer) Find(ctx context.Context, key ledger.IntentKey, since int64) (s ledger.Sighting, found bool, err error) {
	var transaction string
	err = e.each(ctx, func(endpoint *endpoint) error {
		logs, err := e.search(ctx, endpoint, key, topicUsed, since)
		if err != nil || len(logs) == 0 {
			return err
		}
		transaction = logs[len(logs)-1].TxHash.Hex()
		return nil
	})
	if err != nil || transaction == "" {
		return ledger.Sighting{}, false, err
	}
	return e.Prove(ctx, key, transaction)
}

// search filters one event of an authorization, block range by block range,
// back to a time.
func (e *Observer) search(ctx context.Context, endpoint *endpoint, key ledger.IntentKey, event common.Hash, since int64) ([]types.Log, error) {
	head, err := endpoint.head(ctx, Latest)
	if err != nil {
		return nil, err
	}
	for high := head.Number.Int64(); high >= 0; high -= searchStep {
		low := max(0, high-searchStep+1)
		logs, err := endpoint.client.FilterLogs(ctx, ethereum.FilterQuery{
			FromBlock: big.NewInt(low), ToBlock: big.NewInt(high), Addresses: []common.Address{e.token},
			Topics: [][]common.Hash{{event}, {common.BytesToHash(common.HexToAddress(key.From).Bytes())}, {hashOf(key.Nonce)}},
		})
		if err != nil {
			return nil, endpoint.fail(err)
		}
		if len(logs) > 0 {
			return logs, nil
		}
		block, err := endpoint.client.HeaderByNumber(ctx, big.NewInt(low))
		if err != nil {
			return nil, endpoint.fail(err)
		}
		if int64(block.Time) < since-searchSlack {
			return nil, nil
		}
	}
	return nil, nil
}

// Dead gives the reason why an authorization can never pay the rail any more,
// or "" while it can or may have. Only finalized blocks count: it was
// canceled, it paid somebody else, or its time ran out unused.
func (e *Observer) Dead(ctx context.Context, key ledger.IntentKey, validBefore int64) (reason string, err error) {
	err = e.each(ctx, func(endpoint *endpoint) error {
		final, err := endpoint.head(ctx, Finalized)
		if err != nil {
			return err
		}
		spent, err := e.spent(ctx, endpoint, key, final.Number)
		if err != nil {
			return err
		}
		if !spent {
			if int64(final.Time) > validBefore {
				reason = reasonExpired
			}
			return nil
		}
		reason, err = e.howSpent(ctx, endpoint, key, validBefore)
		return err
	})
	return reason, err
}

// howSpent tells a canceled authorization and one that paid somebody else from
// one that paid the rail.
func (e *Observer) howSpent(ctx context.Context, endpoint *endpoint, key ledger.IntentKey, validBefore int64) (string, error) {
	// An authorization is signed for minutes: its end bounds its beginning.
	since := validBefore - 2*3600
	logs, err := e.search(ctx, endpoint, key, topicCanceled, since)
	if err != nil {
		return "", err
	}
	if len(logs) > 0 {
		return reasonCanceled, nil
	}
	logs, err = e.search(ctx, endpoint, key, topicUsed, since)
	if err != nil || len(logs) == 0 {
		return "", err
	}
	receipt, _, err := endpoint.canonical(ctx, logs[len(logs)-1].TxHash.Hex())
	if err != nil || receipt == nil {
		return "", err
	}
	if _, ours := e.used(receipt, key); ours {
		return "", nil
	}
	return reasonElsewhere, nil
}

// spent reads the token's authorizationState at a block.
func (e *Observer) spent(ctx context.Context, endpoint *endpoint, key ledger.IntentKey, block *big.Int) (bool, error) {
	data, err := authorizationState.Pack("authorizationState", common.HexToAddress(key.From), [32]byte(hashOf(key.Nonce)))
	if err != nil {
		return false, err
	}
	result, err := endpoint.client.CallContract(ctx, ethereum.CallMsg{To: &e.token, Data: data}, block)
	if err != nil {
		return false, endpoint.fail(err)
	}
	values, err := authorizationState.Unpack("authorizationState", result)
	if err != nil {
		return false, &observe.Error{Code: observe.ErrBadAnswer, Host: endpoint.host}
	}
	spent, ok := values[0].(bool)
	if !ok {
		return false, &observe.Error{Code: observe.ErrBadAnswer, Host: endpoint.host}
	}
	return spent, nil
}

// authorizationState is the one function of EIP-3009 that is called here.
var authorizationState = abi.ABI{Methods: map[string]abi.Method{
	"authorizationState": abi.NewMethod("authorizationState", "authorizationState", abi.Function, "view", false, false,
		abi.Arguments{{Name: "authorizer", Type: mustType("address")}, {Name: "nonce", Type: mustType("bytes32")}},
		abi.Arguments{{Name: "used", Type: mustType("bool")}}),
}}

func mustType(name string) abi.Type {
	t, err := abi.NewType(name, "", nil)
	if err != nil {
		panic("observe: " + err.Error()) // the names above are Solidity's own
	}
	return t
}
