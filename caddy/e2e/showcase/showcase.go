// Package showcase serves an offer in process with what no test machine has: every rail with a price, and receipts of
// every kind. The texts are long and have characters that need escaping.
package showcase

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/gate"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/web"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// Live is the exchange rate of the offer.
var Live = offer.Live{Satoshis: 45_678, RateAt: time.Unix(1_795_266_000, 0)}

// amount is the price.
const amount offer.USD = 42_00

// HeaderOutcome is the header of a request that says what its payment comes to, an x402.Status.
const HeaderOutcome = "Outcome"

// New returns the server of an offer.
func New(t testing.TB, o *offer.Offer) *web.Server {
	t.Helper()
	return NewAt(t, o, func() offer.Live { return Live })
}

// NewAt is New with an exchange rate that changes.
func NewAt(t testing.TB, o *offer.Offer, live func() offer.Live) *web.Server {
	t.Helper()
	server, err := web.New(web.Config{
		Offer: o, Payments: payments{}, Receipts: receipts{}, Agent: http.NotFoundHandler(),
		Live: live, Health: health, WaitStarted: func(context.Context) {}, ClockOffset: func() time.Duration { return 0 },
		QRKey: func() []byte { return make([]byte, 32) }, ClientIP: func(r *http.Request) string { return r.Header.Get(HeaderOutcome) },
		Now: func() time.Time { return Live.RateAt }, Logger: slog.New(slog.DiscardHandler),
		Invoices: map[string]web.Invoicer{offer.RailLightning: walletDown{}}, Limiter: x402.NewLimiter(x402.Limit{Attempts: 1000, Period: time.Second}),
		WatchInvoice: func(string, string) {},
	})
	require.NoError(t, err)
	return server
}

// Offer has every kind of rail, all on main networks.
func Offer(t testing.TB, baseURL string) *offer.Offer {
	t.Helper()
	o := payoffertest.Offer(t, offer.Terms{
		ID: "pay.example.org", BaseURL: baseURL, SiteURL: "https://www.example.org",
		Name: "Example & Söhne: <the> offer", Operator: "Example & Söhne", Contact: "pay@example.org",
		Description: "One fixed payment for the maintenance of a library that a good part of the world's mail servers are built on.",
		Account:     "pay", Amount: amount, Logo: baseURL + offer.PathIcon,
		Thanks: "Thank you & see you again.", Refunds: "We refund every payment within 14 days; write to pay@example.org.",
		Legal: []string{"Example & Söhne GmbH", "Musterstraße 1, 10115 Berlin", "USt-IdNr. DE123456789"},
	}, "base")
	require.NoError(t, o.BankTransfer().Publish(offer.Bank{
		AccountHolderName: "Example & Söhne GmbH", IBAN: "DE75512108001245126199", BIC: "SOGEDEFFXXX", AmountEUR: 39_00,
		RoutingNumber: "021000021", AccountNumber: "00123456789",
	}))
	card, err := offer.NewCard("https://checkout.shop/pay?a=1&b=2", []string{"card", "klarna", "link", "cashapp", "us_bank_account"}, amount) // as no demo has
	require.NoError(t, err)
	*o.Card = *card
	payoffertest.Rail(t, o, "tip-jar").(*offer.Storefront).Label = "Ko-fi"
	return o
}

// payments quotes nothing but that there is something to quote.
type payments struct{}

func (payments) Quote() *x402.Quote         { return &x402.Quote{Body: []byte("{}")} }
func (payments) Refusal(string) *x402.Quote { return &x402.Quote{Body: []byte("{}")} }
func (payments) QuoteFor(offer.Resource, bool, string) *x402.Quote {
	return &x402.Quote{Body: []byte("{}")}
}
func (payments) Identify(x402.Attempt) (id x402.Identity, err error) { return id, nil }
func (payments) Accepts() []x402.Requirements                        { return []x402.Requirements{{Scheme: "exact"}} }
func (payments) SignReceipt(_, payer, _ string, _ int64) *x402.Artifact {
	return &x402.Artifact{Format: "jws", Signature: "eyJ." + payer + "."}
}

// Pay comes to what the client asks for.
func (payments) Pay(_ context.Context, a x402.Attempt) x402.Outcome {
	return x402.Outcome{Status: x402.Status(a.Client), Detail: "This is what became of the payment.", RetryAfter: 10 * time.Second}
}

// Verify is Pay, because no payment is charged.
func (p payments) Verify(ctx context.Context, a x402.Attempt) (*x402.Verified, x402.Outcome) {
	return nil, p.Pay(ctx, a)
}

// health has a rail of every state.
func health() []observe.Health {
	at := Live.RateAt.Unix() - 12
	return []observe.Health{
		{Rail: "card", Source: "provider", At: at - 3*60*60, ObservedThrough: "2026-11-21T09:59:48Z", LastError: observe.ErrLimited},
		{Rail: "usdc", Source: "chain", ObservedThrough: "block 38123456", At: at},
		{Rail: "btc", Source: "chain", Blind: true, LastError: observe.ErrUnreachable},
		{Rail: "lightning", Source: "provider", At: at, ObservedThrough: "2026-11-21T09:59:48Z"},
		{Rail: "transfer", Source: "operator"},
		{Rail: "tip-jar", Source: "webhook", Partial: true},
	}
}

type receipts struct{ gate.Ledger }

// Prices has none, so that the price of the offer counts.
func (receipts) Prices(context.Context, string, int64, int64) ([]int64, error) { return nil, nil }

// Returns has none.
func (receipts) Returns(context.Context, string, string, string) ([]ledger.Return, error) {
	return nil, nil
}

// account is that of all receipts.
const account = "showcase"

// Receipts are the paths of the pages of all receipts, by their rails and states.
func Receipts(t testing.TB, server *web.Server) map[string]string {
	t.Helper()
	paths := make(map[string]string)
	for _, r := range states() {
		page, err := url.Parse(server.ReceiptURL(r))
		require.NoError(t, err)
		paths[r.Rail+"-"+string(r.Status)+"-"+string(r.EvidenceLevel)+"-"+r.Asset[:3]] = page.Path
	}
	return paths
}

// states is a receipt of every kind and every state.
func states() []ledger.Receipt {
	all := kinds()
	for i, status := range []ledger.Status{ledger.StatusSettling, ledger.StatusClaimed, ledger.StatusRefunded, ledger.StatusDropped} {
		r := all[0]
		r.ExternalID, r.Status, r.Own = fmt.Sprint("state-", i), status, false
		all = append(all, r)
	}
	disputed := all[2] // by the payer's bank
	disputed.ExternalID, disputed.Status, disputed.Refunded, disputed.RefundedCents = "state-disputed", ledger.StatusReversed, 0, 0
	return append(all, disputed)
}

func (receipts) Accounts(context.Context, string) ([]ledger.Account, error) {
	return []ledger.Account{{ID: account}}, nil
}

// walletDown makes no invoice.
type walletDown struct{}

func (walletDown) NewInvoice(context.Context) (ledger.Invoice, error) {
	return ledger.Invoice{}, errors.New("down")
}
func (walletDown) IsReady() bool { return true }

// invoices are those of each state, by its name.
func invoices() map[string]ledger.Invoice {
	all := make(map[string]ledger.Invoice)
	for n, state := range []string{"open", "manual", "expired"} {
		hash := make([]byte, 32)
		hash[0] = byte(n)
		made := Live.RateAt.Add(-5 * time.Minute)
		i := ledger.Invoice{
			Hash: hex.EncodeToString(hash), Offer: "pay.example.org", Account: account, Rail: offer.RailLightning,
			Request: payoffertest.SignedRequest("bc", Live.Satoshis*1000, hash, made, 15*time.Minute), Verify: "https://wallet.example/verify/1",
			Satoshis: Live.Satoshis, USDCents: int64(amount), CreatedAt: made.Unix(), ExpireAt: made.Add(15 * time.Minute).Unix(),
		}
		switch state {
		case "manual":
			i.Verify = ""
		case "expired":
			i.ExpireAt = Live.RateAt.Unix()
		}
		all[state] = i
	}
	return all
}

// Invoices are the paths of the pages of invoices that are not paid, by their states.
func Invoices(t testing.TB, server *web.Server) map[string]string {
	t.Helper()
	paths := make(map[string]string)
	for state, i := range invoices() {
		page, err := url.Parse(server.ReceiptURL(ledger.Receipt{Offer: i.Offer, Account: i.Account, ExternalID: i.Hash}))
		require.NoError(t, err)
		paths[state] = page.Path
	}
	return paths
}

func (receipts) Invoice(_ context.Context, _, _, hash string) (found ledger.Invoice, known bool, err error) {
	for _, i := range invoices() {
		if i.Hash == hash {
			found, known = i, true
		}
	}
	return found, known, nil
}

func (receipts) Payment(_ context.Context, _, _, name string) (p ledger.Payment, found bool, err error) {
	all := states()
	i := slices.IndexFunc(all, func(r ledger.Receipt) bool { return r.Name() == name })
	if i < 0 {
		return p, false, nil
	}
	return ledger.Payment{Receipt: all[i]}, true, nil
}

func (receipts) Totals(context.Context, string) ([]ledger.Total, error) {
	sum := func(rail string, standing accounting.Classification, count, amount, cents, refunded int64) ledger.Total {
		return ledger.Total{
			BalanceKey: accounting.BalanceKey{Rail: rail, Classification: standing},
			Sum:        accounting.Sum{Count: count, Amount: amount, USDCents: cents, Refunded: refunded, RefundedCents: refunded},
		}
	}
	card, chain := accounting.Classification{Status: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelSigned}, accounting.Classification{Status: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelChain}
	refunded, reversed, manual, shop, own, test := card, card, card, card, chain, chain
	refunded.Status, reversed.Status = ledger.StatusRefunded, ledger.StatusReversed
	manual.EvidenceLevel, shop.EvidenceLevel = ledger.LevelManual, ledger.LevelProvider
	own.Own, test.Testnet = true, true
	yen := sum("card", card, 1, 6_500, 0, 0)
	yen.Currency, yen.UnknownUSD = "JPY", 1
	return []ledger.Total{
		yen,
		sum("card", card, 2, 84_00, 84_00, 10_00),
		sum("card", refunded, 1, 42_00, 42_00, 42_00),
		sum("card", reversed, 1, 42_00, 42_00, 0),
		sum("usdc", chain, 2, 84_000_000, 84_00, 0),
		sum("usdc", own, 1, 1_000_000, 1_00, 0),
		sum("usdc", accounting.Classification{Status: ledger.StatusSettling}, 1, 42_000_000, 42_00, 0),
		sum("transfer", manual, 1, 42_00, 42_00, 0),
		sum("tip-jar", shop, 1, 42_00, 42_00, 0),
		sum("usdc", test, 3, 126_000_000, 126_00, 0),
	}, nil
}

// kinds is a receipt of every kind.
func kinds() []ledger.Receipt {
	cents := int64(amount)
	all := []ledger.Receipt{
		{
			Rail: "usdc", ExternalID: "eip155:8453:0x" + strings.Repeat("9f", 32) + ":0", Asset: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
			Amount: 42_000_000, USDCents: &cents, Status: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelChain, Own: true,
			Transaction: "0x" + strings.Repeat("9f", 32), Payer: "0x" + strings.Repeat("4d", 20), ValueBasis: ledger.BasisFace,
		},
		{
			Rail: "btc", Transaction: strings.Repeat("e1", 32), ExternalID: strings.Repeat("e1", 32) + ":1", Asset: "BTC", Amount: Live.Satoshis,
			Status: ledger.StatusSeen, EvidenceLevel: ledger.LevelChain,
		},
		{
			Rail: "card", ExternalID: "pi_3MtwBwLkdIwHu7ix28a3tqPa", Asset: "USD", Amount: cents, USDCents: &cents, Refunded: 10_00, RefundedCents: 10_00,
			Status: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelSigned,
		},
		{
			Rail: "card", ExternalID: "pi_3MtwBwLkdIwHu7ix28a3tqPb", Asset: "JPY", Amount: 6_500, Status: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelSigned,
		},
		{
			Rail: "btc", ExternalID: strings.Repeat("7c", 32) + ":0", Asset: "BTC", Amount: Live.Satoshis, USDCents: &cents, ValueBasis: ledger.BasisRate,
			Status: ledger.StatusMoved, EvidenceLevel: ledger.LevelChain, Own: true,
		},
		{
			Rail: "lightning", ExternalID: strings.Repeat("5a", 32), Asset: "BTC", Amount: Live.Satoshis, USDCents: &cents, ValueBasis: ledger.BasisQuote,
			Status: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelProvider,
		},
		{
			Rail: "tip-jar", ExternalID: "O6qLg3aBXOQzpQn5VYRZ8w==", Asset: "USD", Amount: cents, USDCents: &cents,
			Status: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelProvider,
		},
		{
			Rail: "transfer", ExternalID: "invoice 2026-117 <Söhne & Co>", Asset: "USD", Amount: cents, USDCents: &cents,
			Status: ledger.StatusReversed, EvidenceLevel: ledger.LevelManual,
		},
	}
	for i := range all {
		all[i].Offer, all[i].Account, all[i].OccurredAt = "pay.example.org", account, Live.RateAt.Unix()-int64(i)*86_400
	}
	return all
}

// TotalsAndReceipts has more receipts than a page shows.
func (r receipts) TotalsAndReceipts(ctx context.Context, offerID string, _ int64, limit int) ([]ledger.Total, []ledger.Receipt, error) {
	totals, err := r.Totals(ctx, offerID)
	all := kinds()
	page := make([]ledger.Receipt, limit)
	for i := range page {
		page[i] = all[i%len(all)]
		page[i].ID, page[i].ObservedAt = int64(limit-i), Live.RateAt.Unix()-int64(i)*3_600
		page[i].OccurredAt = page[i].ObservedAt - int64(i%len(all))*86_400
	}
	return totals, page, err
}

// Changes and Last: nothing ever changes.
func (receipts) Changes() uint64 { return 0 }

func (receipts) Last(context.Context, string) (last ledger.Bookmark, err error) { return last, nil }

// SessionReceipt knows the checkout cs_test_showcase.
func (receipts) SessionReceipt(_ context.Context, _, session string) (ledger.Receipt, bool, error) {
	cents := int64(amount)
	return ledger.Receipt{
		Rail: "card", ExternalID: "pi_3MtwBwLkdIwHu7ix28a3tqPa", Asset: "USD", Amount: cents, USDCents: &cents, Status: ledger.StatusConfirmed,
		EvidenceLevel: ledger.LevelSigned, OccurredAt: Live.RateAt.Unix() - 60,
	}, session == "cs_test_showcase", nil
}

// Feed has none: no page shows it.
func (receipts) Feed(context.Context, string, ledger.Bookmark, int) ([]ledger.Transition, error) {
	return nil, nil
}
