package evm

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

const (
	// searchStep is how many blocks one query for a log covers.
	searchStep = 500
	// searchSlack is how far before an authorization was sent its transaction is searched, in seconds, because clocks
	// differ.
	searchSlack = 600
)

// Reasons why an authorization can no longer pay.
const (
	reasonCanceled  = "authorization_canceled"
	reasonElsewhere = "authorization_used_elsewhere"
	reasonExpired   = "authorization_expired"
)

// decisionView returns a view for a decision; an error with too few endpoints.
func (e *Observer) decisionView(ctx context.Context) (*view, error) {
	e.mu.Lock()
	err := e.history
	e.mu.Unlock()
	if err != nil {
		return nil, err
	}
	v, err := e.chain.readView(ctx, e.config.Confirm)
	if err == nil && !v.quorum() {
		err = v.problem
	}
	return v, err
}

// Prove reads a transaction and returns the authorization's Transfer in it. found is false if it is not on the chain,
// failed or has no such Transfer, or if too few endpoints show it.
func (e *Observer) Prove(ctx context.Context, key ledger.IntentKey, transaction string) (s ledger.Observation, found bool, err error) {
	v, err := e.decisionView(ctx)
	if err == nil {
		s, found, err = e.proveIn(ctx, v, key, common.HexToHash(transaction))
	}
	e.failed(err)
	return s, found, err
}

func (e *Observer) proveIn(ctx context.Context, v *view, key ledger.IntentKey, transaction common.Hash) (ledger.Observation, bool, error) {
	t := v.tally(ctx, transaction, 0, func(r *receipt) []movement { return e.used(r, key) })
	for _, c := range t.candidates {
		if c.votes >= v.need {
			return *e.observation(transaction, c, v.stateOf(c), v.final), true, nil
		}
	}
	return ledger.Observation{}, false, t.failed
}

// Find searches the Transfer of an authorization in every block since a time, newest first.
func (e *Observer) Find(ctx context.Context, key ledger.IntentKey, since int64) (s ledger.Observation, found bool, err error) {
	v, err := e.decisionView(ctx)
	defer func() { e.failed(err) }()
	if err != nil {
		return s, false, err
	}
	hashes, errs := each(v.readers, func(r *reader) (hash common.Hash, err error) {
		logs, err := e.search(ctx, r, key, topicUsed, since)
		if len(logs) > 0 {
			hash = logs[len(logs)-1].Transaction
		}
		return hash, err
	})
	tried := map[common.Hash]bool{{}: true}
	searched := 0
	for i, hash := range hashes {
		if errs[i] == nil {
			searched++
		}
		if tried[hash] {
			continue
		}
		tried[hash] = true
		if s, found, err = e.proveIn(ctx, v, key, hash); found || err != nil {
			return s, found, err
		}
	}
	if searched < v.need {
		err = cmp.Or(errs...)
	}
	return s, false, err
}

// search queries one event of an authorization, back to a time.
func (e *Observer) search(ctx context.Context, r *reader, key ledger.IntentKey, event common.Hash, since int64) ([]log, error) {
	from, nonce := wordOf(common.HexToAddress(key.From)), common.HexToHash(key.Nonce)
	wanted := filter{e.token, []any{event, from, nonce}}
	for high := int64(r.latest.Number); high >= 0; high -= searchStep {
		low := max(0, high-searchStep+1)
		logs, _, err := r.logs(ctx, wanted, uint64(low), uint64(high), math.MaxInt)
		if err != nil || len(logs) > 0 {
			return logs, err
		}
		b, err := r.blockOnce(ctx, uint64(low))
		if err != nil {
			return nil, err
		}
		if b == nil || int64(b.Time) < since-searchSlack {
			return nil, nil
		}
	}
	return nil, nil
}

// authorization is the state of an authorization at one endpoint.
type authorization struct {
	// reason is why it can never pay, or empty. spent means that it was used or canceled in a final block.
	reason string
	spent  bool
}

// Dead returns why an authorization can never pay the rail: in final blocks it was canceled, paid another account, or
// expired unused. It returns "" while it can pay or may have paid. The payer will then sign another one, so a quorum of
// endpoints must agree, and no endpoint may show that it paid the rail.
func (e *Observer) Dead(ctx context.Context, key ledger.IntentKey, validBefore int64) (reason string, err error) {
	v, err := e.decisionView(ctx)
	defer func() { e.failed(err) }()
	if err != nil {
		return "", err
	}
	said, errs := each(v.readers, func(r *reader) (authorization, error) { return e.authorization(ctx, r, key, validBefore) })
	votes := 0
	for i, a := range said {
		switch {
		case errs[i] != nil:
			err = errs[i]
		case a.reason != "":
			votes++
			reason = cmp.Or(reason, a.reason)
		case a.spent:
			return "", nil
		}
	}
	if votes >= v.need {
		return reason, nil
	}
	return "", err
}

func (e *Observer) authorization(ctx context.Context, r *reader, key ledger.IntentKey, validBefore int64) (a authorization, err error) {
	a.spent, err = e.spent(ctx, r, key)
	switch {
	case err != nil:
	case a.spent:
		a.reason, err = e.howSpent(ctx, r, key, validBefore)
	case int64(r.final.Time) > validBefore:
		a.reason = reasonExpired
	}
	return a, err
}

// howSpent reports whether a spent authorization was canceled, paid another account, or paid the rail.
func (e *Observer) howSpent(ctx context.Context, r *reader, key ledger.IntentKey, validBefore int64) (string, error) {
	// An authorization is valid for minutes, so its end bounds its beginning.
	since := validBefore - 2*3600
	logs, err := e.search(ctx, r, key, topicCanceled, since)
	if err != nil {
		return "", err
	}
	if len(logs) > 0 {
		return reasonCanceled, nil
	}
	logs, err = e.search(ctx, r, key, topicUsed, since)
	if err != nil || len(logs) == 0 {
		return "", err
	}
	found, err := r.canonical(ctx, logs[len(logs)-1].Transaction)
	if err != nil || found == nil || len(e.used(found.receipt, key)) > 0 {
		return "", err
	}
	return reasonElsewhere, nil
}

// spent reads the token's authorizationState (EIP-3009) in the final block.
func (e *Observer) spent(ctx context.Context, r *reader, key ledger.IntentKey) (bool, error) {
	answer, err := r.contract(ctx, e.token, authorizationState(key), hexutil.EncodeUint64(uint64(r.final.Number)))
	if err != nil {
		return false, err
	}
	if answer != (common.Hash{}) && answer != isTrue {
		return false, r.bad()
	}
	return answer != common.Hash{}, nil
}

// isTrue is the ABI's true.
var isTrue = common.BytesToHash([]byte{1})

// authorizationState encodes the call.
func authorizationState(key ledger.IntentKey) []byte {
	return slices.Concat(selector("authorizationState(address,bytes32)"),
		wordOf(common.HexToAddress(key.From)).Bytes(), common.HexToHash(key.Nonce).Bytes())
}
