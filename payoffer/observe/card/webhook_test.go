package card

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

func withoutKey(c *Config) { c.APIKey = "" }

func TestNewRejectsInvalidConfig(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"neither secret nor key":  func(c *Config) { c.Secret, c.APIKey = "", "" },
		"no payment link":         func(c *Config) { c.PaymentLink = "" },
		"an API key as secret":    func(c *Config) { c.Secret = "sk_test_1" },
		"a blank secret":          func(c *Config) { c.Secret = " " },
		"a test key, live mode":   func(c *Config) { c.APIKey = "sk_test_1" },
		"a publishable key":       func(c *Config) { c.APIKey = "pk_live_1" },
		"quotes around a key":     func(c *Config) { c.APIKey = `"rk_live_1"` },
		"a live key, test mode":   func(c *Config) { c.TestMode = true },
		"an API that is no URL":   func(c *Config) { c.API = "api.stripe.com" },
		"an API over plain http":  func(c *Config) { c.API = "http://api.stripe.com" },
		"a password in the API's": func(c *Config) { c.API = "https://rk_live_1:@api.stripe.com" },
	} {
		t.Run(name, func(t *testing.T) {
			config := Config{OfferID: "shop", Account: testAccount, Rail: "card", PaymentLink: testLink, Secret: testSecret, APIKey: testKey}
			change(&config)
			_, err := New(config)
			require.Error(t, err)
			if says := map[string]string{"a test key, live mode": "this is a test key", "a live key, test mode": "this is a live key"}[name]; says != "" {
				require.ErrorContains(t, err, says)
			}
			require.NotContains(t, err.Error(), "sk_test_1")
			require.NotContains(t, err.Error(), "rk_live_1")
		})
	}
}

func TestDeliveriesAreRecordedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, withoutKey)
	intent := r.processor.Pay(testLink, 4200, true)
	r.clock.Pass(2 * day)
	r.processor.Settle(intent)
	r.processor.Refund(intent, 1000, "succeeded")
	for range 3 {
		r.deliverAll(t, 0)
	}
	require.Equal(t, map[string]outcome{intent: {ledger.StatusConfirmed, 4200, 1000}}, outcomes(t, r.db))
	row := r.row(t, intent)
	require.NotContains(t, string(row.Evidence), "example.com", "personal data was kept")
	transitions, err := r.db.Transitions(t.Context(), "shop", 0, 100)
	require.NoError(t, err)
	require.Len(t, transitions, 3, "a repeated delivery is no news")
}

func TestReceiveVerdicts(t *testing.T) {
	t.Parallel()
	r := newRig(t, withoutKey)
	now := r.clock.Now()
	sign := func(body string, secrets ...string) observe.Delivery {
		return delivery([]byte(body), payoffertest.SignDelivery([]byte(body), now, secrets...))
	}
	twice := sign(paidEvent, testSecret)
	twice.Header.Add(signatureHeader, twice.Header.Get(signatureHeader))
	altered := sign(paidEvent, testSecret)
	altered.Body = bytes.Replace(altered.Body, []byte("4200"), []byte("9200"), 1)
	other := strings.Replace(paidEvent, testLink, "plink_other", 1)

	for name, test := range map[string]struct {
		delivery observe.Delivery
		want     observe.Verdict
	}{
		"genuine":                     {sign(paidEvent, testSecret), observe.Recorded},
		"signed with both of a pair":  {sign(paidEvent, "whsec_old_0123456789abcdef", testSecret), observe.Recorded},
		"another link":                {sign(other, testSecret), observe.Ignored},
		"thin event":                  {sign(`{"object":"v2.core.event","id":"evt_1"}`, testSecret), observe.Malformed},
		"not JSON":                    {sign(`paid=1`, testSecret), observe.Malformed},
		"empty":                       {sign(``, testSecret), observe.Malformed},
		"deeply nested":               {sign(strings.Repeat(`{"a":`, 100_000), testSecret), observe.Malformed},
		"not signed":                  {delivery([]byte(paidEvent)), observe.Unverified},
		"two headers":                 {twice, observe.Unverified},
		"altered":                     {altered, observe.Unverified},
		"signed with another secret":  {sign(paidEvent, "whsec_other_0123456789abcdef"), observe.Unverified},
		"signed with an empty secret": {sign(paidEvent, ""), observe.Unverified},
	} {
		t.Run(name, func(t *testing.T) {
			verdict, detail := r.Receive(t.Context(), test.delivery)
			require.Equal(t, test.want, verdict, detail)
			for _, secret := range []string{testSecret, "pi_1", "4200", "example.com"} {
				require.NotContains(t, detail, secret)
			}
		})
	}
}

func TestReceiveNeedsSecret(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Secret = "" })
	body := []byte(paidEvent)
	verdict, _ := r.Receive(t.Context(), delivery(body, payoffertest.SignDelivery(body, r.clock.Now(), "")))
	require.Equal(t, observe.Unverified, verdict)
	require.Empty(t, outcomes(t, r.db))
}

func TestReceiveWithWrongClock(t *testing.T) {
	t.Parallel()
	r := newRig(t, withoutKey)
	require.NoError(t, r.try(t)) // the first start, at the right time
	intent := r.processor.Pay(testLink, 4200, false)
	body := r.processor.Events()[0]
	signed := delivery(body, payoffertest.SignDelivery(body, r.clock.Now(), testSecret))
	for _, off := range []time.Duration{day, -2 * day} {
		r.clock.Pass(off)
		verdict, detail := r.Receive(t.Context(), signed)
		require.Equal(t, observe.Unverified, verdict)
		require.Contains(t, detail, "clock")
		require.Equal(t, observe.ErrClock, r.Health().LastError, "not a wrong secret")
		require.Contains(t, r.log.String(), "clock")
		require.Empty(t, outcomes(t, r.db))
	}
	r.clock.Pass(day)
	verdict, _ := r.Receive(t.Context(), signed)
	require.Equal(t, observe.Recorded, verdict)
	require.Empty(t, r.Health().LastError)
	require.Contains(t, outcomes(t, r.db), intent)
}

// TestReceiveLedgerFailureIsUnavailable lets the database refuse every write, and
// then be gone: the processor is told to send again, and the repetition counts.
func TestReceiveLedgerFailureIsUnavailable(t *testing.T) {
	t.Parallel()
	for name, breakIt := range map[string]func(t *testing.T, r *rig) (repair func()){
		"read-only": refuseWrites,
		"gone": func(t *testing.T, r *rig) func() {
			require.NoError(t, r.db.Close())
			return func() { require.NoError(t, r.db.Open(t.Context())) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			intent := r.processor.Pay(testLink, 4200, false)
			repair := breakIt(t, r)
			require.Equal(t, observe.Unavailable, r.deliver(t, r.processor.Events()[0]))
			require.Equal(t, observe.ErrLedger, r.Health().LastError)
			require.Error(t, r.try(t))
			repair()
			require.Empty(t, outcomes(t, r.db), "something was stored halfway")
			require.Equal(t, observe.Recorded, r.deliver(t, r.processor.Events()[0]))
			require.Contains(t, outcomes(t, r.db), intent)
			require.NoError(t, r.try(t))
			require.Empty(t, r.Health().LastError)
			require.NotContains(t, r.log.String(), testKey)
			require.NotContains(t, r.log.String(), intent)
		})
	}
}

// refuseWrites makes the database file take nothing more, from beside the
// ledger.
func refuseWrites(t *testing.T, r *rig) (repair func()) {
	db, err := sql.Open("sqlite", r.path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	execute := func(statement string) {
		_, err := db.ExecContext(context.Background(), statement)
		require.NoError(t, err)
	}
	tables := map[string]string{"receipts": "INSERT", "returns": "INSERT", "cursors": "INSERT", "accounts": "UPDATE"}
	for table, change := range tables {
		execute("CREATE TRIGGER no_" + table + " BEFORE " + change + " ON " + table + " BEGIN SELECT RAISE(ABORT, 'read-only'); END")
	}
	return func() {
		for table := range tables {
			execute("DROP TRIGGER no_" + table)
		}
	}
}

// A repetition would end the
// same.
func TestReceiveRejectedObservationIsMalformed(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Ledger = refusing{c.Ledger} })
	require.Equal(t, observe.Malformed, r.deliver(t, []byte(paidEvent)))
}

// refusing is a ledger that refuses every observation for good.
type refusing struct{ Ledger }

func (refusing) Record(_ context.Context, _ *ledger.Cursor, s ...ledger.Observation) ([]ledger.Receipt, error) {
	if len(s) > 0 {
		return nil, errors.Join(ledger.ErrObservation)
	}
	return nil, nil
}

// Nothing of a body is read for a header that the processor does not make. The
// time is left to Verify, which alone can tell a wrong clock.
func TestAdmitNeedsSignatureHeader(t *testing.T) {
	t.Parallel()
	r := newRig(t, withoutKey)
	digits := strings.Repeat("0a", 32)
	for header, want := range map[string]bool{
		"t=1795250000,v1=" + digits:               true,
		"t=1,v1=" + digits:                        true,
		"t=1795250000,v1=short,v1=" + digits:      true,
		"v0=1,t=1795250000,v1=" + digits:          true,
		"x":                                       false,
		"":                                        false,
		"t=1795250000":                            false,
		"v1=" + digits:                            false,
		"t=1795250000,v1=" + digits[1:]:           false,
		"t=1795250000,v0=" + digits:               false,
		"t=now,v1=" + digits:                      false,
		"t=1795250000,v1=" + digits[:62] + "0A":   false,
		"t=1,t=2,v1=" + digits:                    false,
		"t=1,v1=" + strings.Repeat(digits, 1<<10): false,
	} {
		detail, admitted := r.Admit(delivery(nil, header).Header, "")
		require.Equal(t, want, admitted, header)
		require.Equal(t, want, detail == "")
	}
}

// A refund in another currency is never a part of its payment, a dispute in one is all of it, and of a refund that is
// too large no more than was paid is booked. The log has the former two once, whichever of return and payment comes first.
func TestImpossibleRefundIsNotRecorded(t *testing.T) {
	t.Parallel()
	const foreign = "in another currency"
	at := int64(testStart)
	refund := func(currency string, amount int) []byte {
		return eventOf(refundCreated, at, fmt.Sprintf(`{"id":"re_1","amount":%d,"currency":%q,"payment_intent":"pi_1","status":"succeeded","created":%d}`, amount, currency, at))
	}
	total := func(currency string, amount int) []byte {
		return eventOf(chargeRefunded, at, fmt.Sprintf(`{"id":"ch_1","created":1795250000,"amount_refunded":%d,"currency":%q,"payment_intent":"pi_1"}`, amount, currency))
	}
	captured := func(currency string, amount int) []byte {
		return eventOf(chargeCaptured, at, fmt.Sprintf(`{"id":"ch_1","created":1795250000,"amount":4200,"amount_captured":%d,"amount_refunded":%d,"currency":%q,"payment_intent":"pi_1"}`, 4200-amount, amount, currency))
	}
	dispute := func(currency string) []byte {
		return eventOf(disputeWithdrawn, at, fmt.Sprintf(`{"id":"dp_1","amount":1000,"currency":%q,"payment_intent":"pi_1","status":"needs_response","created":%d}`, currency, at))
	}
	paid := []byte(paidEvent)
	euros := bytes.Replace(paid, []byte(`"currency":"usd"`), []byte(`"currency":"eur"`), 1)
	for name, test := range map[string]struct {
		paid, back []byte
		booked     int64
		status     ledger.Status
		warns      string
	}{
		"the same currency":                  {paid, refund("usd", 1000), 1000, ledger.StatusConfirmed, ""},
		"all of it":                          {paid, refund("usd", 4200), 4200, ledger.StatusRefunded, ""},
		"euros of euros":                     {euros, refund("eur", 1000), 1000, ledger.StatusConfirmed, ""},
		"euros of dollars":                   {paid, refund("eur", 1000), 0, ledger.StatusConfirmed, `amount="10 EUR"`},
		"dollars of euros":                   {euros, refund("usd", 4200), 0, ledger.StatusConfirmed, `amount="42 USD"`},
		"a sum of euros of dollars":          {paid, total("eur", 1000), 0, ledger.StatusConfirmed, `amount="10 EUR"`},
		"a sum of dollars":                   {paid, total("usd", 1000), 1000, ledger.StatusConfirmed, ""},
		"yen that were not taken of dollars": {paid, captured("jpy", 1000), 0, ledger.StatusConfirmed, `amount="1000 JPY"`},
		"dollars that were not taken":        {paid, captured("usd", 1000), 1000, ledger.StatusConfirmed, ""},
		"a dispute in dollars":               {paid, dispute("usd"), 1000, ledger.StatusConfirmed, ""},
		"a dispute in euros":                 {paid, dispute("eur"), 0, ledger.StatusReversed, "dispute in another currency, its part is unknown"},
		"too much":                           {paid, refund("usd", 9900), 4200, ledger.StatusRefunded, ""},
		"too much in a sum":                  {paid, total("usd", 9900), 4200, ledger.StatusRefunded, ""},
	} {
		for order, events := range map[string][][]byte{"payment first": {test.paid, test.back}, "refund first": {test.back, test.paid}} {
			t.Run(name+", "+order, func(t *testing.T) {
				t.Parallel()
				r := newReadRig(t, withoutKey)
				for _, event := range [][]byte{events[0], events[1], events[1]} {
					require.Equal(t, observe.Recorded, r.deliver(t, event))
				}
				receipt := r.row(t, "pi_1")
				require.Equal(t, test.booked, receipt.Refunded)
				require.Equal(t, test.status, receipt.Status)
				if test.warns == "" {
					require.Empty(t, r.log.String())
					return
				}
				require.Equal(t, 1, strings.Count(r.log.String(), foreign), r.log.String())
				require.Contains(t, r.log.String(), test.warns)
			})
		}
	}
}

func TestAnythingButOneObjectIsMalformed(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		``, `null`, `[]`, `"a"`, `{"a":1`, `{"a":1}x`, `{"a":1}{}`, `{"created":1000000005}`,
	} {
		_, err := testScope().read([]byte(text))
		requireUnusable(t, err, observe.Malformed)
	}
}

// A payer's name that some program cut in two must not lose the event.
func TestTextThatIsNotUnicodeLosesNoEvent(t *testing.T) {
	t.Parallel()
	o, err := testScope().read([]byte(`{"id":"evt_1","created":1000000005,"ID":"other","customer_details":{"name":"\ud83d"},"note":"` + "\xff" + `"}`))
	require.NoError(t, err)
	require.Equal(t, "evt_1", o.ID)
}
