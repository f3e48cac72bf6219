package lightning

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

func TestInvoiceIsStoredBeforeItIsReturned(t *testing.T) {
	s := openShop(t, payoffertest.WalletAlby)
	i := s.invoice()
	made := s.wallet.Invoices()[0]
	require.Equal(t, ledger.Invoice{
		Hash: made.Hash, Offer: testOffer, Account: "lightning/" + s.wallet.Address(), Rail: "lightning", Request: made.Request,
		Verify: "http://" + s.wallet.Host() + "/verify/" + made.Hash, Satoshis: 46_667, USDCents: 4200,
		CreatedAt: 1_795_250_000, ExpireAt: 1_795_253_600,
	}, i)
	require.Equal(t, i, s.stored(i.Hash))
	require.Equal(t, int64(46_667_000), made.Millisatoshis)
}

func TestPaidInvoiceBecomesOneReceipt(t *testing.T) {
	for name, c := range map[string]struct {
		kind   payoffertest.WalletKind
		script payoffertest.WalletScript
		proof  string
	}{
		"Alby":             {payoffertest.WalletAlby, payoffertest.WalletScript{}, "true"},
		"BTCPay":           {payoffertest.WalletBTCPay, payoffertest.WalletScript{}, "true"},
		"without preimage": {payoffertest.WalletBTCPay, payoffertest.WalletScript{Preimage: "none"}, "false"},
	} {
		t.Run(name, func(t *testing.T) {
			s := openShop(t, c.kind)
			s.wallet.Set(c.script)
			i := s.invoice()
			s.look(0)
			require.Empty(t, s.receipts(), "an invoice is no payment")
			s.wallet.Pay(t, i.Hash)
			s.look(3 * time.Second)
			rows := s.receipts()
			require.Len(t, rows, 1)
			row := rows[0]
			require.Equal(t, i.Hash, row.ExternalID)
			require.Equal(t, int64(46_667), row.Amount)
			require.Equal(t, int64(4200), *row.USDCents)
			require.Equal(t, "BTC", row.Asset)
			require.Equal(t, ledger.BasisQuote, row.ValueBasis)
			require.Equal(t, ledger.StatusConfirmed, row.Status)
			require.Equal(t, ledger.LevelProvider, row.EvidenceLevel)
			require.JSONEq(t, `{"wallet":"`+s.wallet.Address()+`","verified":"127.0.0.1","preimage":`+c.proof+`}`, string(row.Evidence))
			require.NotContains(t, string(row.Evidence), s.wallet.Invoices()[0].Preimage)

			asked := len(s.wallet.Requests("/verify/"))
			s.restart()
			s.look(time.Hour)
			require.Len(t, s.wallet.Requests("/verify/"), asked, "a paid invoice is not asked for again")
			require.Len(t, s.receipts(), 1)
		})
	}
}

func TestWalletThatLiesIsNotBelieved(t *testing.T) {
	for name, script := range map[string]payoffertest.WalletScript{
		"a preimage of another payment": {Settled: true, Preimage: "wrong"},
		"another invoice":               {Lie: true},
		"another invoice, no preimage":  {Lie: true, Preimage: "none"},
	} {
		t.Run(name, func(t *testing.T) {
			s := openShop(t, payoffertest.WalletAlby)
			i := s.invoice()
			s.wallet.Set(script)
			s.look(0)
			s.look(time.Minute)
			require.Empty(t, s.receipts())
			require.Zero(t, s.stored(i.Hash).ClosedAt)
			require.Equal(t, observe.ErrDisagree, s.Health().LastError)
			require.Equal(t, 1, strings.Count(s.log.String(), "lightning wallet answers about another payment"))

			s.wallet.Set(payoffertest.WalletScript{})
			s.wallet.Pay(t, i.Hash)
			s.look(time.Hour)
			require.Len(t, s.receipts(), 1)
			require.Empty(t, s.Health().LastError)
		})
	}
}

func TestRepeatedInvoiceIsRefused(t *testing.T) {
	for _, kind := range []payoffertest.WalletKind{payoffertest.WalletAlby, payoffertest.WalletBTCPay} {
		s := openShop(t, kind)
		first := s.invoice()
		s.wallet.Set(payoffertest.WalletScript{Repeat: true})
		_, err := s.NewInvoice(t.Context())
		require.Error(t, err, "two payers would pay one purchase")
		require.Contains(t, s.log.String(), "repeats an invoice")
		s.wallet.Set(payoffertest.WalletScript{})
		require.NotEqual(t, first.Hash, s.invoice().Hash, "the parameters are read for each invoice")
	}
}

func TestInvoiceThatDoesNotFitIsRefused(t *testing.T) {
	for name, script := range map[string]payoffertest.WalletScript{
		"a satoshi less":     {Off: -1000},
		"a satoshi more":     {Off: 1000},
		"another network":    {Network: "tb"},
		"ended":              {Expiry: 29 * time.Second},
		"a lifetime":         {Expiry: 61 * 24 * time.Hour},
		"more than the most": {Most: 46_666_999},
		"below the least":    {Least: 46_667_001},
		"an error":           {Status: http.StatusNotFound},
		"an error with 200":  {Status: http.StatusOK},
		"down":               {Status: http.StatusBadGateway},
	} {
		t.Run(name, func(t *testing.T) {
			s := openShop(t, payoffertest.WalletAlby)
			s.wallet.Set(script)
			_, err := s.NewInvoice(t.Context())
			require.Error(t, err)
			open, err := s.db.OpenInvoices(t.Context(), testOffer, s.Rail.Account())
			require.NoError(t, err)
			require.Empty(t, open)
			require.NotEmpty(t, s.Health().LastError)
			require.Contains(t, s.log.String(), "lightning wallet gives no invoice")
			require.NotContains(t, s.log.String(), "as scripted", "an upstream's text is never logged")
		})
	}
}

// A payer who leaves a slow wallet has no invoice, and the wallet's long answers are not read.
func TestSlowAndLongAnswersOfWalletMakeNoInvoice(t *testing.T) {
	s := openShop(t, payoffertest.WalletAlby)
	s.wallet.Set(payoffertest.WalletScript{Hang: true})
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		s.wallet.Await("/.well-known/", 1)
		leave()
	}()
	_, err := s.NewInvoice(ctx)
	require.Error(t, err)

	long := func(size int) answers {
		return func(r *http.Request) (*http.Response, error) {
			body := `{"settled":true,"padding":"` + strings.Repeat("x", size) + `"}`
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		}
	}
	for size, want := range map[int]bool{maxAnswer / 2: true, maxAnswer: false} {
		paid, _, err := newWallet(s.config(s.Rail, long(size))).isPaid(t.Context(), ledger.Invoice{Verify: "https://wallet.example/1"})
		require.Equal(t, want, paid)
		require.Equal(t, want, err == nil)
	}
}

func TestInvoiceNeedsRateAndLedger(t *testing.T) {
	s := openShop(t, payoffertest.WalletAlby)
	s.Price = func() (int64, int64) { return 0, 4200 }
	_, err := s.NewInvoice(t.Context())
	require.Error(t, err)
	require.Empty(t, s.wallet.Invoices())

	s.restart()
	require.NoError(t, s.db.Close())
	_, err = s.NewInvoice(t.Context())
	require.ErrorIs(t, err, observe.ErrNoLedger, "a payer sees no invoice that is not stored")
}

func TestInvoicesOfAllPayersAreLimited(t *testing.T) {
	s := openShop(t, payoffertest.WalletAlby)
	for range invoicesPerMinute {
		s.invoice()
	}
	require.False(t, s.IsReady())
	_, err := s.NewInvoice(t.Context())
	require.Error(t, err)
	require.Len(t, s.wallet.Invoices(), invoicesPerMinute)
	s.clock.pass(2 * time.Second)
	require.True(t, s.IsReady())
	require.True(t, s.IsReady(), "to ask takes none")
	s.invoice()
	require.False(t, s.IsReady())
}

func TestLatePaymentCountsAfterRestart(t *testing.T) {
	s := openShop(t, payoffertest.WalletAlby)
	i := s.invoice()
	s.restart()
	s.wallet.Pay(t, i.Hash)
	s.look(time.Hour + grace + 5*24*time.Hour)
	require.Len(t, s.receipts(), 1, "it is asked for once more, however long the server was away")
	require.NotZero(t, s.stored(i.Hash).ClosedAt)
}

// A wallet may take a payment for weeks. A payer who waits for a cheaper bitcoin does not pay the price.
func TestValueOfLatePaymentFollowsRate(t *testing.T) {
	const hour = ledger.InvoicePrice
	half := func() (int64, int64) { return 2 * 46_667, 4200 } // bitcoin fell
	unknown := func() (int64, int64) { return 0, 4200 }
	for name, c := range map[string]struct {
		unpaid, paid time.Duration // after the invoice, when the wallet answers
		price        func() (int64, int64)
		cents        int64 // -1 for unknown
		basis        ledger.ValueBasis
	}{
		"in time":                             {hour - time.Minute, hour, half, 4200, ledger.BasisQuote},
		"in time, seen late":                  {hour, 20 * time.Hour, half, 4200, ledger.BasisQuote},
		"late":                                {hour + time.Second, 2 * hour, half, 2100, ledger.BasisRate},
		"late, the price rose":                {hour + time.Second, 2 * hour, func() (int64, int64) { return 23_333, 4200 }, 8400, ledger.BasisRate},
		"late, no price":                      {hour + time.Second, 2 * hour, unknown, -1, ""},
		"in time, no price":                   {hour - time.Minute, hour, unknown, 4200, ledger.BasisQuote},
		"seen first after the server returns": {-1, 20 * time.Hour, half, 4200, ledger.BasisQuote},
	} {
		t.Run(name, func(t *testing.T) {
			s := openShop(t, payoffertest.WalletAlby)
			s.wallet.Set(payoffertest.WalletScript{Expiry: 30 * 24 * time.Hour})
			i := s.invoice()
			if s.Price = c.price; c.unpaid >= 0 {
				s.look(c.unpaid)
				c.paid -= c.unpaid
			}
			s.wallet.Pay(t, i.Hash)
			s.look(c.paid)
			rows := s.receipts()
			require.Len(t, rows, 1)
			require.Equal(t, int64(46_667), rows[0].Amount)
			require.Equal(t, c.basis, rows[0].ValueBasis)
			if c.cents < 0 {
				require.Nil(t, rows[0].USDCents, "the seller states it")
				return
			}
			require.Equal(t, c.cents, *rows[0].USDCents)
		})
	}
}

// Silence of the wallet is no answer that nothing was paid.
func TestPaymentDuringFailureOfWalletKeepsItsPrice(t *testing.T) {
	s := openShop(t, payoffertest.WalletAlby)
	i := s.invoice()
	s.look(time.Minute)
	s.wallet.Pay(t, i.Hash)
	s.wallet.Set(payoffertest.WalletScript{Status: http.StatusBadGateway})
	s.look(2 * time.Hour)
	s.wallet.Set(payoffertest.WalletScript{})
	s.Price = func() (int64, int64) { return 2 * 46_667, 4200 }
	s.look(time.Hour)
	rows := s.receipts()
	require.Len(t, rows, 1)
	require.Equal(t, int64(4200), *rows[0].USDCents)
}

func TestUnpaidInvoiceIsClosedAfterGrace(t *testing.T) {
	s := openShop(t, payoffertest.WalletAlby)
	i := s.invoice()
	s.look(time.Hour + grace)
	require.Zero(t, s.stored(i.Hash).ClosedAt)
	s.look(4 * time.Hour)
	require.NotZero(t, s.stored(i.Hash).ClosedAt)
	s.look(time.Hour)
	require.Len(t, s.wallet.Requests("/verify/"), 2)
}

// A wallet that forgets an invoice for a time loses no money.
func TestUnknownInvoiceIsReportedAndAskedForAgain(t *testing.T) {
	for name, script := range map[string]payoffertest.WalletScript{"404": {Unknown: true}, "200": {UnknownOK: true}} {
		t.Run(name, func(t *testing.T) {
			s := openShop(t, payoffertest.WalletBTCPay)
			i := s.invoice()
			s.wallet.Set(script)
			for range unknownTimes + 1 {
				s.look(time.Hour)
			}
			require.Equal(t, 1, strings.Count(s.log.String(), "lightning wallet does not know an invoice"))
			require.Empty(t, s.Health().LastError, "the wallet answers")
			require.NotContains(t, s.log.String(), "payments cannot be read")
			s.look(48 * time.Hour)
			require.Zero(t, s.stored(i.Hash).ClosedAt)
			s.wallet.Set(payoffertest.WalletScript{})
			s.wallet.Pay(t, i.Hash)
			s.look(48 * time.Hour)
			require.Len(t, s.receipts(), 1)
		})
	}
}

func TestInvoiceWithoutAnswerIsAbandonedAtLast(t *testing.T) {
	s := openShop(t, payoffertest.WalletAlby)
	i := s.invoice()
	s.wallet.Set(payoffertest.WalletScript{Status: http.StatusBadGateway})
	s.look(time.Hour + grace + abandonAfter)
	require.Zero(t, s.stored(i.Hash).ClosedAt)
	s.look(4 * 24 * time.Hour)
	require.NotZero(t, s.stored(i.Hash).ClosedAt)
}

func TestFailuresOfWalletDoublePauses(t *testing.T) {
	s := openShop(t, payoffertest.WalletAlby)
	s.look(0)
	s.invoice()
	s.wallet.Set(payoffertest.WalletScript{Status: http.StatusBadGateway})
	asked := func() int { return len(s.wallet.Requests("/verify/")) }
	s.look(0)
	require.Equal(t, observe.ErrUnreachable, s.Health().LastError)
	for n, pause := range []time.Duration{6, 12, 24, 48} {
		s.look(pause*time.Second - time.Second)
		require.Equal(t, n+1, asked())
		s.look(time.Second)
		require.Equal(t, n+2, asked())
	}
	require.False(t, s.Health().Blind)
	s.look(time.Second)
	require.Equal(t, observe.ErrUnreachable, s.Health().LastError, "nothing is due, and the wallet is still down")
	s.clock.pass(staleAfter)
	require.True(t, s.Health().Blind, "money may have come unseen")
	s.wallet.Set(payoffertest.WalletScript{})
	s.look(time.Hour)
	require.Equal(t, observe.Health{Rail: "lightning", Source: "provider", At: s.clock.Now().Unix(), ObservedThrough: s.clock.Now().UTC().Format(time.RFC3339)}, s.Health())
}

// A wallet's host that asks for a pause gets it, but a payer who has the page open is not left without an answer for an hour.
func TestPauseOfWalletIsShortWhilePageIsOpen(t *testing.T) {
	s := openShop(t, payoffertest.WalletAlby)
	s.Known.asked.Store(true)
	i := s.invoice()
	asked := 0
	s.Observer.wallet.client.Transport = answers(func(r *http.Request) (*http.Response, error) {
		asked++
		return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"3600"}}, Body: http.NoBody, Request: r}, nil
	})
	require.Equal(t, time.Hour, s.look(0))
	for n := range 8 {
		s.clock.pass(watchedPause)
		s.Watch(i.Hash)
		require.Equal(t, watchedPause, s.look(0))
		require.Equal(t, n+2, asked, "the pause after failures is no longer, either")
	}
	require.Equal(t, time.Hour, s.look(time.Hour), "the page was closed")
}

func TestPausesGrowWithAge(t *testing.T) {
	created := time.Unix(1_795_250_000, 0)
	for age, want := range map[time.Duration]time.Duration{
		0: 3 * time.Second, 2*time.Minute - 1: 3 * time.Second, 2 * time.Minute: 10 * time.Second, 10 * time.Minute: 30 * time.Second,
		time.Hour: 5 * time.Minute, 24 * time.Hour: 2 * time.Hour,
	} {
		e := &entry{Invoice: ledger.Invoice{CreatedAt: created.Unix()}, asked: created.Add(age)}
		require.Equal(t, want, e.due(e.asked).Sub(e.asked), age)
	}
}

func TestOldOrEndedInvoiceIsNotWatched(t *testing.T) {
	created := time.Unix(1_795_250_000, 0)
	e := &entry{Invoice: ledger.Invoice{CreatedAt: created.Unix(), ExpireAt: created.Add(time.Hour).Unix()}}
	for age, want := range map[time.Duration]bool{0: true, watchedAge - time.Second: true, watchedAge: false} {
		now := created.Add(age)
		e.watched = now
		require.Equal(t, want, e.isWatched(now), age)
		require.False(t, e.isWatched(now.Add(watchFor)), "the page is closed")
	}
	e.ExpireAt, e.watched = created.Add(time.Minute).Unix(), created.Add(59*time.Second)
	require.True(t, e.isWatched(e.watched))
	require.False(t, e.isWatched(created.Add(time.Minute)), "it has ended")
}

func TestInvoicesWithOpenPageAreAskedForFirst(t *testing.T) {
	s := openShop(t, payoffertest.WalletAlby)
	var hashes []string
	for range 8 {
		hashes = append(hashes, s.invoice().Hash)
		s.clock.pass(time.Second)
	}
	for _, hash := range hashes[4:] {
		s.Watch(hash)
	}
	s.look(0)
	var order []string
	for _, path := range s.wallet.Requests("/verify/") {
		order = append(order, strings.TrimPrefix(path, "/verify/"))
	}
	want := []string{hashes[7], hashes[4], hashes[5], hashes[0], hashes[6]}
	require.Equal(t, want, order[:5], "one turn for the youngest, two for the most urgent, and one for the invoice that waits longest")
	require.ElementsMatch(t, hashes, order)
}

func TestWalletWithoutVerifyIsManual(t *testing.T) {
	s := openShop(t, payoffertest.WalletLNbits)
	s.look(0)
	s.look(time.Hour)
	s.reload()
	s.look(time.Hour)
	require.Len(t, s.wallet.Invoices(), 1, "a start asks once")
	require.Equal(t, "operator", s.Health().Source)
	require.Contains(t, s.log.String(), "lightning wallet does not report payments")
	require.Empty(t, s.invoice().Verify)
	s.look(time.Hour)
	require.Empty(t, s.wallet.Requests("/verify/"))
}

func TestProbeReportsVerify(t *testing.T) {
	for kind, want := range map[payoffertest.WalletKind]bool{payoffertest.WalletAlby: true, payoffertest.WalletBTCPay: true, payoffertest.WalletLNbits: false} {
		s := openShop(t, kind)
		s.wallet.Set(payoffertest.WalletScript{Least: 1_500})
		reports, err := Probe(t.Context(), s.Config)
		require.NoError(t, err)
		require.Equal(t, want, reports)
		require.Equal(t, int64(2_000), s.wallet.Invoices()[0].Millisatoshis, "a whole number of satoshis")
	}
}

func TestVerifyAddressMustBeSafe(t *testing.T) {
	for name, verify := range map[string]string{
		"plain http": "http://wallet.example/verify/1", "another scheme": "ftp://wallet.example/1", "a user": "https://a:b@wallet.example/1", "no address": "verify/1",
	} {
		s := openShop(t, payoffertest.WalletAlby)
		s.wallet.Set(payoffertest.WalletScript{Verify: verify})
		require.Empty(t, s.invoice().Verify, name)
	}
	rail, err := offer.NewLightning("alice@wallet.example", 4200)
	require.NoError(t, err)
	public := wallet{rail: rail}
	for _, address := range []string{"https://localhost/1", "https://127.0.0.1/1", "http://127.0.0.1/1", "https://[::1]:8080/1"} {
		_, err := public.parseURL(address)
		require.Error(t, err, "only a wallet of this machine may name it: %s", address)
	}
}

func TestForeignDomainOfVerifyIsLogged(t *testing.T) {
	require.Equal(t, domain("pay.wallet.example"), domain("api.wallet.example"))
	require.NotEqual(t, domain("wallet.example"), domain("other.example"))
	require.NotEqual(t, domain("one.co.uk"), domain("two.co.uk"))

	s := openShop(t, payoffertest.WalletAlby)
	s.look(0)
	require.NotContains(t, s.log.String(), "verified at another domain")
	s.wallet.Set(payoffertest.WalletScript{Verify: "https://verify.example/1"})
	s.restart()
	s.look(0)
	s.look(time.Hour)
	require.Equal(t, 1, strings.Count(s.log.String(), "verified at another domain"))
}

// A wallet can name another host for a payer than at the start.
func TestForeignDomainOfPayersInvoiceIsLoggedOnce(t *testing.T) {
	s := openShop(t, payoffertest.WalletAlby)
	s.look(0)
	s.wallet.Set(payoffertest.WalletScript{Verify: "https://verify.example/1"})
	for range 3 {
		s.invoice()
	}
	s.reload()
	s.invoice()
	require.Equal(t, 1, strings.Count(s.log.String(), "verified at another domain"))
	require.Contains(t, s.log.String(), "host=verify.example")
}

// answers is a transport with one answer.
type answers func(r *http.Request) (*http.Response, error)

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

func TestRedirectOfWalletIsNotFollowed(t *testing.T) {
	s := openShop(t, payoffertest.WalletAlby)
	asked := 0
	w := newWallet(s.config(s.Rail, answers(func(r *http.Request) (*http.Response, error) {
		asked++
		return &http.Response{StatusCode: http.StatusFound, Header: http.Header{"Location": {"http://127.0.0.1:1/"}}, Body: http.NoBody, Request: r}, nil
	})))
	_, err := w.invoice(t.Context(), 1)
	require.Error(t, err)
	require.Equal(t, 1, asked)
}

func TestLedgerErrorKeepsInvoiceOpen(t *testing.T) {
	s := openShop(t, payoffertest.WalletAlby)
	i := s.invoice()
	s.wallet.Pay(t, i.Hash)
	s.Ledger = failing{s.db}
	s.look(0)
	require.Equal(t, observe.ErrLedger, s.Health().LastError)
	require.Empty(t, s.receipts())
	s.Ledger = s.db
	s.look(time.Second)
	require.Len(t, s.receipts(), 1)
}

// failing is a ledger that stores no receipt.
type failing struct{ *ledger.Ledger }

func (failing) Record(context.Context, *ledger.Cursor, ...ledger.Observation) ([]ledger.Receipt, error) {
	return nil, errors.New("the disk is full")
}
