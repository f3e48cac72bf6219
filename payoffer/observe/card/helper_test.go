package card

import (
	"bytes"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

const (
	testLink    = "plink_ours"
	testAccount = "stripe/" + testLink
	testSecret  = "whsec_current_0123456789abcdef"
	testKey     = "rk_live_key"
	testStart   = 1_795_250_000
	day         = 24 * time.Hour
)

func newClock() *payoffertest.Clock { return payoffertest.NewClock(time.Unix(testStart, 0)) }

// openLedger opens a ledger in a file that knows the account.
func openLedger(t testing.TB, path string, now func() time.Time) *ledger.Ledger {
	t.Helper()
	db := ledger.NewSQLite(path, now)
	require.NoError(t, db.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	require.NoError(t, db.Register(t.Context(), ledger.Account{Offer: "shop", ID: testAccount, Rail: "card"}))
	return db
}

func tempLedger(t testing.TB) *ledger.Ledger {
	t.Helper()
	return openLedger(t, payoffertest.LedgerFile(t), newClock().Now)
}

// rig is an observer between a processor and a ledger, on one clock.
type rig struct {
	*Observer
	clock     *payoffertest.Clock
	processor *payoffertest.Processor
	db        *ledger.Ledger
	path      string
	log       bytes.Buffer
}

// newRig makes an observer with webhooks and API, which change may alter.
func newRig(t testing.TB, change func(*Config)) *rig {
	t.Helper()
	r := &rig{clock: newClock(), path: payoffertest.LedgerFile(t)}
	r.processor = payoffertest.NewProcessor(testKey, r.clock.Now)
	r.db = openLedger(t, r.path, r.clock.Now)
	r.Observer = r.observer(t, change)
	return r
}

// newReadRig is newRig after a round.
func newReadRig(t testing.TB, change func(*Config)) *rig {
	t.Helper()
	r := newRig(t, change)
	require.NoError(t, r.try(t))
	return r
}

// observer is another one on the same ledger, as after a restart.
func (r *rig) observer(t testing.TB, change func(*Config)) *Observer {
	t.Helper()
	config := Config{
		OfferID: "shop", Account: testAccount, Rail: "card", PaymentLink: testLink, Secret: testSecret, APIKey: testKey,
		Ledger: r.db, Transport: r.processor, Now: r.clock.Now, Logger: slog.New(slog.NewTextHandler(&r.log, nil)),
	}
	if change != nil {
		change(&config)
	}
	o, err := New(config)
	require.NoError(t, err)
	return o
}

// try runs one round as Run does.
func (o *Observer) try(t testing.TB) error {
	t.Helper()
	_, err := o.loop.Once(t.Context())
	return err
}

func (r *rig) deliver(t testing.TB, body []byte) observe.Verdict {
	t.Helper()
	verdict, _ := r.Receive(t.Context(), delivery(body, payoffertest.SignDelivery(body, r.clock.Now(), testSecret)))
	return verdict
}

// deliverAll delivers every event that the processor made after the first n.
func (r *rig) deliverAll(t testing.TB, n int) {
	t.Helper()
	for _, body := range r.processor.Events()[n:] {
		require.NotEqual(t, observe.Unavailable, r.deliver(t, body))
	}
}

func delivery(body []byte, headers ...string) observe.Delivery {
	return observe.Delivery{Header: http.Header{signatureHeader: headers}, Body: body}
}

// outcome is what a receipt comes to, whatever the way it got there.
type outcome struct {
	Status           ledger.Status
	Amount, Refunded int64
}

// outcomes are those of all receipts by their payment intents.
func outcomes(t testing.TB, db *ledger.Ledger) map[string]outcome {
	t.Helper()
	found := map[string]outcome{}
	for before := int64(0); ; {
		rows, err := db.Receipts(t.Context(), "shop", before, 1000)
		require.NoError(t, err)
		for _, row := range rows {
			found[row.ExternalID] = outcome{row.Status, row.Amount, row.Refunded}
			before = row.ID
		}
		if len(rows) < 1000 {
			return found
		}
	}
}

// testScope is the money of the test's link since testStart.
func testScope() scope {
	return scope{offer: "shop", account: testAccount, rail: "card", link: testLink, origin: testStart, now: time.Unix(testStart, 0).Add(30 * day)}
}
