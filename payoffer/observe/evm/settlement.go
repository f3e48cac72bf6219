package evm

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"math"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

const (
	searchStep      = 500      // blocks in one query for a log
	searchSlack     = 600      // seconds before an authorization was sent, because clocks differ
	longestValidity = 2 * 3600 // of an authorization, in seconds

	// Reasons why an authorization can no longer pay.
	reasonCanceled  = "authorization_canceled"
	reasonElsewhere = "authorization_used_elsewhere"
	reasonExpired   = "authorization_expired"

	// readWithin bounds a reading, because a payer waits for it, and askWithin one endpoint's part.
	readWithin = 2 * time.Second
	askWithin  = time.Second
	readGas    = 200_000 // of one call; Circle's token needs 35,000 behind its proxy, more on some chains
	// absurdBlock is more than any block's number and time.
	absurdBlock = 1 << 53
)

// decide opens the reader and the live witness for a decision. An error says that one of them cannot be read.
func (o *Observer) decide(ctx context.Context) (*sources, error) {
	o.mu.Lock()
	err, anchors := o.history, o.anchors
	o.mu.Unlock()
	s := &sources{Chain: o.chain, anchors: anchors}
	if err == nil {
		err = s.choose(ctx)
	}
	if err == nil && s.waiting {
		err = s.problem
	}
	return s, err
}

// Prove reads a transaction and returns the authorization's Transfer in it. found is false if it is not on the chain,
// failed or has no such Transfer, or if the reader and the witness do not show the same.
func (o *Observer) Prove(ctx context.Context, key ledger.IntentKey, transaction string) (s ledger.Observation, found bool, err error) {
	both, err := o.decide(ctx)
	if err == nil {
		s, found, err = o.prove(ctx, both, key, common.HexToHash(transaction))
	}
	return s, found, err
}

func (o *Observer) prove(ctx context.Context, s *sources, key ledger.IntentKey, transaction common.Hash) (ledger.Observation, bool, error) {
	shown, errs := each(s.readings, func(r *reading) ([]transfer, error) {
		p, err := r.canonical(ctx, transaction, common.Hash{})
		return o.used(p, key), err
	})
	if err := cmp.Or(errs...); err != nil || len(shown[0]) == 0 || !sameTransfers(shown[0], shown[len(shown)-1]) {
		return ledger.Observation{}, false, err
	}
	tip := observe.Tip{Head: int64(s.lowest(Latest).Number), Final: int64(s.lowest(Finalized).Number)}
	tip.Confirmations = tip.Head - int64(s.lowest(o.config.Confirm).Number) + 1
	return observe.Reconcile(nil, []observe.Movement{o.movement(shown[0][0], false)}, tip)[0], true, nil
}

// used returns the Transfer to the rail that an authorization made, also dust. The receipt can be nil.
func (o *Observer) used(p *placed, key ledger.IntentKey) []transfer {
	from, nonce := common.HexToAddress(key.From), common.HexToHash(key.Nonce).Hex()
	all := o.chain.transfersOf(p, func(t transfer) bool { return t.to == o.payTo && t.from == from && t.nonce == nonce })
	return all[:min(1, len(all))]
}

// Find searches the Transfer of an authorization in every block since a time, newest first.
func (o *Observer) Find(ctx context.Context, key ledger.IntentKey, since int64) (s ledger.Observation, found bool, err error) {
	both, err := o.decide(ctx)
	if err != nil {
		return s, false, err
	}
	spent, errs := each(both.readings, func(r *reading) (*log, error) { return o.search(ctx, r, key, since) })
	err = cmp.Or(errs...)
	for _, l := range spent {
		if l != nil && !found && err == nil {
			s, found, err = o.prove(ctx, both, key, l.Transaction)
		}
	}
	return s, found, err
}

// search returns the log of the token about the use or the cancellation of an authorization, back to a time; nil for none.
func (o *Observer) search(ctx context.Context, r *reading, key ledger.IntentKey, since int64) (*log, error) {
	topics := []any{[]common.Hash{topicUsed, topicCanceled}, wordOf(common.HexToAddress(key.From)), common.HexToHash(key.Nonce)}
	for high := int64(r.heads[Latest].Number); high >= 0; high -= searchStep {
		low := max(0, high-searchStep+1)
		logs, err := r.logs(ctx, topics, o.chain.token, uint64(low), uint64(high))
		if err != nil {
			return nil, err
		}
		if len(logs) > 0 {
			return &logs[len(logs)-1], nil
		}
		if b, err := r.blockOnce(ctx, uint64(low)); err != nil || b == nil || int64(b.Time) < since-searchSlack {
			return nil, err
		}
	}
	return nil, nil
}

// Dead returns why an authorization can never pay the rail: in final blocks it was canceled, paid another account, or
// expired unused. It returns "" while it can pay or may have paid. The payer will then sign another one, so the reader
// and the witness must both say so, and neither may show that it paid the rail.
func (o *Observer) Dead(ctx context.Context, key ledger.IntentKey, validBefore int64) (reason string, err error) {
	both, err := o.decide(ctx)
	if err != nil {
		return "", err
	}
	reasons, errs := each(both.readings, func(r *reading) (string, error) { return o.deadAt(ctx, r, key, validBefore) })
	if err := cmp.Or(errs...); err != nil || slices.Contains(reasons, "") {
		return "", err
	}
	return reasons[0], nil
}

// deadAt returns why an authorization is dead as one endpoint shows it, or "".
func (o *Observer) deadAt(ctx context.Context, r *reading, key ledger.IntentKey, validBefore int64) (reason string, err error) {
	final := r.heads[Finalized]
	state, err := r.word(ctx, o.chain.token, authorizationState(key), hexutil.EncodeUint64(uint64(final.Number)))
	switch {
	case err != nil:
		return "", err
	case state == common.Hash{} && int64(final.Time) > validBefore:
		return reasonExpired, nil
	case state != isTrue && state != common.Hash{}:
		return "", r.bad()
	case state == common.Hash{}:
		return "", nil
	}
	spent, err := o.search(ctx, r, key, validBefore-longestValidity)
	if err != nil || spent == nil {
		return "", err
	}
	if spent.Topics[0] == topicCanceled {
		return reasonCanceled, nil
	}
	if p, err := r.canonical(ctx, spent.Transaction, common.Hash{}); err != nil || p == nil || len(o.used(p, key)) > 0 {
		return "", err
	}
	return reasonElsewhere, nil
}

// isTrue is the ABI's true.
var isTrue = common.BytesToHash([]byte{1})

// authorizationState encodes the call of the token (EIP-3009).
func authorizationState(key ledger.IntentKey) []byte {
	return slices.Concat(selector("authorizationState(address,bytes32)"),
		wordOf(common.HexToAddress(key.From)).Bytes(), common.HexToHash(key.Nonce).Bytes())
}

// Read asks one endpoint about an authorization, within 2 s in total, without changing any health, and another one if the first
// is in the future. The error is an *observe.Error.
func (o *Observer) Read(ctx context.Context, key ledger.IntentKey) (ledger.Reading, error) {
	o.mu.Lock()
	err := o.history
	o.mu.Unlock()
	if err != nil {
		return ledger.Reading{}, err
	}
	var future *ledger.Reading // if all heads are in the future, the clock is behind
	r, err := ask(ctx, o.chain, func(ctx context.Context, e *endpoint) (ledger.Reading, error) {
		r, err := o.readFrom(ctx, e, key)
		if err == nil && o.chain.isFuture(r.Time) {
			future = cmp.Or(future, &r)
			err = e.bad()
		}
		return r, err
	})
	if err != nil && future != nil {
		return *future, nil
	}
	return r, err
}

// ask asks the first endpoint that answers, of those that serve the chain, did not fail last and are live.
func ask[R any](ctx context.Context, c *Chain, question func(context.Context, *endpoint) (R, error)) (answer R, err error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	err = &observe.Error{Code: observe.ErrUnreachable, Host: c.hosts}
	for _, e := range c.endpoints {
		if rank, _, checked := e.state(); !checked || rank == rankDead || ctx.Err() != nil {
			continue
		}
		one, cancel := context.WithTimeout(ctx, askWithin)
		answer, err = question(one, e)
		if cancel(); err == nil {
			break
		}
	}
	return answer, err
}

// readFrom asks one endpoint. The head is read first, so that an unused authorization was unused in it.
func (o *Observer) readFrom(ctx context.Context, e *endpoint, key ledger.IntentKey) (r ledger.Reading, err error) {
	var head block
	if err = e.callOnce(ctx, &head, "eth_getBlockByNumber", Latest, false); err != nil {
		return r, err
	}
	_, upTo := o.watermark()
	balance := slices.Concat(selector("balanceOf(address)"), wordOf(common.HexToAddress(key.From)).Bytes())
	type call struct {
		data []byte
		at   any
	}
	calls := []call{{authorizationState(key), Latest}, {balance, Latest}}
	if upTo != nil { // by hash (EIP-1898), because another branch has the same number
		calls = append(calls, call{authorizationState(key), map[string]any{"blockHash": upTo.Hash, "requireCanonical": true}})
	}
	words, errs := each(calls, func(c call) (word common.Hash, err error) {
		message := map[string]any{"to": o.chain.token, "data": hexutil.Bytes(c.data), "gas": hexutil.Uint64(readGas)}
		err = e.callOnce(ctx, &word, "eth_call", message, c.at)
		return word, err
	})
	if err = cmp.Or(errs[0], errs[1]); err != nil {
		return r, err
	}
	used := words[0]
	if head.Hash == (common.Hash{}) || max(head.Number, head.Time) >= absurdBlock || used != isTrue && used != (common.Hash{}) {
		return r, e.bad()
	}
	r = ledger.Reading{Used: used == isTrue, Funds: math.MaxInt64, Block: uint64(head.Number), Time: int64(head.Time)}
	if value := words[1].Big(); value.IsInt64() {
		r.Funds = value.Int64()
	}
	// A payer who is refused must not have paid. So the receipts decide on a used authorization if it was used in the
	// covered block. Otherwise they decide after the next cycles have covered the head.
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case r.Used && upTo != nil && errs[2] == nil && words[2] == isTrue:
		r.Block = uint64(upTo.Number)
	case r.Used && o.seen != nil:
		r.Block = max(r.Block, uint64(o.seen.Number)+1)
	}
	return r, nil
}

// Covered returns the completeness watermark: the ledger has all Transfers, with their nonces, of blocks made since
// (Unix seconds) up to through. Both are 0 while unknown. A block is covered only after a second cycle has read it,
// because an endpoint's servers can lag for seconds.
func (o *Observer) Covered() (since int64, through uint64) {
	since, upTo := o.watermark()
	if since == 0 || upTo == nil {
		return 0, 0
	}
	return since, uint64(upTo.Number)
}

func (o *Observer) watermark() (since int64, upTo *block) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.since, o.upTo
}

// startWatermark stores from when the account is read, before the first cursor is moved.
func (o *Observer) startWatermark(ctx context.Context, r *reading, covered int64) {
	if since, _ := o.watermark(); since > 0 {
		return
	}
	if b, err := r.blockOnce(ctx, uint64(covered)); err == nil && b != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.since = int64(b.Time) + 1
	}
}

// moveWatermark stores the head of a complete cycle, and nil before receipts are dropped, because the chain can return
// to their branch.
func (o *Observer) moveWatermark(head *block) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.upTo, o.seen = o.seen, head; head == nil {
		o.upTo = nil
	}
}

//go:embed erc6492.hex
var validatorFile string

// validator is the creation code of the universal validator of ERC-6492, the last line of its file. Its constructor
// takes (address account, bytes32 hash, bytes signature) and returns one byte: 1 if the signature is valid. It can
// revert otherwise.
var validator = common.FromHex(strings.TrimSpace(validatorFile[strings.LastIndexByte(strings.TrimSpace(validatorFile), '\n'):]))

// Signed reports whether a signature of a hash is valid for an account: a contract (ERC-1271, EIP-7702), one not
// deployed yet (ERC-6492), or a key. It asks as Read does and changes no health, because the account's code decides
// how long a call takes. The error is an *observe.Error.
func (o *Observer) Signed(ctx context.Context, account string, hash, signature []byte) (bool, error) {
	data := slices.Concat(validator, wordOf(common.HexToAddress(account)).Bytes(), hash,
		common.LeftPadBytes([]byte{3 * common.HashLength}, common.HashLength), // offset of the signature
		common.BigToHash(big.NewInt(int64(len(signature)))).Bytes(), signature,
		make([]byte, -len(signature)&(common.HashLength-1))) // padding to a word
	return ask(ctx, o.chain, func(ctx context.Context, e *endpoint) (bool, error) {
		var answer hexutil.Bytes
		var refused rpcError
		err := e.callOnce(ctx, &answer, "eth_call", map[string]any{"data": hexutil.Bytes(data)}, Latest)
		switch {
		case errors.As(err, &refused) && refused.reverted:
			return false, nil
		case err == nil && (len(answer) == 0 || len(answer) > common.HashLength):
			return false, e.bad()
		}
		return err == nil && common.BytesToHash(answer) == isTrue, err
	})
}
