package bitcoin

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
)

const (
	testOffer = "shop"
	// single is the example address of BIP-173.
	single = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"
	// zpub is the account of BIP-84's test vectors.
	zpub = "zpub6rFR7y4Q2AijBEqTUquhVz398htDFrtymD9xYYfG1m4wAcvPhXNfE3EfH1r1ADqtfSdVCToUG868RvUUkgDKf31mGDtKsAYz2oz2AGutZYs"
)

// strangers is an output script of nobody here.
const strangers = "00141111111111111111111111111111111111111111"

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// scriptOf is the output script of a P2WPKH address, by other code than ours.
func scriptOf(s string) string {
	a, err := address.DecodeAddress(s, &chaincfg.MainNetParams)
	if err != nil {
		return ""
	}
	return "0014" + hex.EncodeToString(a.ScriptAddress())
}

// bench is a ledger, a clock and observers of one rail.
type bench struct {
	testing.TB
	clock *payoffertest.Clock
	db    *ledger.Ledger
	rail  *offer.Bitcoin
	rate  rate.Rate
	// since and ahead are the Since and the ClockOffset of observers.
	since   int64
	ahead   time.Duration
	log     bytes.Buffer
	changes int
}

// newBench has an account that is watched from start on.
func newBench(t testing.TB, account string) *bench {
	t.Helper()
	b := &bench{TB: t, clock: payoffertest.NewClock(start), rate: rate.Rate{MicroUSD: 90_000_000_000, At: start}}
	rail, err := offer.NewBitcoin(account, "Shop", 4200)
	require.NoError(t, err)
	b.rail = rail
	b.newLedger(start.Unix())
	return b
}

// newLedger takes one that knows nothing but when the account was first watched, in Unix seconds, which is now or earlier.
func (b *bench) newLedger(since int64) {
	b.Helper()
	b.clock.Pass(max(0, time.Unix(since, 0).Sub(b.clock.Now())))
	b.db = ledger.NewSQLite(payoffertest.LedgerFile(b.TB), b.clock.Now)
	require.NoError(b, b.db.Open(b.Context()))
	db := b.db
	b.Cleanup(func() { require.NoError(b, db.Close()) })
	require.NoError(b, b.db.Register(b.Context(), ledger.Account{Offer: testOffer, ID: b.rail.Account(), Rail: b.rail.Name(), Since: since}))
}

// observer is a new one, as after a restart. Its endpoints are on one host.
func (b *bench) observer(endpoints ...*fakeIndex) *Observer {
	b.Helper()
	var addresses []string
	for _, e := range endpoints {
		addresses = append(addresses, e.URL)
	}
	return b.observerOf(nil, addresses...)
}

// hosts is a new observer whose endpoints are each on a host of its own: a.example,
// b.example and so on.
func (b *bench) hosts(endpoints ...*fakeIndex) *Observer {
	b.Helper()
	var addresses []string
	for i := range endpoints {
		addresses = append(addresses, fmt.Sprintf("https://%c.example", 'a'+i))
	}
	return b.observerOf(transport(func(r *http.Request) (*http.Response, error) {
		answer := httptest.NewRecorder()
		endpoints[r.URL.Host[0]-'a'].ServeHTTP(answer, r)
		return answer.Result(), nil
	}), addresses...)
}

func (b *bench) observerOf(t http.RoundTripper, addresses ...string) *Observer {
	b.Helper()
	c := Config{
		OfferID: testOffer, Rail: b.rail, Confirmations: 2, Ledger: b.db, Now: b.clock.Now,
		Rate:  func() (rate.Rate, bool) { return b.rate, b.rate.MicroUSD > 0 },
		Since: b.since, ClockOffset: func() time.Duration { return b.ahead }, Logger: slog.New(slog.NewTextHandler(&b.log, nil)),
		Endpoints: addresses, Transport: t,
	}
	o, err := New(c)
	require.NoError(b, err)
	if b.rail.Extended() {
		deriveFirst(b, o)
	}
	o.Listen(func() { b.changes++ })
	cursors, err := b.db.Cursors(b.Context(), b.rail.Account())
	require.NoError(b, err)
	require.NoError(b, o.Load(cursors))
	return o
}

// derived are the first scripts of wallets by account. To derive the thousand scripts takes longer than most tests.
var derived sync.Map

// deriveFirst gives an observer the scripts that it derives at index 0.
func deriveFirst(t testing.TB, o *Observer) {
	t.Helper()
	account := o.config.Rail.Account()
	known, _ := derived.LoadOrStore(account, sync.OnceValue(func() map[string]bool {
		scripts := make(map[string]bool)
		require.NoError(t, (&wallet{rail: o.config.Rail}).derive(scripts))
		return scripts
	}))
	o.own = maps.Clone(known.(func() map[string]bool)())
	o.wallets[account] = &wallet{rail: o.config.Rail, external: 1 + gapLimit, internal: changeAhead}
}

// round is one that must go well, half a minute after the last.
func (b *bench) round(o *Observer) {
	b.Helper()
	b.clock.Pass(pollEvery)
	require.NoError(b, o.Poll(b.Context()))
	require.False(b, o.Health().Blind)
}

// hook runs something when a round reads what it starts from, or before it records how
// far it has read.
type hook struct {
	Ledger
	starts, records func()
}

func (h hook) Unfinal(ctx context.Context, offer, account string, limit int) ([]ledger.Receipt, error) {
	rows, err := h.Ledger.Unfinal(ctx, offer, account, limit)
	if h.starts != nil {
		h.starts()
	}
	return rows, err
}

func (h hook) Record(ctx context.Context, cursor *ledger.Cursor, all ...ledger.Observation) ([]ledger.Receipt, error) {
	if h.records != nil && cursor != nil {
		h.records()
	}
	return h.Ledger.Record(ctx, cursor, all...)
}

// observed is an account that an observer has read once at an index.
func observed(t testing.TB, account string) (*bench, *fakeIndex, *Observer) {
	t.Helper()
	b, chain := newBench(t, account), newFakeIndex(t, 100)
	o := b.observer(chain)
	b.round(o)
	return b, chain, o
}

// observedBeside is observed for a test that runs beside others.
func observedBeside(t *testing.T, account string) (*bench, *fakeIndex, *Observer) {
	t.Helper()
	t.Parallel()
	return observed(t, account)
}

// unpriced is observed, while the price of bitcoin is unknown.
func unpriced(t testing.TB) (*bench, *fakeIndex, *Observer) {
	t.Helper()
	b, chain := newBench(t, single), newFakeIndex(t, 100)
	b.rate = rate.Rate{}
	o := b.observer(chain)
	b.round(o)
	return b, chain, o
}

// requireWorth checks the value of the one receipt, which is named p.
func (b *bench) requireWorth(cents int64, basis ledger.ValueBasis) {
	b.Helper()
	row := b.row("p")
	require.NotNil(b, row.USDCents)
	require.Equal(b, cents, *row.USDCents)
	require.Equal(b, basis, row.ValueBasis)
}

// hosted is an account that an observer has read once at indexes on so many hosts.
func hosted(t testing.TB, account string, hosts int) (*bench, network, *Observer) {
	t.Helper()
	b, n := newBench(t, account), newNetwork(t, hosts, 100)
	o := b.hosts(n...)
	b.wholly(o)
	return b, n, o
}

// becomes is a round after which the one receipt has a state.
func (b *bench) becomes(o *Observer, name string, want ledger.Status) {
	b.Helper()
	b.round(o)
	b.requireState(name, want)
}

// receipt is what the second output of a transaction paid, whatever else was paid.
func (b *bench) receipt(name string) ledger.Receipt {
	b.Helper()
	row, found, err := b.db.Receipt(b.Context(), testOffer, b.rail.Account(), hashOf(name)+":1")
	require.NoError(b, err)
	require.True(b, found)
	return row
}

// rows are the receipts by the name of their transaction.
func (b *bench) rows(names ...string) map[string]ledger.Receipt {
	b.Helper()
	all, err := b.db.Receipts(b.Context(), testOffer, 0, 1000)
	require.NoError(b, err)
	byHash := make(map[string]string)
	for _, name := range names {
		byHash[hashOf(name)] = name
	}
	rows := make(map[string]ledger.Receipt)
	for _, r := range all {
		require.Contains(b, byHash, r.Transaction, "a payment that nobody made")
		rows[byHash[r.Transaction]] = r
	}
	return rows
}

func (b *bench) row(name string) ledger.Receipt {
	b.Helper()
	rows := b.rows(name)
	require.Len(b, rows, 1)
	return rows[name]
}

// requireState checks the one receipt.
func (b *bench) requireState(name string, want ledger.Status) {
	b.Helper()
	require.Equal(b, want, b.row(name).Status)
}

// at is the rail's address at an index.
func (b *bench) at(index uint32) string {
	b.Helper()
	a, err := b.rail.Address(index)
	require.NoError(b, err)
	return a
}

// pay is a transaction that pays an address.
func pay(name, address string, satoshis int64) fakeTx {
	return fakeTx{name: name, spends: hashOf("coin of "+name) + ":0", pays: []output{{strangers, 5}, {scriptOf(address), satoshis}}}
}

func encode(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// network are indexes of one chain, each on a host of its own.
type network []*fakeIndex

func newNetwork(t testing.TB, indexes, blocks int) (n network) {
	for range indexes {
		n = append(n, newFakeIndex(t, blocks))
	}
	return n
}

// mine adds a block to all of them, and so many empty ones.
func (n network) mine(empty int, txs ...fakeTx) {
	for _, s := range n {
		s.bury(empty, txs...)
	}
}

func (n network) setPool(txs ...fakeTx) {
	for _, s := range n {
		s.setPool(txs...)
	}
}

// inBlock puts a transaction into a block that is there, as nobody but a liar can.
func (fi *fakeIndex) inBlock(height int, txs ...fakeTx) {
	fi.mu.Lock()
	defer fi.mu.Unlock()
	fi.blocks[height].txs = txs
}

// partly is a round half a minute later after which the rail is partial, for a reason.
func (b *bench) partly(o *Observer, code string) {
	b.Helper()
	b.clock.Pass(pollEvery)
	require.ErrorContains(b, o.Poll(b.Context()), code+" (")
	require.False(b, o.Health().Blind)
	require.True(b, o.Health().Partial)
	require.Equal(b, code, o.Health().LastError)
}

// wholly is a round after which all is observed.
func (b *bench) wholly(o *Observer) {
	b.Helper()
	b.round(o)
	require.False(b, o.Health().Partial)
	require.Empty(b, o.Health().LastError)
}

// position is how far the ledger says that was read.
func (b *bench) position() position {
	b.Helper()
	c, found, err := b.db.Cursor(b.Context(), testOffer, b.rail.Account())
	require.NoError(b, err)
	require.True(b, found)
	p, err := parsePosition(c)
	require.NoError(b, err)
	return p
}
