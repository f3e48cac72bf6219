package card

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

func TestVerifyDocumentedHMAC(t *testing.T) {
	t.Parallel()
	// printf '1795250000.{"id":"evt_1"}' | openssl dgst -sha256 -hmac whsec_current
	const golden = "41d0cb1389b0bde7d4dc38805eb685b4931b489ca26b7a7f361821c742e27581"
	header := "t=1795250000,v1=" + golden
	require.NoError(t, Verify("whsec_current", header, []byte(`{"id":"evt_1"}`), time.Unix(testStart, 0)))
}

func TestVerify(t *testing.T) {
	t.Parallel()
	body, now := []byte(`{"id":"evt_1","object":"event"}`), time.Unix(testStart, 0)
	sign := func(at time.Time, secrets ...string) string { return payoffertest.SignDelivery(body, at, secrets...) }
	good := sign(now, testSecret)
	mac := good[strings.Index(good, "v1="):]
	empty := hmac.New(sha256.New, nil)
	fmt.Fprintf(empty, "%d.%s", testStart, body)

	tests := map[string]struct {
		secret, header string
		want           error
	}{
		"signed now":                       {testSecret, good, nil},
		"five minutes ago":                 {testSecret, sign(now.Add(-300*time.Second), testSecret), nil},
		"five minutes ahead":               {testSecret, sign(now.Add(300*time.Second), testSecret), nil},
		"a second too old":                 {testSecret, sign(now.Add(-301*time.Second), testSecret), errTimestamp},
		"a second too far ahead":           {testSecret, sign(now.Add(301*time.Second), testSecret), errTimestamp},
		"rotation, ours first":             {testSecret, sign(now, testSecret, "whsec_next"), nil},
		"rotation, ours last":              {testSecret, sign(now, "whsec_old", testSecret), nil},
		"rotation is over":                 {"whsec_old", sign(now, testSecret, "whsec_next"), errSignature},
		"beside another scheme":            {testSecret, good + ",v0=" + strings.Repeat("0", 64), nil},
		"under another scheme alone":       {testSecret, strings.Replace(good, "v1=", "v0=", 1), errSignature},
		"empty secret, signed with it":     {"", fmt.Sprintf("t=%d,v1=%x", testStart, empty.Sum(nil)), errSignature},
		"another secret":                   {"whsec_other", good, errSignature},
		"no header":                        {testSecret, "", errSignature},
		"no time":                          {testSecret, mac, errSignature},
		"no signature":                     {testSecret, "t=1795250000", errSignature},
		"two times":                        {testSecret, "t=1795250000," + good, errSignature},
		"negative time":                    {testSecret, "t=-1795250000," + mac, errSignature},
		"time with a sign":                 {testSecret, "t=+1795250000," + mac, errSignature},
		"empty time":                       {testSecret, "t=," + mac, errSignature},
		"signature in upper case":          {testSecret, "t=1795250000,v1=" + strings.ToUpper(mac[3:]), errSignature},
		"signature that is not hex":        {testSecret, "t=1795250000,v1=" + strings.Repeat("z", 64), errSignature},
		"signature cut short":              {testSecret, good[:len(good)-2], errSignature},
		"signature too long":               {testSecret, good + "00", errSignature},
		"empty signature":                  {testSecret, "t=1795250000,v1=", errSignature},
		"item without a value":             {testSecret, good + ",v1", errSignature},
		"item with two values":             {testSecret, good + ",v0=1=2", errSignature},
		"spaces":                           {testSecret, strings.Replace(good, ",", ", ", 1), errSignature},
		"trailing comma":                   {testSecret, good + ",", errSignature},
		"two deliveries in one header":     {testSecret, good + "," + good, errSignature},
		"the largest header of a rotation": {testSecret, sign(now, append(slices.Repeat([]string{"whsec_old"}, 15), testSecret)...), nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, Verify(test.secret, test.header, body, now), test.want)
		})
	}
}

// TestVerifyRefusesForgedDelivery changes genuine deliveries at random in
// every part that is signed.
func TestVerifyRefusesForgedDelivery(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 1))
	now := time.Unix(testStart, 0)
	count := cases.Count(t)
	for i := range count {
		body := randomBytes(rng, 1+rng.IntN(200))
		secret := "whsec_" + hex.EncodeToString(randomBytes(rng, 12))
		header := payoffertest.SignDelivery(body, now, secret)
		if err := Verify(secret, header, body, now); err != nil {
			t.Fatalf("case %d: a genuine delivery is refused: %v", i, err)
		}
		kind, gotSecret, gotHeader, gotBody := alter(rng, secret, header, body)
		if Verify(gotSecret, gotHeader, gotBody, now) == nil {
			t.Fatalf("case %d: accepted after: %s", i, kind)
		}
	}
}

// alter makes one change to a delivery with a single signature.
func alter(rng *rand.Rand, secret, header string, body []byte) (kind, newSecret, newHeader string, newBody []byte) {
	flip := func(b []byte) []byte {
		b = slices.Clone(b)
		b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
		return b
	}
	comma := strings.Index(header, ",")
	timestamp, signature := header[:comma], header[comma+1:]
	switch rng.IntN(12) {
	case 0:
		return "a bit of the body", secret, header, flip(body)
	case 1:
		return "a bit of the header", secret, string(flip([]byte(header))), body
	case 2:
		return "a bit of the secret", string(flip([]byte(secret))), header, body
	case 3:
		return "another time", secret, fmt.Sprintf("t=%d,%s", testStart+1+rng.IntN(299), signature), body
	case 4:
		return "a body cut short", secret, header, body[:rng.IntN(len(body))]
	case 5:
		return "a longer body", secret, header, append(slices.Clone(body), randomBytes(rng, 1+rng.IntN(9))...)
	case 6:
		return "a header cut short", secret, header[:rng.IntN(len(header))], body
	case 7:
		return "a time more", secret, fmt.Sprintf("%s,t=%d", header, testStart+rng.IntN(2)), body
	case 8:
		return "a random signature", secret, timestamp + ",v1=" + hex.EncodeToString(randomBytes(rng, 32)), body
	case 9:
		return "an empty secret", "", payoffertest.SignDelivery(body, time.Unix(testStart, 0), ""), body
	case 10:
		return "a digit moved from the time to the body", secret, timestamp[:len(timestamp)-1] + "," + signature,
			append([]byte(timestamp[len(timestamp)-1:]), body...)
	default:
		return "random bytes for a header", secret, string(randomBytes(rng, 1+rng.IntN(100))), body
	}
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// FuzzSignature looks for a header that verifies and does not carry the MAC of
// the body.
func FuzzSignature(f *testing.F) {
	body := []byte(`{"id":"evt_1"}`)
	good := payoffertest.SignDelivery(body, time.Unix(testStart, 0), testSecret)
	for _, header := range []string{good, good + ",v0=00", "t=1,v1=", "", ",,,", "t=1795250000,t=1795250000"} {
		f.Add(header, body)
	}
	f.Fuzz(func(t *testing.T, header string, body []byte) {
		if Verify(testSecret, header, body, time.Unix(testStart, 0)) != nil {
			return
		}
		timestamp, _, _ := strings.Cut(header[strings.Index(header, "t=")+2:], ",")
		mac := hmac.New(sha256.New, []byte(testSecret))
		fmt.Fprintf(mac, "%s.%s", timestamp, body)
		require.Contains(t, header, hex.EncodeToString(mac.Sum(nil)))
	})
}

func TestShortSigningSecretIsRejected(t *testing.T) {
	t.Parallel()
	for secret, want := range map[string]bool{
		"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw": true, "whsec_0123456789abcdef": true,
		"whsec_": false, "whsec_x": false, "whsec_0123456789abcde": false, "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw": false,
		"whsec_0123456789abcdef ": false, "whsec_0123456789abcdef\n": false, " whsec_0123456789abcdef": false,
	} {
		require.Equal(t, want, isSecret(secret), "%q", secret)
	}
}

// row is the receipt of a payment.
func (r *rig) row(t testing.TB, intent string) ledger.Receipt {
	t.Helper()
	row, found, err := r.db.Receipt(t.Context(), "shop", testAccount, intent)
	require.NoError(t, err)
	require.True(t, found)
	return row
}

// outcome is what the receipt of a payment comes to.
func (r *rig) outcome(t testing.TB, intent string) outcome {
	t.Helper()
	row := r.row(t, intent)
	return outcome{row.Status, row.Amount, row.Refunded}
}

// By webhooks, by the list of events and by the list of payments, each on a new
// ledger. What is only authorised is seen, and no event of a checkout tells that its money was taken.
func TestPaymentSameByWebhooksAndAPI(t *testing.T) {
	t.Parallel()
	const paid, authorised = false, true
	for name, test := range map[string]struct {
		authorised bool
		live       func(p *payoffertest.Processor, intent string, later func())
		want       outcome
	}{
		"a part is disputed": {paid, func(p *payoffertest.Processor, intent string, _ func()) {
			p.DisputePart(intent, "usd", 1000)
		}, outcome{ledger.StatusConfirmed, 4200, 1000}},
		"a part is disputed and lost": {paid, func(p *payoffertest.Processor, intent string, later func()) {
			later()
			p.CloseDispute(p.DisputePart(intent, "usd", 1000), false)
		}, outcome{ledger.StatusConfirmed, 4200, 1000}},
		"a dispute is won after a refund of a part": {paid, func(p *payoffertest.Processor, intent string, _ func()) {
			p.Refund(intent, 700, "succeeded")
			p.CloseDispute(p.DisputePart(intent, "usd", 3500), true)
		}, outcome{ledger.StatusConfirmed, 4200, 700}},
		"what a refund left is disputed": {paid, func(p *payoffertest.Processor, intent string, _ func()) {
			p.Refund(intent, 700, "succeeded")
			p.DisputePart(intent, "usd", 3500)
		}, outcome{ledger.StatusReversed, 4200, 700}},
		"a dispute in another currency": {paid, func(p *payoffertest.Processor, intent string, _ func()) {
			p.DisputePart(intent, "eur", 1000)
		}, outcome{ledger.StatusReversed, 4200, 0}},
		"not captured": {authorised, func(*payoffertest.Processor, string, func()) {}, outcome{ledger.StatusSeen, 4200, 0}},
		"captured": {authorised, func(p *payoffertest.Processor, intent string, _ func()) {
			p.Capture(intent, 4200)
		}, outcome{ledger.StatusConfirmed, 4200, 0}},
		"a part is captured": {authorised, func(p *payoffertest.Processor, intent string, _ func()) {
			p.Capture(intent, 2000)
		}, outcome{ledger.StatusConfirmed, 4200, 2200}},
		"a part is captured, and some of it refunded": {authorised, func(p *payoffertest.Processor, intent string, later func()) {
			p.Capture(intent, 2000)
			later()
			p.Refund(intent, 500, "succeeded")
		}, outcome{ledger.StatusConfirmed, 4200, 2700}},
	} {
		for way, read := range map[string]func(t *testing.T, r *rig){
			"webhooks": func(t *testing.T, r *rig) { r.deliverAll(t, 0) },
			"webhooks in reverse": func(t *testing.T, r *rig) {
				events := r.processor.Events()
				for i := range events {
					r.deliver(t, events[len(events)-1-i])
				}
			},
			"events":   func(t *testing.T, r *rig) { require.NoError(t, r.try(t)) },
			"payments": func(t *testing.T, r *rig) { r.clock.Pass(40 * day); require.NoError(t, r.observer(t, nil).try(t)) },
			"all": func(t *testing.T, r *rig) {
				r.deliverAll(t, 0)
				require.NoError(t, r.try(t))
				r.clock.Pass(40 * day)
				require.NoError(t, r.observer(t, nil).try(t))
				r.deliverAll(t, 0)
			},
		} {
			t.Run(name+", by "+way, func(t *testing.T) {
				r := newReadRig(t, nil)
				var intent string
				if test.authorised {
					intent = r.processor.Authorise(testLink, 4200)
					r.clock.Pass(2 * day)
				} else {
					intent = r.processor.Pay(testLink, 4200, false)
				}
				test.live(r.processor, intent, func() { r.clock.Pass(time.Hour) })
				r.clock.Pass(time.Minute)
				read(t, r)
				require.Equal(t, test.want, r.outcome(t, intent))
			})
		}
	}
}

// The part of a payment in euros is
// one in euros, once the payment is known.
func TestDisputeInPaymentCurrency(t *testing.T) {
	t.Parallel()
	r := newRig(t, withoutKey)
	intent := r.processor.PayIn("eur", testLink, 3900, false)
	r.processor.DisputePart(intent, "eur", 900)
	r.deliverAll(t, 0)
	row := r.row(t, intent)
	require.Equal(t, outcome{ledger.StatusConfirmed, 3900, 900}, r.outcome(t, intent))
	require.Equal(t, "EUR", row.Asset)
	require.Nil(t, row.USDCents)

	other := r.processor.PayIn("eur", testLink, 3900, false)
	r.processor.DisputePart(other, "usd", 900)
	r.deliverAll(t, 0)
	require.Equal(t, ledger.StatusReversed, r.row(t, other).Status)
}

// A checkout that was opened before the first start counts if it was paid after it.
func TestDelayedPaymentDate(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(r *rig){
		"webhooks": func(r *rig) { r.deliverAll(t, 0); r.deliverAll(t, 0) },
		"the last webhook alone": func(r *rig) {
			events := r.processor.Events()
			r.deliver(t, events[len(events)-1])
		},
		"reading back":                func(r *rig) { require.NoError(t, r.try(t)) },
		"reading back to the webhook": func(r *rig) { r.deliverAll(t, 0); require.NoError(t, r.try(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			before := r.processor.Pay(testLink, 4200, true) // a day before the first start
			r.clock.Pass(day)
			r.Observer = r.observer(t, nil)
			require.NoError(t, r.try(t))
			intent := r.processor.Pay(testLink, 4200, true)
			r.clock.Pass(4 * day)
			r.processor.Settle(before)
			r.processor.Settle(intent)
			paid := r.clock.Now().Unix()
			r.clock.Pass(time.Minute)
			read(r)
			if name != "the last webhook alone" {
				require.Equal(t, paid, r.row(t, before).OccurredAt)
			}
			require.Equal(t, paid, r.row(t, intent).OccurredAt)
			require.Equal(t, ledger.StatusConfirmed, r.row(t, intent).Status)
		})
	}
}

// The refund of what was not captured may or may not be reported.
func TestUncapturedAmountDoesNotCount(t *testing.T) {
	t.Parallel()
	r := newRig(t, withoutKey)
	intent := r.processor.Authorise(testLink, 4200)
	r.processor.Capture(intent, 2000)
	for _, body := range r.processor.Events() {
		if !strings.Contains(string(body), "refunded\",") && !strings.Contains(string(body), "refund.created") {
			r.deliver(t, body)
		}
	}
	require.Equal(t, outcome{ledger.StatusConfirmed, 4200, 2200}, r.outcome(t, intent))
}

// TestCaptureOfOtherProductIsIgnored.
func TestCaptureOfOtherProductIsIgnored(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.processor.Capture(r.processor.Authorise("plink_other", 4200), 4200)
	r.deliverAll(t, 0)
	require.NoError(t, r.try(t))
	require.Empty(t, outcomes(t, r.db))
}
