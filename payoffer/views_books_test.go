package payoffer

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/observations"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
	"github.com/payoffer/caddy-pay-offer/payoffer/web"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// row is what a view says of one payment; amounts are atomic units, and cents
// what is left of the value in US cents, 0 while it is not known.
type row struct {
	status, evidence   string
	amount, refunded   int64
	cents              int64
	own, test, counted bool
}

// money is what a view comes to, in US cents and in payments.
type money struct{ received, external, count int64 }

func (m *money) add(r row) {
	if !r.counted {
		return
	}
	m.received, m.count = m.received+r.cents, m.count+1
	if !r.own {
		m.external += r.cents
	}
}

// place is where the payments of the tales go.
type place struct {
	account, rail string
	chain, test   bool
}

var places = []place{
	{"eip155:8453/usdc", "usdc", true, false}, {"eip155:84532/usdc", "usdc-84532", true, true},
	{"plink_1", "card", false, false}, {"bank", "transfer", false, false},
}

// viewed is a ledger and everything that looks at it.
type viewed struct {
	t      *testing.T
	ledger *ledger.Ledger
	server *web.Server
	stop   func()

	mu     sync.Mutex
	events map[string]row // by rail and reference, as announced last
	told   chan struct{}  // is sent to after each announcement
}

// sellsNothing is a seller whose payments are not looked at here.
type sellsNothing struct{}

func (sellsNothing) Quote() *x402.Quote                                  { return new(x402.Quote) }
func (sellsNothing) Refusal(string) *x402.Quote                          { return new(x402.Quote) }
func (sellsNothing) QuoteFor(offer.Resource, bool, string) *x402.Quote   { return new(x402.Quote) }
func (sellsNothing) Identify(x402.Attempt) (id x402.Identity, err error) { return id, nil }
func (sellsNothing) Accepts() []x402.Requirements                        { return nil }
func (sellsNothing) SignReceipt(_, _, _ string, _ int64) *x402.Artifact  { return nil }
func (sellsNothing) Verify(context.Context, x402.Attempt) (v *x402.Verified, o x402.Outcome) {
	return v, o
}
func (sellsNothing) Pay(context.Context, x402.Attempt) x402.Outcome { return x402.Outcome{} }

// openViewed opens books on a new ledger, or on what a copy holds. events is what
// the receiver of announcements has heard before.
func openViewed(t *testing.T, create func(*testing.T) *ledger.Ledger, copied string, events map[string]row) *viewed {
	t.Helper()
	b := &viewed{t: t, ledger: create(t), events: events, told: make(chan struct{}, 1)}
	require.NoError(t, b.ledger.Open(t.Context()))
	if copied != "" {
		must(b.ledger.Restore(t.Context(), copied))(t)
	}
	for _, p := range places {
		require.NoError(t, b.ledger.Register(t.Context(), ledger.Account{Offer: observations.Offer, ID: p.account, Rail: p.rail, Testnet: p.test}))
	}
	var err error
	b.server, err = web.New(web.Config{
		Offer: offerViewed(t), Payments: sellsNothing{}, Receipts: b.ledger, Agent: http.NotFoundHandler(),
		Live: func() (now offer.Live) { return now }, Health: func() []observe.Health { return nil },
		WaitStarted: func(context.Context) {}, ClockOffset: func() time.Duration { return 0 }, QRKey: func() []byte { return make([]byte, 32) },
		ClientIP: func(*http.Request) string { return "" }, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	announcer, err := announce.New(announce.Config{Offer: *offerViewed(t), Ledger: b.ledger, Owner: "views", Emit: b.hear})
	require.NoError(t, err)
	require.NoError(t, announce.Load(t.Context(), announcer))
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { announcer.Run(ctx) })
	b.stop = func() { cancel(); work.Wait() }
	return b
}

// onSQLite and onPostgres create a ledger each.

func onSQLite(t *testing.T) *ledger.Ledger {
	return ledger.NewSQLite(payoffertest.LedgerFile(t), time.Now)
}

func onPostgres(t *testing.T) *ledger.Ledger {
	return must(ledger.NewPostgres(postgres.Shared(t).DSN(t), time.Now))(t)
}

func (v *viewed) close() {
	v.stop()
	require.NoError(v.t, v.ledger.Close())
}

// offerViewed has a rail of every kind of evidence; its money is real.
func offerViewed(t *testing.T) *offer.Offer {
	t.Helper()
	terms := offer.Terms{
		ID: observations.Offer, BaseURL: "https://pay.example", SiteURL: "https://www.example", Name: "Example Offer", Operator: "Example Org",
		Description: "One fixed payment.", SourceURL: "https://code.example/offer", Account: "pay", Amount: 42_00, Updated: "2026-11-21",
	}
	card, err := offer.NewCard("https://checkout.example/pay", nil, terms.Amount)
	require.NoError(t, err)
	network := must(offer.LookupNetwork("base"))(t)
	usdc := must(offer.NewUSDC("usdc", network, "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045", terms.Amount))(t)
	transfer := must(offer.NewBankTransfer("transfer", "bank@example.org", "Example", terms.Operator, terms.Amount))(t)
	return must(offer.New(terms, card, usdc, transfer))(t)
}

// get reads JSON of the service.
func (v *viewed) get(target string, into any) {
	v.t.Helper()
	w := httptest.NewRecorder()
	require.True(v.t, v.server.Serve(w, httptest.NewRequest(http.MethodGet, target, nil)))
	require.Equal(v.t, http.StatusOK, w.Code, w.Body)
	require.NoError(v.t, json.Unmarshal(w.Body.Bytes(), into))
}

// report is what the sums of the report say.
func (v *viewed) report() (m money) {
	var r struct {
		ReceivedUSD string `json:"receivedUsdDecimal"`
		ExternalUSD string `json:"externalUsdDecimal"`
		Payments    int64
		Rails       []struct {
			Testnet   bool
			Confirmed *struct {
				Count            int64
				AmountUSDDecimal string
			}
		}
	}
	v.get("/v1/received", &r)
	return money{inCents(v.t, r.ReceivedUSD), inCents(v.t, r.ExternalUSD), r.Payments}
}

func inCents(t *testing.T, decimal string) int64 {
	t.Helper()
	return must(strconv.ParseInt(strings.Replace(decimal, ".", "", 1), 10, 64))(t)
}

// shown is a payment in the words of the report and of the feed.
type shown struct {
	Number                              int64
	Rail, ID, Receipt, Status, Evidence string
	AmountAtomic, RefundedAtomic        int64   `json:",string"`
	AmountUSD                           *string `json:"amountUsdDecimal"`
	Own, Testnet                        bool
}

// row is what it says.
func (s shown) row(t *testing.T) row {
	var value *int64
	if s.AmountUSD != nil {
		cents := inCents(t, *s.AmountUSD)
		value = &cents
	}
	return newRow(s.Status, s.Evidence, value, s.AmountAtomic, s.RefundedAtomic, s.Own, s.Testnet)
}

// newRow is a row of a view that says nothing of whether it counts.
func newRow(status, evidence string, cents *int64, amount, refunded int64, own, test bool) row {
	r := row{status: status, evidence: evidence, amount: amount, refunded: refunded, own: own, test: test}
	if cents != nil {
		if r.cents = *cents; amount > 0 {
			r.cents -= *cents * refunded / amount
		}
	}
	r.counted = status == string(ledger.StatusConfirmed) && !test
	return r
}

// rows are the receipts of the report, page by page.
func (v *viewed) rows() map[string]row {
	rows := make(map[string]row)
	for next := "/v1/received?limit=100"; next != ""; {
		var page struct {
			Receipts []shown
			Next     *string
		}
		v.get(next, &page)
		for _, r := range page.Receipts {
			rows[r.Rail+" "+r.ID] = r.row(v.t)
		}
		if next = ""; page.Next != nil {
			next = strings.TrimPrefix(*page.Next, "https://pay.example")
		}
	}
	return rows
}

// reader reads the feed and keeps what it has read.
type reader struct {
	at   string
	rows map[string]row
}

func newReader() *reader { return &reader{at: "0", rows: make(map[string]row)} }

// readAll goes on to the end.
func (r *reader) readAll(b *viewed) {
	b.t.Helper()
	for next := "/v1/received?after=" + r.at; ; {
		var page struct {
			Transitions  []shown
			Cursor, Next string
		}
		b.get(next, &page)
		for _, t := range page.Transitions {
			r.rows[t.Rail+" "+t.Receipt] = t.row(b.t)
		}
		r.at, next = page.Cursor, strings.TrimPrefix(page.Next, "https://pay.example")
		if len(page.Transitions) == 0 {
			return
		}
	}
}

// metrics are what is confirmed of real money.
func (v *viewed) metrics() (m money) {
	totals := must(v.ledger.Totals(v.t.Context(), observations.Offer))(v.t)
	setSums(func(desc *prometheus.Desc, value float64, labels ...string) {
		if len(labels) != 5 || labels[2] != string(ledger.StatusConfirmed) || labels[4] != "false" {
			return
		}
		switch desc {
		case gaugeReceipts:
			m.count += int64(value)
		case gaugeAmount:
			m.received += int64(math.Round(value * 100))
		}
	}, observations.Offer, totals)
	return m
}

// hear takes an announcement.
func (v *viewed) hear(_ string, data map[string]any) error {
	encoded, err := json.Marshal(data)
	if err != nil {
		return err
	}
	var e struct {
		shown
		ExternalID string
		Counted    bool
	}
	if err := json.Unmarshal(encoded, &e); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	r := e.row(v.t)
	r.counted = e.Counted // which the announcement says itself
	v.events[e.Rail+" "+e.ExternalID] = r
	select {
	case v.told <- struct{}{}:
	default:
	}
	return nil
}

// announced are the payments as they were announced last, once all are: they are
// announced in order, and the last of all is one that is made for this.
func (v *viewed) announced() map[string]row {
	const end = "the end"
	last := observations.Card(end, ledger.StatusSeen)
	last.Account, last.Rail = "bank", "transfer"
	must(v.ledger.Record(v.t.Context(), nil, last))(v.t)
	for {
		v.mu.Lock()
		_, done := v.events["transfer "+end]
		v.mu.Unlock()
		if done {
			break
		}
		<-v.told
	}
	delete(v.events, "transfer "+end)
	return v.events
}

// exported is what the movements that count add up to.
func (v *viewed) exported() (m money) {
	books := &operator.Service{Offer: offerViewed(v.t), Ledger: v.ledger, Page: v.server.ReceiptURL, Logger: slog.New(slog.DiscardHandler)}
	left := make(map[int64]row) // of each payment, by its number
	var end *operator.MovementsEnd
	require.NoError(v.t, books.Movements(v.t.Context(), func(line operator.MovementLine) error {
		if end = line.End; end == nil && line.Counted {
			r := left[line.Number]
			r.own, r.status, r.evidence, r.counted = line.Own, line.Status, line.Evidence, line.Status == string(ledger.StatusConfirmed)
			if line.AmountUSD != nil {
				r.cents += int64(*line.AmountUSD)
			}
			left[line.Number] = r
		}
		return nil
	}))
	require.NotNil(v.t, end)
	require.Empty(v.t, end.Error)
	for number, r := range left {
		if !r.counted {
			require.Zero(v.t, r.cents, "what came and went back of %d", number)
		}
		m.add(r)
	}
	require.Equal(v.t, m.received, end.ReceivedCents)
	require.Equal(v.t, m.external, end.ExternalCents)
	return m
}
