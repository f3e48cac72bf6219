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

	offered := payoffertest.Offer(t, offer.Terms{ID: testOffer, BaseURL: "https://pay.example", Amount: 4200}, "base")
	offered.Card.PaymentLink = "plink_1"
	payoffertest.Rail(t, offered, "pack").(*offer.Storefront).Product = "p1"
	var accounts []ledger.Account
	for _, rail := range offered.Rails {
		accounts = append(accounts, ledger.Account{Offer: testOffer, ID: offered.AccountOf(rail), Rail: rail.Name()})
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
func (f *fixture) account(rail string) ledger.Account {
	return f.Accounts[slices.IndexFunc(f.Accounts, func(a ledger.Account) bool { return a.Rail == rail })]
}

// payment is one of 42 USD that another source reports.
func (f *fixture) payment(rail, id string, level ledger.EvidenceLevel, state ledger.Status, returns ...ledger.Return) ledger.Observation {
	f.t.Helper()
	cents := int64(4200)
	return ledger.Observation{
		Offer: testOffer, Account: f.account(rail).ID, Rail: rail, ExternalID: id, Transaction: "0x1", Asset: "USD", Amount: 4200,
		USDCents: &cents, State: state, EvidenceLevel: level, OccurredAt: f.unix - 60, Cause: "webhook", Returns: returns,
	}
}

// sees records a payment of 42 USD by another source.
func (f *fixture) sees(rail, id string, level ledger.EvidenceLevel, state ledger.Status, returns ...ledger.Return) {
	f.t.Helper()
	must(f.book.Record(f.t.Context(), nil, f.payment(rail, id, level, state, returns...)))(f.t)
}

// received is the money that counts, in US cents.
func (f *fixture) received() (cents int64) {
	f.t.Helper()
	totals := must(f.book.Totals(f.t.Context(), testOffer))(f.t)
	for _, total := range totals {
		if total.Held() {
			cents += total.USDCents - total.RefundedCents
		}
	}
	return cents
}

// history are the causes and reasons of everything that happened.
func (f *fixture) history() (lines []string) {
	f.t.Helper()
	transitions := must(f.book.Transitions(f.t.Context(), testOffer, 0, 100))(f.t)
	for _, tr := range transitions {
		lines = append(lines, string(tr.To)+" "+tr.Cause+": "+tr.Note)
	}
	return lines
}

// do performs an action.
func (f *fixture) do(action string, e manual.Entry) (Receipt, error) {
	e.Action = action
	return f.Enter(f.t.Context(), e)
}

func (f *fixture) must(action string, e manual.Entry) Receipt {
	f.t.Helper()
	receipt, err := f.do(action, e)
	require.NoError(f.t, err, "%s %+v", action, e)
	return receipt
}

// refuses requires that an action is refused.
func (f *fixture) refuses(action string, e manual.Entry, kind Kind, want string) {
	f.t.Helper()
	requireRefusal(f.t, errorOf(f.do(action, e)), kind, want)
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
