package evm

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

const (
	// readWithin bounds a reading, because a payer waits for it.
	readWithin = 2 * time.Second
	// readGas bounds one call. Circle's token needs 35,000 behind its proxy, more on some chains.
	readGas = 200_000
	// absurdBlock is more than any block's number and time.
	absurdBlock = 1 << 53
)

// statement is what one endpoint answers about an authorization.
type statement struct {
	used  bool
	funds int64
	head  block
}

// Read asks all checked and awaited endpoints about an authorization, within 2 s in total, without changing any
// health. It is used if one endpoint says so, and unused if enough do. The error is an *observe.Error.
func (e *Observer) Read(ctx context.Context, key ledger.IntentKey) (ledger.Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	e.mu.Lock()
	err := e.history
	e.mu.Unlock()
	if err != nil {
		return ledger.Reading{}, err
	}
	checked := e.checked()
	found, errs := each(checked, func(n *endpoint) (statement, error) { return e.state(ctx, n, key) })
	var said, used []statement
	for i, s := range found {
		if errs[i] == nil {
			said = append(said, s)
			if s.used {
				used = append(used, s)
			}
		}
	}
	need := e.chain.need()
	if len(used) == 0 && len(said) < need {
		return ledger.Reading{}, cmp.Or(cmp.Or(errs...), error(&observe.Error{Code: observe.ErrUnreachable, Host: e.hosts()}))
	}
	r := ledger.Reading{
		Used:  len(used) > 0,
		Block: reached(said, need, func(s statement) uint64 { return uint64(s.head.Number) }),
		Time:  reached(said, need, func(s statement) int64 { return int64(s.head.Time) }),
	}
	if len(said) >= need {
		r.Funds = reached(said, need, func(s statement) int64 { return s.funds })
	}
	if r.Used {
		r.Block = e.usedBy(ctx, checked, need, key, used)
	}
	return r, nil
}

// checked returns the endpoints that serve the chain, did not fail last and are awaited.
func (e *Observer) checked() []*endpoint {
	return slices.DeleteFunc(slices.Clone(e.endpoints), func(n *endpoint) bool {
		checked, awaited := n.status()
		return !checked || !awaited
	})
}

// usedBy returns the block that must be covered before the receipts decide on a used authorization. A payer who is
// refused must not have paid. So it is the covered block only if enough endpoints show the use there, and otherwise
// the highest one shown, which the next cycles cover. With too few endpoints no block is high enough.
func (e *Observer) usedBy(ctx context.Context, checked []*endpoint, need int, key ledger.IntentKey, used []statement) uint64 {
	e.mu.Lock()
	upTo := e.upTo
	e.mu.Unlock()
	if upTo != nil {
		// By hash (EIP-1898), because another branch has the same number.
		at := map[string]any{"blockHash": upTo.Hash, "requireCanonical": true}
		shown, _ := each(checked, func(n *endpoint) (bool, error) {
			var answer common.Hash
			err := n.batch(ctx, e.asks(&answer, at, authorizationState(key)))
			return err == nil && answer == isTrue, err
		})
		if len(slices.DeleteFunc(shown, func(used bool) bool { return !used })) >= need {
			return uint64(upTo.Number)
		}
	}
	if len(used) < need {
		return math.MaxUint64
	}
	next := reached(used, 1, func(s statement) uint64 { return uint64(s.head.Number) })
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, b := range []*block{e.upTo, e.seen} {
		if b != nil {
			next = max(next, uint64(b.Number)+1)
		}
	}
	return next
}

// state asks one endpoint. The head is read first, so that an unused authorization was unused in it.
func (e *Observer) state(ctx context.Context, n *endpoint, key ledger.IntentKey) (s statement, err error) {
	var used, funds common.Hash
	err = n.batch(ctx,
		member{"eth_getBlockByNumber", []any{Latest, false}, &s.head},
		e.asks(&used, Latest, authorizationState(key)),
		e.asks(&funds, Latest, slices.Concat(selector("balanceOf(address)"), wordOf(common.HexToAddress(key.From)).Bytes())),
	)
	if err == nil && (s.head.Hash == (common.Hash{}) || max(s.head.Number, s.head.Time) >= absurdBlock || used != isTrue && used != common.Hash{}) {
		err = n.bad()
	}
	s.used, s.funds = used == isTrue, math.MaxInt64
	if value := funds.Big(); value.IsInt64() {
		s.funds = value.Int64()
	}
	return s, err
}

// asks is a call of the token that returns one word.
func (e *Observer) asks(answer *common.Hash, at any, data []byte) member {
	return member{"eth_call", []any{
		map[string]any{"to": e.token, "data": hexutil.Bytes(data), "gas": hexutil.Uint64(readGas)}, at,
	}, answer}
}

// reached returns the highest value that at least need statements reach.
func reached[V cmp.Ordered](said []statement, need int, of func(statement) V) V {
	var values []V
	for _, s := range said {
		values = append(values, of(s))
	}
	slices.Sort(values)
	return values[max(len(values)-need, 0)]
}

// Covered returns the completeness watermark: the ledger has all Transfers, with their nonces, of blocks made since
// (Unix seconds) up to through. Both are 0 while unknown. A block is covered only after a second cycle has read it,
// because an endpoint's servers can lag for seconds.
func (e *Observer) Covered() (since int64, through uint64) {
	since, upTo := e.watermark()
	if since == 0 || upTo == nil {
		return 0, 0
	}
	return since, uint64(upTo.Number)
}

func (e *Observer) watermark() (since int64, upTo *block) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.since, e.upTo
}

// startWatermark stores the head that the cycle reads, and in the first cycle also the start of the watermark.
func (p *cycle) startWatermark(ctx context.Context) {
	p.head = p.view.blockAt(ctx, p.view.head)
	if p.since != 0 {
		return
	}
	if b := p.view.blockAt(ctx, p.covered); b != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.since = int64(b.Time) + 1
	}
}

// resetWatermark must run before receipts are dropped, because the chain can return to their branch.
func (e *Observer) resetWatermark() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.upTo, e.seen = nil, nil
}
