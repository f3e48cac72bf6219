// Package card compares the observer of card payments with the processor's own Go library, which only tests use.
package card

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v85"
	"github.com/stripe/stripe-go/v85/webhook"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/card"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// comparisons is how many generated deliveries are given to both.
const comparisons = 20_000

const secret = "whsec_test_0123456789abcdef"

// sign makes the header by the processor's library.
func sign(body []byte, key string, at time.Time) string {
	return webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: body, Secret: key, Timestamp: at}).Header
}

func TestVerifierAgreesWithTheProcessorsLibrary(t *testing.T) {
	rng := rand.New(rand.NewPCG(85, 0))
	accepted := 0
	for i := range comparisons {
		now := time.Now()
		body := fmt.Appendf(nil, `{"id":"evt_%d","object":"event","note":"%x"}`, i, rng.Uint64())
		header := sign(body, secret, now.Add(-age(rng)))
		what := "unchanged"
		if rng.IntN(3) > 0 {
			what, header, body = change(rng, header, body, now)
		}
		theirs := webhook.ValidatePayload(body, header, secret)
		ours := card.Verify(secret, header, body, now)
		require.Equal(t, theirs == nil, ours == nil, "%s: theirs %v, ours %v, header %q", what, theirs, ours, header)
		if ours == nil {
			accepted++
		}
	}
	require.Greater(t, accepted, comparisons/4)
	require.Less(t, accepted, comparisons*3/4)
}

// age is how old a signature is: clearly within five minutes, or clearly not.
func age(rng *rand.Rand) time.Duration {
	if rng.IntN(4) == 0 {
		return 310*time.Second + time.Duration(rng.Int64N(int64(48*time.Hour)))
	}
	return time.Duration(rng.Int64N(int64(290 * time.Second)))
}

// change alters a delivery in a way on which both are to agree.
func change(rng *rand.Rand, header string, body []byte, now time.Time) (what, newHeader string, newBody []byte) {
	timestamp, signature, _ := strings.Cut(header, ",")
	switch rng.IntN(11) {
	case 0:
		altered := append([]byte(nil), body...)
		altered[rng.IntN(len(altered))] ^= 1 << rng.IntN(8)
		return "a bit of the body", header, altered
	case 1:
		return "another time", fmt.Sprintf("t=%d,%s", now.Unix()-299+rng.Int64N(290), signature), body
	case 2:
		return "another secret", sign(body, "whsec_other_0123456789abcdef", now), body
	case 3:
		_, other, _ := strings.Cut(sign(body, "whsec_other_0123456789abcdef", now), ",")
		return "rotation", timestamp + "," + other + "," + signature, body
	case 4:
		return "a scheme more", header + ",v0=" + strings.Repeat("0", 64), body
	case 5:
		return "another scheme", strings.Replace(header, "v1=", "v0=", 1), body
	case 6:
		return "no time", signature, body
	case 7:
		return "signature cut short", header[:len(header)-1-rng.IntN(63)], body
	case 8:
		return "a part without a value", header + ",v1", body
	case 9:
		return "signature first", signature + "," + timestamp, body
	default:
		return "not a time", "t=now," + signature, body
	}
}

// TestVerifierIsStricterWhereTheLibraryIsNot holds the differences that are
// meant: everything here is accepted by the library.
func TestVerifierIsStricterWhereTheLibraryIsNot(t *testing.T) {
	now := time.Now()
	body := []byte(`{"id":"evt_1","object":"event"}`)
	good := sign(body, secret, now)
	timestamp, signature, _ := strings.Cut(good, ",")
	for name, test := range map[string]struct{ secret, header string }{
		"signed a day ahead":          {secret, sign(body, secret, now.Add(24*time.Hour))},
		"signed six minutes ahead":    {secret, sign(body, secret, now.Add(6*time.Minute))},
		"an empty secret":             {"", sign(body, "", now)},
		"two times, the last genuine": {secret, "t=1," + good},
		"a time with a plus sign":     {secret, strings.Replace(good, "t=", "t=+", 1)},
		"signature in upper case":     {secret, timestamp + ",v1=" + strings.ToUpper(signature[3:])},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, webhook.ValidatePayload(body, test.header, test.secret), "the library became stricter")
			require.Error(t, card.Verify(test.secret, test.header, body, now))
		})
	}
}

// recorder is a ledger that keeps the observations.
type recorder struct {
	*ledger.Ledger
	seen []ledger.Observation
}

func (r *recorder) Record(_ context.Context, _ *ledger.Cursor, seen ...ledger.Observation) ([]ledger.Receipt, error) {
	r.seen = append(r.seen, seen...)
	return nil, nil
}

// TestEventsAreReadAsTheLibraryReadsThem signs, verifies and decodes events
// by the library, and compares what was recorded.
func TestEventsAreReadAsTheLibraryReadsThem(t *testing.T) {
	rng, l := rand.New(rand.NewPCG(85, 1)), openLedger(t)
	for i := range 2_000 {
		recorder := &recorder{Ledger: l}
		observer, err := card.New(card.Config{
			OfferID: "shop", Account: account, Rail: "card", PaymentLink: "plink_1", Secret: secret, Ledger: recorder,
		})
		require.NoError(t, err)
		body := randomEvent(rng)
		header := sign(body, secret, time.Now())
		event, err := webhook.ConstructEventWithOptions(body, header, secret, webhook.ConstructEventOptions{IgnoreAPIVersionMismatch: true})
		require.NoError(t, err)

		verdict, detail := observer.Receive(t.Context(), observe.Delivery{
			Header: http.Header{"Stripe-Signature": {header}}, Body: body,
		})
		if verdict == observe.Ignored {
			require.Contains(t, []stripe.EventType{"charge.dispute.created"}, event.Type, detail)
			continue
		}
		require.Equal(t, observe.Recorded, verdict, "%d: %s: %s", i, event.Type, detail)
		require.Len(t, recorder.seen, 1)
		requireSame(t, event, recorder.seen[0])
	}
}

// randomEvent is one event of a random life of a payment.
func randomEvent(rng *rand.Rand) []byte {
	p := payoffertest.NewProcessor("key", time.Now)
	what := rng.IntN(8)
	if what > 5 {
		p.Capture(p.Authorise("plink_1", 1_000+rng.Int64N(1_000)), 1_000)
		return p.Events()[len(p.Events())-1]
	}
	intent := p.Pay("plink_1", 1+rng.Int64N(1_000_000), what < 2)
	switch what {
	case 0:
		p.Settle(intent)
	case 1:
		p.Fail(intent)
	case 2:
		p.Refund(intent, 1+rng.Int64N(1_000), "succeeded")
	case 3:
		p.UpdateRefund(p.Refund(intent, 1, "pending"), "failed")
	case 4:
		p.CloseDispute(p.Dispute(intent, false), rng.IntN(2) == 0)
	}
	events := p.Events()
	return events[rng.IntN(len(events))]
}

func requireSame(t *testing.T, event stripe.Event, s ledger.Observation) {
	t.Helper()
	decode := func(into any) { require.NoError(t, json.Unmarshal(event.Data.Raw, into)) }
	kind := string(event.Type)
	switch {
	case strings.HasPrefix(kind, "checkout."):
		var session stripe.CheckoutSession
		decode(&session)
		require.Equal(t, session.PaymentIntent.ID, s.ExternalID)
		require.Equal(t, session.AmountTotal, s.Amount)
		require.Equal(t, strings.ToUpper(string(session.Currency)), s.Asset)
		require.Equal(t, event.Created, s.OccurredAt)
		require.Equal(t, session.PaymentStatus == stripe.CheckoutSessionPaymentStatusPaid, s.State == ledger.StatusConfirmed)
		require.JSONEq(t, fmt.Sprintf(`{"session":%q,"event":%q}`, session.ID, event.ID), string(s.Evidence))
	case kind == "charge.refunded":
		var charge stripe.Charge
		decode(&charge)
		require.Equal(t, charge.PaymentIntent.ID, s.ExternalID)
		require.Equal(t, charge.AmountRefunded, s.Returns[0].Amount)
	case kind == "charge.captured":
		var charge stripe.Charge
		decode(&charge)
		require.Equal(t, charge.PaymentIntent.ID, s.ExternalID)
		require.Equal(t, ledger.ReturnCapture, s.Returns[len(s.Returns)-1].Kind)
		require.Equal(t, charge.Amount-charge.AmountCaptured > 0, len(s.Returns) == 2)
	case strings.HasPrefix(kind, "refund."):
		var refund stripe.Refund
		decode(&refund)
		require.Equal(t, refund.PaymentIntent.ID, s.ExternalID)
		require.Equal(t, refund.Amount, s.Returns[0].Amount)
		require.Equal(t, refund.Status == stripe.RefundStatusSucceeded, s.Returns[0].Gone)
	default:
		var dispute stripe.Dispute
		decode(&dispute)
		require.Equal(t, dispute.PaymentIntent.ID, s.ExternalID)
		require.Equal(t, dispute.ID, s.Returns[0].ID)
		require.Equal(t, dispute.Status != stripe.DisputeStatusWon, s.Returns[0].Gone)
		if s.Returns[0].Gone {
			require.Equal(t, dispute.Amount, s.Returns[0].Amount)
		}
	}
}

// TestSignaturesAreThoseOfTheLibrary holds the stand-in to the library.
func TestSignaturesAreThoseOfTheLibrary(t *testing.T) {
	rng := rand.New(rand.NewPCG(85, 2))
	for range 1_000 {
		body, key := fmt.Appendf(nil, "%x", rng.Uint64()), hex.EncodeToString([]byte{byte(rng.Uint32())})
		at := time.Unix(rng.Int64N(1<<33), 0)
		require.Equal(t, sign(body, key, at), payoffertest.SignDelivery(body, at, key))
	}
}
