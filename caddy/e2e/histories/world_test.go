// Package histories proves that every purchase is charged once, whatever happens to it: the x402 service, its ledger and
// its observer live through random histories on a simulated chain, with facilitators that fail in every way, clients that
// sign anew after every answer that is no 200, as the official ones do, and strangers who send again what they have seen.
// A model that knows purchases, charges and answers judges each history at its end.
//
// A history is played in a bubble of its own (testing/synctest): its hours pass in the time that they are computed in.
package histories

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/evm"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/web"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// price is what the offer costs, 0.42 USDC in atomic units, and cents the same in US cents.
const (
	price = 420_000
	cents = 42
)

// timeout is how long a call of a facilitator may take.
const timeout = 10 * time.Second

// world is one history: a shop, its customers, and what happens to them.
type world struct {
	*ground
	t      *testing.T
	seed   uint64
	script script
	// offset is the time of the history less that of its bubble, and begin its first block.
	offset time.Duration
	begin  uint64
	payee  common.Address
	offer  string

	wire         *wire
	facilitators []*payoffertest.Facilitator
	limiter      *x402.Limiter
	// background are the loops of all processes, and what ends with the history.
	background sync.WaitGroup
	over       context.Context
	end        context.CancelFunc

	mu       sync.Mutex
	process  *process // nil while the shop is closed
	services []*x402.Service
	model    *model
}

// process is the shop at work, from one configuration to the next.
type process struct {
	*life
	service *x402.Service
	gate    *web.Gate // nil unless the history is gated
	// unload ends the loops of this configuration.
	unload context.CancelFunc
}

// life is that of a process of the operating system: when it ends, calls break off and the ledger is closed.
type life struct {
	context.Context
	end  context.CancelFunc
	book *ledger.Ledger
}

// newWorld begins a history; what happens in it follows from the seed and the changes to its script.
func newWorld(t *testing.T, g *ground, seed uint64, changes ...func(*script)) *world {
	t.Helper()
	w := &world{
		ground: g, t: t, seed: seed, payee: newAddress(t), offer: fmt.Sprintf("history-%s", strings.ToLower(rand.Text())),
		limiter: x402.NewLimiter(x402.Limit{Attempts: 1_000_000, Period: time.Minute}),
	}
	w.script = newScript(w.dice(0))
	w.script.gated = w.dice(8).chance(0.5)
	w.script.first, w.script.fails = w.dice(9).chance(0.5), w.dice(10).chance(0.5)
	for _, change := range changes {
		change(&w.script)
	}
	w.model = newModel(w)
	w.over, w.end = context.WithCancel(context.Background())
	g.do(func() {
		w.offset, w.begin = time.Unix(g.chain.Time(), 0).Sub(bubbleBegin), g.chain.Head()+1
		w.wire = &wire{beside: g.beside, url: g.chain.URL}
	})
	for n := range w.script.facilitators {
		f := payoffertest.NewPipedFacilitator(t, fmt.Sprintf("facilitator-%d", n))
		f.OnBroadcast(w.broadcast)
		f.Script(payoffertest.CallVerify, w.script.verify...)
		f.Script(payoffertest.CallSettle, w.script.settle...)
		w.facilitators = append(w.facilitators, f)
	}
	w.open(nil)
	return w
}

// bubbleBegin is the time at which every bubble begins.
var bubbleBegin = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func (w *world) now() time.Time { return time.Now().Add(w.offset) }

// pause lets time pass, and reports false when ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// broadcast is what the facilitators do.
func (w *world) broadcast(s payoffertest.Settlement) (string, error) {
	hash, err := w.ground.broadcast(w.now().Unix(), s)
	if err != nil {
		return "", err
	}
	w.model.broadcast(s.Nonce, hash.Hex())
	return hash.Hex(), nil
}

// open begins a configuration of the shop, in a life that goes on or in a new one.
func (w *world) open(l *life) {
	network, err := offer.LookupNetwork(fmt.Sprintf("eip155:%d", w.chain.ID))
	require.NoError(w.t, err)
	usdc, err := offer.NewUSDC("usdc", network, w.payee.Hex(), cents)
	require.NoError(w.t, err)
	if l == nil {
		l = new(life)
		l.Context, l.end = context.WithCancel(context.Background())
		l.book, err = w.books(w.now)
		require.NoError(w.t, err)
		require.NoError(w.t, l.book.Open(w.t.Context()))
		require.NoError(w.t, l.book.Register(w.t.Context(), ledger.Account{Offer: w.offer, ID: usdc.Account(), Rail: usdc.Name(), Testnet: network.Test}))
	}
	p := &process{life: l}
	loops, unload := context.WithCancel(l)
	p.unload = unload
	observer, err := evm.New(evm.Config{
		OfferID: w.offer, USDC: usdc, Confirm: evm.Latest, FromBlock: w.begin, ChainConfig: evm.ChainConfig{
			Endpoints: []string{w.chain.URL}, Ledger: l.book, Transport: w.wire, Now: w.now,
			Random: func() float64 { return float64(w.moment().roll(1000)) / 1000 },
		},
	})
	require.NoError(w.t, err)
	var facilitators []*x402.Facilitator
	for _, f := range w.facilitators {
		made, err := x402.NewFacilitator(x402.FacilitatorConfig{
			URL: f.URL(), Timeout: timeout, Now: w.now, Transport: line{f.Transport(), l, w.travel},
		})
		require.NoError(w.t, err)
		facilitators = append(facilitators, made)
		w.background.Go(func() { made.Run(loops) })
	}
	card, err := offer.NewCard("https://checkout.example/pay", nil, cents)
	require.NoError(w.t, err)
	o, err := offer.New(offer.Terms{
		ID: w.offer, BaseURL: "https://pay.example", SiteURL: "https://pay.example", Name: "Sponsor", Amount: cents,
	}, card, usdc)
	require.NoError(w.t, err)
	p.service, err = x402.New(x402.Config{
		Offer: o, Rails: []x402.Rail{{USDC: usdc, Facilitators: facilitators, Chain: observer}}, Ledger: l.book, Limiter: w.limiter,
		Owner: rand.Text(), RemovedRail: func(string) (x402.Rail, bool) { return x402.Rail{}, false },
		Hold: func() (func(), bool) { return func() {}, true },
		Own:  func(string) bool { return false }, Signer: keyless{}, Now: w.now, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	require.NoError(w.t, err)
	if w.script.gated {
		p.gate = w.openGate(o, p)
	}
	w.background.Go(func() { p.service.Run(loops) })
	w.background.Go(func() { observer.Run(loops) })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.process, w.services = p, append(w.services, p.service)
}

// moment are the dice of what happens now and has none of its own.
func (w *world) moment() *dice { return w.dice(uint64(time.Now().UnixNano())) }

// travel is how long a message is under way to or from a facilitator.
func (w *world) travel() { time.Sleep(w.moment().between(time.Millisecond, 1500*time.Millisecond)) }

func (w *world) current() *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.process
}

// reload replaces the process by another one on the same ledger; what is under way goes on.
func (w *world) reload() {
	old := w.current()
	w.model.note("the shop is reloaded")
	w.open(old.life)
	old.unload()
}

// crash ends the process at once, and opens another one later.
func (w *world) crash(down time.Duration) {
	w.mu.Lock()
	old := w.process
	w.process = nil
	w.mu.Unlock()
	w.model.note("the shop crashes for %v", down)
	old.end()
	require.NoError(w.t, old.book.Close())
	time.Sleep(down)
	w.open(nil)
}

// awaitDecided waits until nothing is open and nothing only claimed.
func (w *world) awaitDecided() {
	for range 1000 {
		totals, err := w.current().book.Totals(context.Background(), w.offer)
		require.NoError(w.t, err)
		undecided := func(t ledger.Total) bool {
			return t.Count > 0 && (t.Status == ledger.StatusSettling || t.Status == ledger.StatusClaimed)
		}
		if !slices.ContainsFunc(totals, undecided) {
			return
		}
		time.Sleep(10 * time.Second)
	}
	w.model.fault("an authorization is still open after hours with everything in order")
}

// close ends the history: its loops, and what is under way.
func (w *world) close() {
	w.end()
	w.process.unload()
	w.background.Wait()
	for _, s := range w.services {
		require.NoError(w.t, s.Wait(context.Background()))
	}
	w.process.end()
	require.NoError(w.t, w.process.book.Close())
}

type keyless struct{}

func (keyless) Sign(any) string { return "" }

func newAddress(t *testing.T) (address common.Address) {
	t.Helper()
	_, err := rand.Read(address[:])
	require.NoError(t, err)
	return address
}

// charges are the transfers to the payee, each of the price.
func (w *world) charges() []chain.Transfer {
	transfers := w.transfers(w.payee)
	for _, transfer := range transfers {
		if transfer.Value.Cmp(big.NewInt(price)) != 0 {
			w.model.fault("a transfer of %v", transfer.Value)
		}
	}
	return transfers
}
