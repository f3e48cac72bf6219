package evm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	// deepBlocks is how far below the head a block counts as final if an endpoint has no such tags: ten minutes of an
	// OP stack chain.
	deepBlocks    = 300
	parallelReads = 8   // of transactions
	widthMost     = 100 // accounts in one query
)

// each runs ask for all in parallel.
func each[S, R any](of []S, ask func(S) (R, error)) ([]R, []error) {
	answers, errs := make([]R, len(of)), make([]error, len(of))
	var work sync.WaitGroup
	for i, one := range of {
		work.Go(func() { answers[i], errs[i] = ask(one) })
	}
	work.Wait()
	return answers, errs
}

// reading is one endpoint with what it answers in one cycle.
type reading struct {
	*endpoint
	heads  map[Level]*block
	blocks sync.Map // those that were read, by number
}

// open checks an endpoint, reads its heads, and requires that it shows the accounts' final blocks.
func (s *sources) open(ctx context.Context, e *endpoint) (*reading, error) {
	r := &reading{endpoint: e}
	err := e.ready(ctx, s.config.Network.ChainID, s.token)
	if err == nil {
		err = s.readHeads(ctx, r)
	}
	for hash, number := range s.anchors {
		var b *block
		if err == nil {
			b, err = r.blockOnce(ctx, number)
		}
		switch {
		case err != nil:
		case b == nil:
			err = &observe.Error{Code: observe.ErrLagging, Host: e.host}
		case b.Hash != common.HexToHash(hash):
			err = &observe.Error{Code: observe.ErrHistory, Host: e.host}
		}
	}
	if err != nil {
		e.recordOutcome(ctx, err)
	}
	return r, err
}

// readHeads reads the newest blocks at all levels. If the endpoint has no tags of finality, it is a block far below.
func (s *sources) readHeads(ctx context.Context, r *reading) error {
	heads, errs := each([]Level{Latest, Safe, Finalized}, func(level Level) (*block, error) { return r.tag(ctx, level) })
	if err := cmp.Or(errs...); err != nil {
		return err
	}
	latest, safe, final := heads[0], heads[1], heads[2]
	if latest == nil {
		return r.bad()
	}
	if safe == nil || final == nil {
		below, err := r.blockOnce(ctx, uint64(latest.Number)-min(deepBlocks, uint64(latest.Number)))
		if err != nil || below == nil {
			return cmp.Or(err, r.bad())
		}
		safe, final = cmp.Or(safe, below), cmp.Or(final, below)
		s.deep.Do(func() {
			s.config.Logger.Warn("RPC endpoint reports no finalized blocks", "blocks", deepBlocks,
				"hint", "blocks that far below the head count as final; use another endpoint to avoid this")
		})
	}
	r.heads = map[Level]*block{Latest: latest, Safe: safe, Finalized: final}
	for _, b := range []*block{latest, safe, final} {
		r.blocks.Store(uint64(b.Number), b)
	}
	return nil
}

// tag reads the block at a level; nil if the endpoint does not know the tag. If it knew it once, that is a failure.
func (e *endpoint) tag(ctx context.Context, level Level) (*block, error) {
	b, err := e.block(ctx, string(level))
	if err != nil && (!errors.As(err, new(rpcError)) || source.Code(err) == observe.ErrLimited) {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if b == nil && e.tagged[level] {
		return nil, cmp.Or(err, e.bad())
	}
	e.tagged[level] = b != nil
	return b, nil
}

func (r *reading) blockOnce(ctx context.Context, number uint64) (*block, error) {
	if known, read := r.blocks.Load(number); read {
		return known.(*block), nil
	}
	b, err := r.block(ctx, hexutil.EncodeUint64(number))
	if err == nil {
		r.blocks.Store(number, b)
	}
	return b, err
}

// canonical reads a transaction's receipt if its block is on the chain; nil for none. logged is the block in which a log
// shows it, if any: a known receipt of that block is not read again before it is final.
func (r *reading) canonical(ctx context.Context, transaction, logged common.Hash) (*placed, error) {
	r.mu.Lock()
	known := r.receipts[transaction]
	r.mu.Unlock()
	if known != nil {
		if known.BlockHash == logged && known.BlockNumber > r.heads[Finalized].Number {
			return known, nil
		}
		b, err := r.blockOnce(ctx, uint64(known.BlockNumber))
		if err != nil || b != nil && b.Hash == known.BlockHash {
			return known, err
		}
	}
	got, err := r.receipt(ctx, transaction)
	if err != nil || got == nil {
		return nil, err
	}
	b, err := r.blockOnce(ctx, uint64(got.BlockNumber))
	if err == nil && (b == nil || b.Hash != got.BlockHash) {
		r.blocks.Delete(uint64(got.BlockNumber)) // the chain may have changed since it was read
		b, err = r.blockOnce(ctx, uint64(got.BlockNumber))
	}
	if err != nil || b == nil || b.Hash != got.BlockHash {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.receipts) >= maxReceipts {
		clear(r.receipts)
	}
	r.receipts[transaction] = &placed{got, b}
	return &placed{got, b}, nil
}

// shown is what one endpoint shows of a range of blocks, and of the transactions that were looked up.
type shown struct {
	*reading
	// through is the last block that was read, and sure the last one up to which every log has its transaction.
	through, sure uint64
	// logs has a log of each transaction that pays, and transfers what it pays once it was looked up.
	logs      map[common.Hash]log
	transfers map[common.Hash][]transfer
	failed    map[common.Hash]error
}

// scan reads the logs of the Transfers to accounts in a range of blocks.
func (s *sources) scan(ctx context.Context, r *reading, low, high uint64, accounts ...*account) (*shown, error) {
	f := &shown{r, high, high, make(map[common.Hash]log), make(map[common.Hash][]transfer), make(map[common.Hash]error)}
	for part := range slices.Chunk(accounts, widthMost) {
		var words []common.Hash
		for _, account := range part {
			words = append(words, wordOf(account.payTo))
		}
		logs, err := r.endpoint.logs(ctx, []any{topicTransfer, nil, words}, s.token, low, high)
		if err != nil {
			return f, err
		}
		for _, l := range logs {
			_, to, amount, ok := s.transfer(&l)
			if _, again := f.logs[l.Transaction]; ok && s.to[to] && amount >= dust && !again {
				f.logs[l.Transaction] = l
			}
		}
	}
	return f, nil
}

// lookUp reads transactions.
func (s *sources) lookUp(ctx context.Context, f *shown, transactions map[common.Hash]bool) {
	for part := range slices.Chunk(slices.Collect(maps.Keys(transactions)), parallelReads) {
		found, errs := each(part, func(t common.Hash) (*placed, error) { return f.canonical(ctx, t, f.logs[t].BlockHash) })
		for i, t := range part {
			f.transfers[t] = s.transfersOf(found[i], func(x transfer) bool { return s.to[x.to] && x.amount >= dust })
			l, logged := f.logs[t]
			if logged && len(f.transfers[t]) == 0 && errs[i] == nil {
				errs[i] = &observe.Error{Code: observe.ErrDisagree, Host: f.host} // its receipt does not have the log
			}
			if f.failed[t] = errs[i]; logged && errs[i] != nil {
				f.sure = min(f.sure, uint64(max(l.BlockNumber, 1))-1)
			}
		}
	}
}

// isAbove reports whether transfers are in a block that was not read.
func (s *shown) isAbove(transfers []transfer) bool {
	return len(transfers) > 0 && uint64(transfers[0].block.Number) > s.through
}

const (
	causeChain = "chain" // in a receipt's transitions
	// dust is the amount in atomic units below which a Transfer is ignored, 0.01 USDC. Such transfers put lookalike
	// addresses into a wallet's history.
	dust = 10_000
	// absurd is more than any token of six decimals has.
	absurd        = 1 << 62
	atomicPerCent = 10_000
)

// Topics of the token's events (ERC-20, EIP-3009).
var (
	topicTransfer = crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)"))
	topicUsed     = crypto.Keccak256Hash([]byte("AuthorizationUsed(address,bytes32)"))
	topicCanceled = crypto.Keccak256Hash([]byte("AuthorizationCanceled(address,bytes32)"))
)

// transfer is a Transfer of the token to one of the chain's accounts.
type transfer struct {
	transaction common.Hash
	ordinal     int // position of its log in the receipt
	from, to    common.Address
	amount      int64
	logIndex    uint64
	nonce       string // the authorization's, in lower-case hex, or empty
	block       block
}

// sameTransfers reports whether two endpoints show the same. They can count logs differently.
func sameTransfers(a, b []transfer) bool {
	return slices.EqualFunc(a, b, func(a, b transfer) bool {
		a.logIndex = b.logIndex
		return a == b
	})
}

// transfer reads the log of a Transfer of the token.
func (c *Chain) transfer(l *log) (from, to common.Address, amount int64, ok bool) {
	if l.Removed || *l.Address != c.token || len(l.Topics) != 3 || len(l.Data) != 32 || l.Topics[0] != topicTransfer {
		return from, to, 0, false
	}
	from, to = common.BytesToAddress(l.Topics[1].Bytes()), common.BytesToAddress(l.Topics[2].Bytes())
	value := new(big.Int).SetBytes(l.Data)
	ok = l.Topics[1] == wordOf(from) && l.Topics[2] == wordOf(to) && value.IsInt64() && value.Int64() <= absurd
	return from, to, value.Int64(), ok
}

// transfersOf returns the wanted Transfers of a receipt, which can be nil. An authorization made a Transfer if the log
// before is the token's AuthorizationUsed of the same payer.
func (c *Chain) transfersOf(p *placed, wanted func(transfer) bool) (found []transfer) {
	if p == nil || p.Status != 1 {
		return nil
	}
	for i := range p.Logs {
		from, to, amount, ok := c.transfer(&p.Logs[i])
		if !ok {
			continue
		}
		t := transfer{p.Transaction, i, from, to, amount, uint64(p.Logs[i].Index), "", *p.block}
		if before := p.Logs[max(i-1, 0)]; *before.Address == c.token && len(before.Topics) == 3 &&
			before.Topics[0] == topicUsed && before.Topics[1] == wordOf(from) {
			t.nonce = before.Topics[2].Hex()
		}
		if wanted(t) {
			found = append(found, t)
		}
	}
	return found
}

// wordOf is an address as a topic.
func wordOf(a common.Address) common.Hash { return common.BytesToHash(a.Bytes()) }

// movement returns a transfer to the account. Money that the account sends to itself is not a payment.
func (o *Observer) movement(t transfer, held bool) observe.Movement {
	cents := t.amount / atomicPerCent
	payer := strings.ToLower(t.from.Hex())
	m := observe.Movement{Block: int64(t.block.Number), BlockHash: t.block.Hash.Hex(), Held: held, Observation: ledger.Observation{
		Offer: o.config.OfferID, Account: o.account, Rail: o.config.USDC.Name(),
		// A transaction that moves to another block keeps the order of its logs.
		ExternalID:  fmt.Sprintf("%s:%s:%d", o.config.USDC.Network.CAIP2(), t.transaction.Hex(), t.ordinal),
		Transaction: t.transaction.Hex(), Asset: strings.ToLower(o.chain.token.Hex()),
		Amount: t.amount, USDCents: &cents, ValueBasis: ledger.BasisFace, EvidenceLevel: ledger.LevelChain,
		Evidence: offer.JSON(map[string]any{"block": uint64(t.block.Number), "blockHash": t.block.Hash, "logIndex": t.logIndex}),
		Payer:    payer, Nonce: t.nonce, Own: o.config.Own != nil && o.config.Own(payer), Testnet: o.config.USDC.Network.Test,
		OccurredAt: int64(t.block.Time), Cause: causeChain,
	}}
	if t.from == o.payTo {
		m.Own, m.State = true, ledger.StatusMoved
	}
	return m
}
