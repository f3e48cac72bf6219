// Package evm observes the USDC transfers of one rail over JSON-RPC.
package evm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Level is the finality that a block must have reached for its transfers to
// count as confirmed.
type Level string

// The levels of finality, as the block tags of the JSON-RPC interface.
const (
	Latest    Level = "latest"
	Safe      Level = "safe"
	Finalized Level = "finalized"
)

// ParseLevel reads a level.
func ParseLevel(s string) (Level, error) {
	level := Level(s)
	if !slices.Contains([]Level{Latest, Safe, Finalized}, level) {
		return "", fmt.Errorf("%q is no level of finality; use latest, safe or finalized", s)
	}
	return level, nil
}

func (l Level) tag() int64 {
	switch l {
	case Latest:
		return int64(rpc.LatestBlockNumber)
	case Safe:
		return int64(rpc.SafeBlockNumber)
	default:
		return int64(rpc.FinalizedBlockNumber)
	}
}

// Topics of the token's events (ERC-20, EIP-3009).
var (
	topicTransfer = crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)"))
	topicUsed     = crypto.Keccak256Hash([]byte("AuthorizationUsed(address,bytes32)"))
	topicCanceled = crypto.Keccak256Hash([]byte("AuthorizationCanceled(address,bytes32)"))
)

// Config describes a USDC rail to be observed.
type Config struct {
	// OfferID is the offer's id in the ledger.
	OfferID string
	// USDC is the rail.
	USDC *offer.USDC
	// Endpoints are the URLs of JSON-RPC endpoints, asked in order.
	Endpoints []string
	// Confirm is when a transfer counts.
	Confirm Level
	// Transport carries the calls; nil means http.DefaultTransport.
	Transport http.RoundTripper
	// Now is the clock of the rail's health.
	Now func() time.Time
}

// Observer reads the Transfer logs of one USDC rail.
type Observer struct {
	offerID   string
	usdc      *offer.USDC
	token     common.Address
	payTo     common.Address
	endpoints []*endpoint
	confirm   Level
	now       func() time.Time

	mu     sync.Mutex
	health observe.Health
}

// New prepares the observer of a rail and calls nobody.
func New(c Config) (*Observer, error) {
	if len(c.Endpoints) == 0 {
		return nil, errors.New("an observer needs an RPC endpoint")
	}
	e := &Observer{
		offerID: c.OfferID, usdc: c.USDC, confirm: c.Confirm, now: c.Now,
		token: common.HexToAddress(c.USDC.Network.USDC), payTo: common.HexToAddress(c.USDC.PayTo),
		health: observe.Health{Rail: c.USDC.Name(), Source: "chain", Blind: true, Partial: true},
	}
	for _, address := range c.Endpoints {
		endpoint, err := newEndpoint(address, c.Transport)
		if err != nil {
			return nil, err
		}
		e.endpoints = append(e.endpoints, endpoint)
	}
	return e, nil
}

// Health says how well the chain could be read last.
func (e *Observer) Health() observe.Health {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.health
}

// each runs f on the first endpoint that answers for the right chain.
func (e *Observer) each(ctx context.Context, f func(*endpoint) error) error {
	var last error
	for _, endpoint := range e.endpoints {
		if last = endpoint.ready(ctx, e.usdc.Network.ChainID); last != nil {
			continue
		}
		if last = f(endpoint); last == nil {
			return nil
		}
	}
	e.failed(last)
	return last
}

func (e *Observer) failed(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.health.LastError, e.health.Blind = observe.ErrUnreachable, true
	var known *observe.Error
	if errors.As(err, &known) {
		e.health.LastError = known.Code
	}
}

func (e *Observer) succeeded(head *types.Header) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.health.LastError, e.health.Blind = "", false
	e.health.ObservedThrough, e.health.At = fmt.Sprintf("block %s", head.Number), e.now().Unix()
}

// movement is a Transfer to the rail's address.
type movement struct {
	amount  int64
	from    common.Address
	ordinal int
	log     *types.Log
}

// transferAt reads the log at a position of a receipt as a Transfer of the
// token to the rail's address.
func (e *Observer) transferAt(r *types.Receipt, position int) (movement, bool) {
	if position >= len(r.Logs) {
		return movement{}, false
	}
	l := r.Logs[position]
	if l.Address != e.token || len(l.Topics) != 3 || l.Topics[0] != topicTransfer || len(l.Data) != 32 ||
		common.BytesToAddress(l.Topics[2].Bytes()) != e.payTo {
		return movement{}, false
	}
	amount := new(big.Int).SetBytes(l.Data)
	if !amount.IsInt64() {
		return movement{}, false
	}
	return movement{amount.Int64(), common.BytesToAddress(l.Topics[1].Bytes()), position, l}, true
}

// used finds the Transfer that an authorization made: AuthorizationUsed of the
// token, immediately followed by the Transfer from the same payer.
func (e *Observer) used(r *types.Receipt, key ledger.IntentKey) (movement, bool) {
	for position, l := range r.Logs {
		if !e.spends(l, key) {
			continue
		}
		m, ok := e.transferAt(r, position+1)
		if ok && m.from == common.HexToAddress(key.From) {
			return m, true
		}
	}
	return movement{}, false
}

// spends reports whether a log is the token's AuthorizationUsed of a key.
func (e *Observer) spends(l *types.Log, key ledger.IntentKey) bool {
	return l.Address == e.token && len(l.Topics) == 3 && l.Topics[0] == topicUsed &&
		l.Topics[1] == common.BytesToHash(common.HexToAddress(key.From).Bytes()) && l.Topics[2] == hashOf(key.Nonce)
}

// heads are the blocks up to which transfers count, and up to which the chain
// will not change its mind.
type heads struct{ confirm, final *types.Header }

// heads reads both. A node without the finalized tag only keeps rows from
// being final.
func (e *Observer) heads(ctx context.Context, endpoint *endpoint) (heads, error) {
	confirm, err := endpoint.head(ctx, e.confirm)
	if err != nil {
		return heads{}, err
	}
	e.succeeded(confirm)
	final, err := endpoint.head(ctx, Finalized)
	if err != nil {
		final = nil
	}
	return heads{confirm, final}, nil
}

// sighting is what a canonical transaction says of one movement, given heads
// that were read before it.
func (e *Observer) sighting(h heads, r *types.Receipt, block *types.Header, m movement) (ledger.Sighting, error) {
	state, final := ledger.StatusSeen, false
	if block.Number.Cmp(h.confirm.Number) <= 0 {
		state = ledger.StatusConfirmed
		final = h.final != nil && block.Number.Cmp(h.final.Number) <= 0
	}
	proof, err := json.Marshal(evidence{block.Number.Uint64(), block.Hash(), m.log.Index})
	if err != nil {
		return ledger.Sighting{}, err
	}
	cents := m.amount / 10_000 // 10^-6 USDC to cents
	transaction := strings.ToLower(r.TxHash.Hex())
	return ledger.Sighting{
		Offer: e.offerID, Account: e.usdc.Account(), Rail: e.usdc.Name(),
		ExternalID:  fmt.Sprintf("%s:%s:%d", e.usdc.Network.CAIP2(), transaction, m.ordinal),
		Transaction: transaction, Asset: strings.ToLower(e.token.Hex()), Amount: m.amount, USDCents: &cents,
		State: state, Final: final, EvidenceLevel: ledger.LevelChain, Evidence: proof,
		Payer: strings.ToLower(m.from.Hex()), Testnet: e.usdc.Network.Test, OccurredAt: int64(block.Time), Cause: "chain",
	}, nil
}

// evidence is where a transfer stood on the chain when it was last read.
type evidence struct {
	Block     uint64      `json:"block"`
	BlockHash common.Hash `json:"blockHash"`
	LogIndex  uint        `json:"logIndex"`
}

func hashOf(s string) common.Hash { return common.HexToHash(s) }
