package x402

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

const (
	testPayTo  = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
	otherPayTo = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"
	testToken  = "0x036CbD53842c5426634e7929541eC2318f3dCF7e"
)

// book is the ledger that the tests use; wrapped where a test makes it fail.
type book interface {
	Ledger
	Register(ctx context.Context, accounts ...ledger.Account) error
	Receipts(ctx context.Context, offer string, before int64, limit int) ([]ledger.Receipt, error)
	OpenIntents(ctx context.Context, offer string, after int64, limit int) ([]ledger.Intent, error)
}

// setup says how a shop differs from the usual one.
type setup struct {
	facilitators []*payoffertest.Facilitator
	made         []*Facilitator
	chain        *payoffertest.Chain
	ledger       book
	limiter      *Limiter
	amount       offer.USD
	payTo        string
	owner        string
	networks     []string
	timeout      time.Duration
	offerID      string
	signer       Signer
	former       func(account string) (Rail, bool)
}

// shop is a Service with everything that it stands on.
type shop struct {
	*Service
	t            testing.TB
	book         book
	rails        []*offer.USDC
	facilitators []*Facilitator
	logs         *bytes.Buffer
}

// bubble runs a test whose time passes only while everything waits.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	if name == "" {
		synctest.Test(t, f)
		return
	}
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

func openLedger(t testing.TB) *ledger.Ledger {
	t.Helper()
	l := ledger.NewSQLite(payoffertest.LedgerFile(t), time.Now)
	require.NoError(t, l.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func testOffer(t testing.TB, c setup) (*offer.Offer, []*offer.USDC) {
	t.Helper()
	card, err := offer.NewCard("https://checkout.example/pay", nil, c.amount)
	require.NoError(t, err)
	var rails []offer.Rail
	for n, name := range c.networks {
		network := must(offer.LookupNetwork(name))(t)
		railName := "usdc"
		if n > 0 {
			railName = fmt.Sprintf("usdc-%d", network.ChainID)
		}
		rail := must(offer.NewUSDC(railName, network, c.payTo, c.amount))(t)
		rails = append(rails, rail)
	}
	o, err := offer.New(offer.Terms{
		ID: c.offerID, BaseURL: "https://pay.example.org", SiteURL: "https://example.org", Name: "Example Offer",
		Operator: "Example Org", Description: "One fixed payment.", Amount: c.amount,
	}, card, rails...)
	require.NoError(t, err)
	return o, o.USDC()
}

func limited(attempts int, period time.Duration) *Limiter {
	return NewLimiter(Limit{Attempts: attempts, Period: period})
}

func (s setup) withDefaults(t testing.TB) setup {
	if s.amount == 0 {
		s.amount = 4200
	}
	if s.payTo == "" {
		s.payTo = testPayTo
	}
	if s.networks == nil {
		s.networks = []string{"base-sepolia"}
	}
	if s.limiter == nil {
		s.limiter = limited(1000, time.Minute)
	}
	if s.owner == "" {
		s.owner = "instance-1"
	}
	if s.offerID == "" {
		s.offerID = "test-offer"
	}
	if s.signer == nil {
		s.signer = new(testSigner)
	}
	if s.former == nil {
		s.former = func(string) (Rail, bool) { return Rail{}, false }
	}
	if s.ledger == nil {
		s.ledger = openLedger(t)
	}
	return s
}

func newShop(t testing.TB, c setup) *shop {
	t.Helper()
	c = c.withDefaults(t)
	o, rails := testOffer(t, c)
	s := &shop{t: t, book: c.ledger, rails: rails, facilitators: c.made, logs: new(bytes.Buffer)}
	config := Config{
		Offer: o, Ledger: c.ledger, Limiter: c.limiter, Owner: c.owner, Own: func(string) bool { return false },
		Hold:        func() (func(), bool) { return func() {}, true },
		RemovedRail: c.former, Signer: c.signer, Now: time.Now, Logger: slog.New(slog.NewTextHandler(s.logs, nil)),
	}
	for _, f := range c.facilitators {
		made, err := NewFacilitator(FacilitatorConfig{URL: f.URL(), Transport: f.Transport(), Timeout: c.timeout, Logger: config.Logger})
		require.NoError(t, err)
		s.facilitators = append(s.facilitators, made)
	}
	for _, rail := range rails {
		r := Rail{USDC: rail, Facilitators: s.facilitators}
		if c.chain != nil {
			r.Chain = c.chain
		}
		config.Rails = append(config.Rails, r)
		require.NoError(t, c.ledger.Register(t.Context(), accountOf(c.offerID, rail)))
	}
	var err error
	s.Service, err = New(config)
	require.NoError(t, err)
	return s
}

// offChain is a shop of one facilitator that reads no chain.
func offChain(t testing.TB) (*shop, *payoffertest.Facilitator) {
	t.Helper()
	f := payoffertest.NewPipedFacilitator(t, "one")
	return newShop(t, setup{facilitators: one(f)}), f
}

// onChain is a shop of one facilitator that reads a chain, and a buyer.
func onChain(t testing.TB) (*shop, *payoffertest.Facilitator, *payoffertest.Chain, *buyer) {
	t.Helper()
	f, chain := payoffertest.NewPipedFacilitator(t, "one"), newChain(t)
	return newShop(t, setup{facilitators: one(f), chain: chain}), f, chain, newBuyer(1)
}

// purchases are onChain where the first of two purchases of a buyer is settled on the chain.
func purchases(t testing.TB) (s *shop, f *payoffertest.Facilitator, chain *payoffertest.Chain, a, b *buyer) {
	t.Helper()
	s, f, chain, a = onChain(t)
	settlesOn(f, chain, a)
	return s, f, chain, a, newBuyer(2)
}

// withShop runs a test of offChain in a bubble.
func withShop(t *testing.T, name string, test func(*testing.T, *shop, *payoffertest.Facilitator)) {
	t.Helper()
	bubble(t, name, func(t *testing.T) {
		s, f := offChain(t)
		test(t, s, f)
	})
}

// observed records what the chain shows of a payment, as its observer does.
func (s *shop) observed(chain *payoffertest.Chain, b *buyer) {
	observation, _, err := chain.Find(s.t.Context(), b.key(), 0)
	assert.NoError(s.t, err)
	_, err = s.book.Record(s.t.Context(), nil, observation)
	assert.NoError(s.t, err)
}

// receipts are those in the ledger.
func (s *shop) receipts() []ledger.Receipt {
	s.t.Helper()
	receipts, err := s.book.Receipts(s.t.Context(), s.Offer.ID, 0, 10)
	require.NoError(s.t, err)
	return receipts
}

func accountOf(offerID string, rail *offer.USDC) ledger.Account {
	return ledger.Account{Offer: offerID, ID: rail.Account(), Rail: rail.Name(), Testnet: rail.Network.Test}
}

func newChain(t testing.TB) *payoffertest.Chain {
	_, rails := testOffer(t, setup{ledger: nopBook{}}.withDefaults(t))
	return payoffertest.NewChain(accountOf("test-offer", rails[0]))
}

// nopBook keeps withDefaults from opening a ledger.
type nopBook struct{ book }

// Run is the service at work with its facilitators, as long as ctx.
func (s *shop) Run(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	for _, f := range s.facilitators {
		work.Go(func() { f.Run(ctx) })
	}
	s.Service.Run(ctx)
}

// pay sends a payload and returns the outcome, which reaches the client.
func (s *shop) pay(payload []byte) Outcome {
	s.t.Helper()
	response := new(Response)
	defer response.End(true)
	return s.Pay(s.t.Context(), Attempt{Payload: payload, Client: "192.0.2.1", Response: response})
}

// payAndLeave sends a payload; the answer is lost on its way.
func (s *shop) payAndLeave(payload []byte) Outcome {
	s.t.Helper()
	response := new(Response)
	defer response.End(false)
	return s.Pay(s.t.Context(), Attempt{Payload: payload, Client: "192.0.2.1", Response: response})
}

// stored reads the intent of a payment; found is false without a row.
func (s *shop) stored(b *buyer) (ledger.Intent, bool) {
	s.t.Helper()
	i, found, err := s.book.Intent(s.t.Context(), b.key())
	require.NoError(s.t, err)
	return i, found
}

// requireState checks the row of a payment; "" means that there is none.
func (s *shop) requireState(b *buyer, state ledger.IntentState) ledger.Intent {
	s.t.Helper()
	i, found := s.stored(b)
	require.Equal(s.t, state != "", found, "a row in the ledger")
	require.Equal(s.t, state, i.State)
	return i
}

// buyer signs authorizations as a wallet does.
type buyer struct {
	signer    *ecdsa.PrivateKey
	network   string
	chainID   int64
	token     string
	tokenName string
	auth      authorization
	// access is the token of the quote, or empty; extras are the other extensions.
	access    string
	extras    map[string]any
	signature string
}

var testKey = crypto.ToECDSAUnsafe(crypto.Keccak256([]byte("a buyer of the tests")))

// newBuyer has an authorization for 42 USDC that is valid now; nonce tells
// authorizations apart.
func newBuyer(nonce int) *buyer {
	now := time.Now().Unix()
	return &buyer{
		signer: testKey, network: "base-sepolia", chainID: 84532, token: testToken, tokenName: "USDC",
		access: fmt.Sprintf("TOKENOFTHEQUOTE%011d", nonce),
		auth: authorization{
			From: crypto.PubkeyToAddress(testKey.PublicKey).Hex(), To: testPayTo, Value: "42000000", ValidAfter: "0",
			ValidBefore: fmt.Sprint(now + 300), Nonce: fmt.Sprintf("0x42%062x", nonce),
		},
	}
}

func (b *buyer) key() ledger.IntentKey {
	return ledger.IntentKey{
		Network: fmt.Sprintf("eip155:%d", b.chainID), Asset: strings.ToLower(b.token),
		From: strings.ToLower(b.auth.From), Nonce: strings.ToLower(b.auth.Nonce),
	}
}

// sign makes the 65-byte signature with v of 27 or 28, as wallets do.
func (b *buyer) sign(t testing.TB) string {
	t.Helper()
	if b.signature != "" {
		return b.signature
	}
	network := offer.Network{ChainID: b.chainID, USDC: b.token, TokenName: b.tokenName, TokenVersion: "2"}
	return "0x" + hex.EncodeToString(b.auth.sign(b.signer, domainHash(network)))
}

// inner is the "payload" member of both versions.
func (b *buyer) inner(t testing.TB) map[string]any {
	return map[string]any{"authorization": b.auth, "signature": b.sign(t)}
}

// v2 is the payload of @x402/fetch 2.27.
func (b *buyer) v2(t testing.TB) []byte {
	t.Helper()
	return b.v2For(t, Requirements{
		Scheme: "exact", Network: fmt.Sprintf("eip155:%d", b.chainID), Amount: "42000000", Asset: b.token, PayTo: testPayTo,
		MaxTimeoutSeconds: 300, Extra: extra{domain{Name: b.tokenName, Version: "2"}, "upfront"},
	})
}

func (b *buyer) v2For(t testing.TB, accepted Requirements) []byte {
	t.Helper()
	payload := map[string]any{
		"x402Version": 2, "payload": b.inner(t), "accepted": accepted,
		"resource": map[string]any{"url": "https://pay.example.org/v1/sponsor", "description": "42 USD", "mimeType": "application/json"},
	}
	extensions := make(map[string]any)
	maps.Copy(extensions, b.extras)
	if b.access != "" {
		extensions["access"] = map[string]any{"info": map[string]any{"token": b.access}}
	}
	if len(extensions) > 0 {
		payload["extensions"] = extensions
	}
	return mustJSON(t, payload)
}

// v1 is the payload of x402-fetch 1.2.0.
func (b *buyer) v1(t testing.TB) []byte {
	t.Helper()
	return mustJSON(t, map[string]any{
		"x402Version": 1, "scheme": "exact", "network": b.network, "payload": b.inner(t),
	})
}

func (b *buyer) named(id string) *buyer {
	b.extras = map[string]any{"payment-identifier": map[string]any{"info": map[string]any{"required": false, "id": id}}}
	return b
}

func mustJSON(t testing.TB, v any) []byte {
	t.Helper()
	data := must(json.Marshal(v))(t)
	return data
}

// otherKey belongs to a second payer.
var (
	otherKey        = crypto.ToECDSAUnsafe(crypto.Keccak256([]byte("another buyer of the tests")))
	otherKeyAddress = crypto.PubkeyToAddress(otherKey.PublicKey).Hex()
)

// settlesOn has a facilitator put the Transfer of a buyer on a chain.
func settlesOn(f *payoffertest.Facilitator, chain *payoffertest.Chain, b *buyer) {
	f.OnBroadcast(func(payoffertest.Settlement) (string, error) {
		transaction := "0xfac" + b.auth.Nonce[5:]
		chain.Transfer(b.key(), transaction, 42_000_000, false)
		return transaction, nil
	})
}

// must requires that a call succeeds.
func must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}

// usdc is the rail usdc of the shop.
func (s *shop) usdc() *Rail {
	return &s.Rails[slices.IndexFunc(s.Rails, func(r Rail) bool { return r.USDC.Name() == "usdc" })]
}
