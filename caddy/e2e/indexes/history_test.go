package indexes

import (
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/btcutil/v2/hdkeychain"
	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/wire/v2"
	"github.com/stretchr/testify/require"

	e2e "github.com/payoffer/caddy-pay-offer/caddy/e2e/bitcoin"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/bitcoin"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
)

// derived is how many addresses of an extended key stand for the account: far more than a history pays.
const derived = 200

// vpub is the SLIP-132 version of the key of a P2WPKH account on a test network.
var vpub = []byte{0x04, 0x5f, 0x1c, 0xf6}

// history is one account, observed over an index that is honest and one that may lie.
type history struct {
	*world
	name          string
	random        *rand.Rand
	rail          *offer.Bitcoin
	scripts       map[string]bool // of the account
	indexOf       map[string]int  // of an address
	confirmations int
	book          *ledger.Ledger
	observer      *bitcoin.Observer
	hosts         [2]*index
	liar          *index
	honestEnd     bool   // the liar does not lie any more
	early         string // a payment from before the first start, if there is one
	payments      []*payment
	coins         int // that it has spent
	paid          int // the highest index that was ever paid to; -1 before
	journal       []string
	wrong         []string
}

func newHistory(w *world, seed uint64) *history {
	w.Helper()
	h := &history{
		world: w, random: rand.New(rand.NewPCG(seed, 34)), paid: -1,
		scripts: make(map[string]bool), indexOf: make(map[string]int),
	}
	h.confirmations = 1 + h.random.IntN(3)
	h.account()
	h.name = fmt.Sprintf("seed %d, %d confirmations, an extended key %t", seed, h.confirmations, h.rail.Extended())
	honest := w.honest[h.rail.Extended()]
	h.liar = &index{honest: honest}
	h.hosts = [2]*index{h.liar, {honest: honest}}
	if h.random.IntN(2) == 0 {
		slices.Reverse(h.hosts[:])
	}
	return h
}

// open begins the history.
func (h *history) open() {
	h.Helper()
	h.book = ledger.NewSQLite(payoffertest.LedgerFile(h), func() time.Time { return h.now })
	require.NoError(h, h.book.Open(h.Context()))
	require.NoError(h, h.book.Register(h.Context(), ledger.Account{
		Offer: "shop", ID: h.rail.Account(), Rail: h.rail.Name(), Testnet: true, Since: h.now.Unix(),
	}))
	h.restart()
}

// account is a new one: an address, or an extended key.
func (h *history) account() {
	h.Helper()
	seed := make([]byte, 32)
	for i := range seed {
		seed[i] = byte(h.random.Uint32())
	}
	key, err := hdkeychain.NewMaster(seed, &chaincfg.TestNet3Params)
	require.NoError(h, err)
	for _, i := range []uint32{84, 1, 0} {
		key, err = key.Derive(hdkeychain.HardenedKeyStart + i)
		require.NoError(h, err)
	}
	key, err = key.Neuter()
	require.NoError(h, err)
	key, err = key.CloneWithVersion(vpub)
	require.NoError(h, err)
	account, count := key.String(), derived
	if h.random.IntN(2) == 0 {
		public, err := key.ECPubKey()
		require.NoError(h, err)
		single, err := address.NewAddressWitnessPubKeyHash(address.Hash160(public.SerializeCompressed()), e2e.Params)
		require.NoError(h, err)
		account, count = single.EncodeAddress(), 1
	}
	h.rail, err = offer.NewBitcoin(account, "Shop", 4200)
	require.NoError(h, err)
	for i := range count {
		at, err := h.rail.Address(uint32(i))
		require.NoError(h, err)
		h.indexOf[at] = i
		h.scripts[h.script(at)] = true
	}
}

// script is that of an address of the account, in hexadecimal.
func (h *history) script(at string) string {
	for _, params := range []*chaincfg.Params{e2e.Params, &chaincfg.TestNet3Params} {
		if a, err := address.DecodeAddress(at, params); err == nil && a.IsForNet(params) {
			return "0014" + hex.EncodeToString(a.ScriptAddress())
		}
	}
	return ""
}

// anyAddress is one that is, was or might soon be published.
func (h *history) anyAddress(random *rand.Rand) string {
	at, _ := h.rail.Address(uint32(random.IntN(h.paid + 3)))
	return at
}

// restart is the next process on the same ledger.
func (h *history) restart() {
	h.Helper()
	observer, err := bitcoin.New(bitcoin.Config{
		OfferID: "shop", Rail: h.rail, Endpoints: []string{"https://one.test", "https://two.test"},
		Confirmations: h.confirmations, Ledger: h.book, Transport: transport(h.hosts),
		Rate: func() (rate.Rate, bool) { return rate.Rate{MicroUSD: 90_000_000_000, At: h.now}, true },
		Now:  func() time.Time { return h.now }, Random: func() float64 { return 0.5 }, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(h, err)
	cursors, err := h.book.Cursors(h.Context(), h.rail.Account())
	require.NoError(h, err)
	require.NoError(h, observer.Load(cursors))
	h.observer = observer
}

// transport leads to the index that a host stands for.
type transport [2]*index

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == "one.test" {
		return t[0].RoundTrip(r)
	}
	return t[1].RoundTrip(r)
}

func (h *history) note(text string, args ...any) {
	h.journal = append(h.journal, fmt.Sprintf("block %d: ", h.node.Height())+fmt.Sprintf(text, args...))
}

// step is what happens before a round.
func (h *history) step() {
	switch h.random.IntN(12) {
	case 0, 1:
		h.pay()
	case 2:
		h.replace()
	case 3:
		h.note("the observer is restarted")
		h.restart()
	case 4, 5, 6:
		h.tell()
	case 7:
		h.honestly()
	}
}

// tell has the liar begin another lie.
func (h *history) tell() {
	name := slices.Sorted(maps.Keys(lies))[h.random.IntN(len(lies))]
	l := lies[name](h.random, h)
	if h.random.IntN(4) == 0 {
		name, l = name+", sometimes", sometimes(h.random, l)
	}
	h.note("lie: %s", name)
	h.liar.tell(l)
}

func (h *history) honestly() {
	h.note("no lie any more")
	h.liar.tell(nil)
}

// pay is a payment to the address that is published, or to one that was.
func (h *history) pay() {
	at := h.observer.Address()
	if h.random.IntN(3) == 0 && h.paid >= 0 {
		at, _ = h.rail.Address(uint32(h.random.IntN(h.paid + 1)))
	}
	index, known := h.indexOf[at]
	if !known || h.coins == maxPayments {
		return
	}
	h.coins++
	h.paid = max(h.paid, index)
	h.enter(h.node.Payment(h, at, 10_000+h.random.Int64N(90_000)), "payment to %d", index)
}

// enter has a transaction wait, in the mempool or with the miner alone.
func (h *history) enter(tx *wire.MsgTx, text string, args ...any) {
	if h.random.IntN(3) > 0 {
		h.node.Send(h, tx)
		text += ", sent"
	}
	h.note(text+": %s of %d", append(args, tx.TxHash().String()[:8], tx.TxOut[0].Value)...)
	p := &payment{tx, h}
	h.payments, h.pending = append(h.payments, p), append(h.pending, p)
}

// replace puts another transaction into the place of one that waits: it pays the account, or takes the money back.
func (h *history) replace() {
	i := slices.IndexFunc(h.pending, func(p *payment) bool { return p.of == h })
	if i < 0 {
		return
	}
	old := h.pending[i]
	if old.tx.TxOut[1].Value+old.tx.TxOut[0].Value < 9_000_000 {
		return // its fee was raised often enough
	}
	h.world.pending = slices.Delete(h.pending, i, i+1)
	to := h.node.Miner()
	if h.random.IntN(2) == 0 {
		to = h.anyPaid()
	}
	h.enter(h.node.Replacement(h, old.tx, to, 10_000+h.random.Int64N(90_000)), "replacement of %s, to %s", old.tx.TxHash().String()[:8], to)
}

func (h *history) anyPaid() string {
	at, _ := h.rail.Address(uint32(h.random.IntN(h.paid + 1)))
	return at
}

// round is one of the observer, and what it counts is looked at.
func (h *history) round() {
	_ = h.observer.Poll(h.Context()) // a failure is a state like others
	counted := h.counted()
	for id, satoshis := range counted {
		txid, _, _ := strings.Cut(id, ":")
		if txid == h.early {
			h.fail("counts %s, which is older than the first start", id)
		}
		if h.depths[txid] < h.confirmations {
			h.fail("counts %s, which had %d confirmations at most", id, h.depths[txid])
			continue
		}
		for _, p := range h.payments {
			if p.tx.TxHash().String() == txid && p.tx.TxOut[0].Value != satoshis {
				h.fail("counts %d satoshis of %s", satoshis, id)
			}
		}
	}
	if at := h.observer.Address(); at != "" && h.indexOf[at] > h.paid+1 {
		h.fail("publishes the address %d after %d was paid to", h.indexOf[at], h.paid)
	}
}

func (h *history) fail(text string, args ...any) {
	if len(h.wrong) < 3 {
		h.note("WRONG: "+text, args...)
		h.wrong = append(h.wrong, fmt.Sprintf(text, args...))
	}
}

// counted are the payments that count: satoshis by "txid:vout".
func (h *history) counted() map[string]int64 {
	rows, err := h.book.Receipts(h.Context(), "shop", 0, 1000)
	if err != nil {
		h.fail("the ledger: %v", err)
	}
	counted := make(map[string]int64)
	for _, r := range rows {
		if r.Status == ledger.StatusConfirmed {
			counted[r.ExternalID] = r.Amount
		}
	}
	return counted
}

// end has the liar keep to a lie, or to the truth.
func (h *history) end() {
	if h.honestEnd = h.random.IntN(2) == 0; h.honestEnd {
		h.honestly()
	} else {
		h.tell()
	}
}

// outcome is how a history has ended.
type outcome struct{ equal, partial bool }

// judge compares what counts with what the chain holds.
func (h *history) judge() outcome {
	held := holds(h.node.Chain()[h.start:], func(script []byte) bool { return h.scripts[hex.EncodeToString(script)] })
	counted, health := h.counted(), h.observer.Health()
	o := outcome{maps.Equal(held, counted), health.Partial || health.Blind}
	if !o.equal && !o.partial {
		h.fail("counts %v and not %v, and says nothing", short(counted), short(held))
	}
	if h.honestEnd && (!o.equal || o.partial) {
		h.fail("counts %v of %v, partial %t, blind %t (%s), with two honest hosts", short(counted), short(held), health.Partial, health.Blind, health.LastError)
	}
	return o
}

func short(held map[string]int64) (text []string) {
	for id, satoshis := range held {
		text = append(text, fmt.Sprintf("%s=%d", id[:8], satoshis))
	}
	slices.Sort(text)
	return text
}
