package payoffertest

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// ErrChain is what a Chain answers that cannot be read.
var ErrChain = errors.New("the chain cannot be read")

// Chain stands in for the chain of one rail where a test is not about the
// chain itself: it knows the Transfers that it was told of.
type Chain struct {
	account ledger.Account

	mu        sync.Mutex
	down      bool
	hang      bool
	transfers map[ledger.IntentKey]ledger.Observation
	dead      map[ledger.IntentKey]string
	signed    map[string]bool
	calls     map[string]int
	failing   map[string]bool
	// funds are those of payers who are not rich; block and time are those of
	// every reading.
	funds   map[string]int64
	block   uint64
	time    int64
	since   int64
	through uint64
}

// NewChain makes an empty chain of the rail with this account.
func NewChain(account ledger.Account) *Chain {
	return &Chain{
		account: account, transfers: map[ledger.IntentKey]ledger.Observation{},
		dead: map[ledger.IntentKey]string{}, signed: map[string]bool{}, calls: map[string]int{}, failing: map[string]bool{}, funds: map[string]int64{}, through: math.MaxUint64,
	}
}

// Transfer puts the Transfer of an authorization on the chain; amount is in
// atomic units.
func (c *Chain) Transfer(key ledger.IntentKey, transaction string, amount int64, final bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cents := amount / 10_000
	c.transfers[key] = ledger.Observation{
		Offer: c.account.Offer, Account: c.account.ID, Rail: c.account.Rail, Testnet: c.account.Testnet,
		ExternalID: fmt.Sprintf("%s:%s:1", key.Network, transaction), Transaction: transaction, Asset: key.Asset,
		Amount: amount, USDCents: &cents, State: ledger.StatusSeen, Final: final, EvidenceLevel: ledger.LevelChain,
		Payer: key.From, Nonce: strings.ToLower(key.Nonce), Cause: "chain",
	}
}

// Kill makes an authorization useless for a reason. All but
// "authorization_expired" say that it is used.
func (c *Chain) Kill(key ledger.IntentKey, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead[key] = reason
}

// Fund sets what a payer has, in atomic units; without it everybody is rich.
func (c *Chain) Fund(payer string, funds int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.funds[strings.ToLower(payer)] = funds
}

// At sets the block and the time (Unix seconds) of every reading.
func (c *Chain) At(block uint64, time int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.block, c.time = block, time
}

// Cover sets what Covered says, which is everything without it.
func (c *Chain) Cover(since int64, through uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since, c.through = since, through
}

// Down makes every call fail, or work again.
func (c *Chain) Down(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
}

// Fail makes the calls of a name fail, as Calls names them, or work again.
func (c *Chain) Fail(name string, fails bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failing[name] = fails
}

// Hang makes every call last until its context ends.
func (c *Chain) Hang() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hang = true
}

// Calls is how often "prove", "find", "dead", "read" or "signed" was asked.
func (c *Chain) Calls(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[name]
}

// Prove finds the Transfer in the transaction that is named.
func (c *Chain) Prove(ctx context.Context, key ledger.IntentKey, transaction string) (ledger.Observation, bool, error) {
	s, found, err := c.transfer(ctx, "prove", key)
	return s, found && s.Transaction == transaction, err
}

// Find finds the Transfer in any transaction.
func (c *Chain) Find(ctx context.Context, key ledger.IntentKey, _ int64) (ledger.Observation, bool, error) {
	return c.transfer(ctx, "find", key)
}

// Dead gives the reason that Kill gave.
func (c *Chain) Dead(ctx context.Context, key ledger.IntentKey, _ int64) (string, error) {
	if err := c.call(ctx, "dead"); err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead[key], nil
}

// Read says that an authorization is used once it made its Transfer or was
// killed.
func (c *Chain) Read(ctx context.Context, key ledger.IntentKey) (ledger.Reading, error) {
	if err := c.call(ctx, "read"); err != nil {
		return ledger.Reading{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, paid := c.transfers[key]
	spent := c.dead[key] != "" && c.dead[key] != "authorization_expired"
	funds, known := c.funds[strings.ToLower(key.From)]
	if !known {
		funds = math.MaxInt64
	}
	return ledger.Reading{Used: paid || spent, Funds: funds, Block: c.block, Time: c.time}, nil
}

// Signed says what Sign set: without it no signature is valid.
func (c *Chain) Signed(ctx context.Context, account string, _, signature []byte) (bool, error) {
	if err := c.call(ctx, "signed"); err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.signed[strings.ToLower(account)+hex.EncodeToString(signature)], nil
}

// Sign makes a signature valid for an account.
func (c *Chain) Sign(account string, signature []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.signed[strings.ToLower(account)+hex.EncodeToString(signature)] = true
}

// Covered says what Cover set.
func (c *Chain) Covered() (since int64, through uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since, c.through
}

func (c *Chain) transfer(ctx context.Context, name string, key ledger.IntentKey) (ledger.Observation, bool, error) {
	if err := c.call(ctx, name); err != nil {
		return ledger.Observation{}, false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s, found := c.transfers[key]
	return s, found, nil
}

func (c *Chain) call(ctx context.Context, name string) error {
	c.mu.Lock()
	c.calls[name]++
	down, hang := c.down || c.failing[name], c.hang
	c.mu.Unlock()
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if down {
		return ErrChain
	}
	return nil
}
