package operator

import (
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/manual"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

const (
	testOffer = "pay.example"
	payTo     = "0x52908400098527886E0F7030069857D2E4169EE7"
)

// fixture is a Service on a ledger, with a clock that tests set.
type fixture struct {
	*Service
	t    *testing.T
	book *ledger.Ledger
	unix int64
	// health is how well the usdc rail is observed.
	health       observe.Health
	facilitators []x402.FacilitatorHealth
	log          strings.Builder
}

func inSQLite(t *testing.T, now func() time.Time) *ledger.Ledger {
	return ledger.NewSQLite(payoffertest.LedgerFile(t), now)
}

func inPostgres(t *testing.T, now func() time.Time) *ledger.Ledger {
	return must(ledger.NewPostgres(postgres.Shared(t).DSN(t), now))(t)
}

// onEachLedger runs a test over both databases.
func onEachLedger(t *testing.T, test func(t *testing.T, o *fixture)) {
	t.Run("sqlite", func(t *testing.T) { test(t, newFixtureOn(t, inSQLite)) })
	t.Run("postgres", func(t *testing.T) { test(t, newFixtureOn(t, inPostgres)) })
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixtureOn(t, inSQLite)
}

func newFixtureOn(t *testing.T, keep func(*testing.T, func() time.Time) *ledger.Ledger) *fixture {
	t.Helper()
	o := &fixture{t: t, unix: 1_795_262_400, health: observe.Health{Rail: "usdc", Source: "facilitator", Blind: true}}
	o.book = keep(t, func() time.Time { return time.Unix(o.unix, 0) })
	require.NoError(t, o.book.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, o.book.Close()) })

	network := must(offer.LookupNetwork("base"))(t)
	card, err := offer.NewCard("https://checkout.example/pay", nil, 4200)
	require.NoError(t, err)
	usdc := must(offer.NewUSDC("usdc", network, payTo, 4200))(t)
	transfer := must(offer.NewBankTransfer("transfer", "pay@example.org", "memo", "Example", 4200))(t)
	shop, err := offer.NewStorefront("pack", "https://shop.example/pack", 4200)
	require.NoError(t, err)
	terms := offer.Terms{ID: testOffer, BaseURL: "https://pay.example", Amount: 4200}
	offered := must(offer.New(terms, card, usdc, transfer, shop))(t)

	accounts := []ledger.Account{
		{Offer: testOffer, ID: "stripe/plink_1", Rail: "card"}, {Offer: testOffer, ID: usdc.Account(), Rail: "usdc"},
		{Offer: testOffer, ID: "operator/pay.example/transfer", Rail: "transfer"}, {Offer: testOffer, ID: "gumroad/p1", Rail: "pack"},
	}
	require.NoError(t, o.book.Register(t.Context(), accounts...))
	o.Service = &Service{
		Trouble: func() string { return "" },
		Offer:   offered, Ledger: o.book, Now: func() time.Time { return time.Unix(o.unix, 0) }, Logger: slog.New(slog.NewTextHandler(&o.log, nil)),
		Accounts: accounts, Page: page, Announcer: new(announce.Announcer),
		Health:       func() []observe.Health { return []observe.Health{o.health} },
		Facilitators: func() []x402.FacilitatorHealth { return o.facilitators },
	}
	return o
}

// page is the address of a receipt's page.
func page(r ledger.Receipt) string { return "https://pay.example/v1/receipt/" + r.ExternalID }

func requireRefusal(t testing.TB, err error, kind Kind, sentence string) {
	t.Helper()
	var refused *Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, kind, refused.Kind, refused.Sentence)
	require.Contains(t, refused.Sentence, sentence)
}

// account is that of a rail.
func (o *fixture) account(rail string) ledger.Account {
	return o.Accounts[slices.IndexFunc(o.Accounts, func(a ledger.Account) bool { return a.Rail == rail })]
}

// payment is one of 42 USD that another source reports.
func (o *fixture) payment(rail, id string, level ledger.EvidenceLevel, state ledger.Status, returns ...ledger.Return) ledger.Observation {
	o.t.Helper()
	cents := int64(4200)
	return ledger.Observation{
		Offer: testOffer, Account: o.account(rail).ID, Rail: rail, ExternalID: id, Transaction: "0x1", Asset: "USD", Amount: 4200,
		USDCents: &cents, State: state, EvidenceLevel: level, OccurredAt: o.unix - 60, Cause: "webhook", Returns: returns,
	}
}

// sees records a payment of 42 USD by another source.
func (o *fixture) sees(rail, id string, level ledger.EvidenceLevel, state ledger.Status, returns ...ledger.Return) {
	o.t.Helper()
	must(o.book.Record(o.t.Context(), nil, o.payment(rail, id, level, state, returns...)))(o.t)
}

// received is the money that counts, in US cents.
func (o *fixture) received() (cents int64) {
	o.t.Helper()
	totals := must(o.book.Totals(o.t.Context(), testOffer))(o.t)
	for _, total := range totals {
		if total.Held() {
			cents += total.USDCents - total.RefundedCents
		}
	}
	return cents
}

// history are the causes and reasons of everything that happened.
func (o *fixture) history() (lines []string) {
	o.t.Helper()
	transitions := must(o.book.Transitions(o.t.Context(), testOffer, 0, 100))(o.t)
	for _, tr := range transitions {
		lines = append(lines, string(tr.To)+" "+tr.Cause+": "+tr.Note)
	}
	return lines
}

// do performs an action.
func (o *fixture) do(action string, e manual.Entry) (Receipt, error) {
	e.Action = action
	return o.Enter(o.t.Context(), e)
}

func (o *fixture) must(action string, e manual.Entry) Receipt {
	o.t.Helper()
	receipt, err := o.do(action, e)
	require.NoError(o.t, err, "%s %+v", action, e)
	return receipt
}

// refuses requires that an action is refused.
func (o *fixture) refuses(action string, e manual.Entry, kind Kind, want string) {
	o.t.Helper()
	requireRefusal(o.t, errorOf(o.do(action, e)), kind, want)
}

func inv7(amount json.Number, reason string) manual.Entry {
	return manual.Entry{Rail: "transfer", Reference: "INV-7", Amount: amount, Reason: reason}
}

// must fails the test if a call fails, and returns its value: must(call())(t).
func must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}

// errorOf is the error of a call.
func errorOf[T any](_ T, err error) error { return err }
