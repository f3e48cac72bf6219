package card

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// paidEvent is the event of a payment of 42 USD, in the processor's form.
const paidEvent = `{"id":"evt_1","object":"event","api_version":"2020-08-27","type":"checkout.session.completed",
	"created":1795250009,"livemode":true,"data":{"object":{"id":"cs_1","object":"checkout.session","mode":"payment",
	"status":"complete","payment_status":"paid","amount_subtotal":4300,"amount_total":4200,"currency":"usd","payment_intent":"pi_1",
	"payment_link":"plink_ours","livemode":true,"created":1795250000,
	"customer_details":{"email":"payer@example.com","Email":"x","name":"A Payer"},
	"presentment_details":{"presentment_amount":3900,"presentment_currency":"eur"}}}}`

func TestPaidCheckoutIsConfirmed(t *testing.T) {
	t.Parallel()
	s, err := testScope().event([]byte(paidEvent), fromWebhook)
	require.NoError(t, err)
	cents := int64(4200)
	require.Equal(t, ledger.Observation{
		Offer: "shop", Account: testAccount, Rail: "card", ExternalID: "pi_1", Via: "link", Asset: "USD", Amount: 4200,
		USDCents: &cents, ValueBasis: ledger.BasisFace, State: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelSigned,
		Evidence: json.RawMessage(`{"session":"cs_1","price":"","subtotal":4300,"event":"evt_1"}`), OccurredAt: testStart + 9, Cause: "webhook",
	}, s)
}

func TestCheckoutEvents(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		replace []string
		state   ledger.Status // of a observation
		verdict observe.Verdict
	}{
		"delayed method":           {[]string{`"paid"`, `"unpaid"`}, ledger.StatusSeen, ""},
		"delayed method succeeded": {[]string{"session.completed", "session.async_payment_succeeded"}, ledger.StatusConfirmed, ""},
		"delayed method failed":    {[]string{"session.completed", "session.async_payment_failed", `"paid"`, `"unpaid"`}, ledger.StatusDropped, ""},
		"expired, nothing paid":    {[]string{"session.completed", "session.expired", `"paid"`, `"unpaid"`, `"complete"`, `"expired"`}, "", observe.Ignored},
		"nothing to pay":           {[]string{`"paid"`, `"no_payment_required"`}, "", observe.Ignored},
		"zero":                     {[]string{`4200`, `0`, `"pi_1"`, `null`}, "", observe.Ignored},
		"still open":               {[]string{`"paid"`, `"unpaid"`, `"complete"`, `"open"`}, "", observe.Ignored},
		"a subscription":           {[]string{`"mode":"payment"`, `"mode":"subscription"`}, "", observe.Ignored},
		"another link":             {[]string{`plink_ours`, `plink_other`}, "", observe.Ignored},
		"no link":                  {[]string{`"plink_ours"`, `null`}, "", observe.Ignored},
		"test mode":                {[]string{`"livemode":true,"data"`, `"livemode":false,"data"`}, "", observe.Ignored},
		"paid before the origin":   {[]string{`"created":1795250009`, `"created":1795249999`}, "", observe.Ignored},
		"opened before the origin": {[]string{`"created":1795250000`, `"created":1795249999`}, ledger.StatusConfirmed, ""},
		"an event of no money":     {[]string{"session.completed", "session.celebrated"}, "", observe.Ignored},
		"a thin event":             {[]string{`"object":"event"`, `"object":"v2.core.event"`}, "", observe.Malformed},
		"paid without an intent":   {[]string{`"pi_1"`, `null`}, "", observe.Malformed},
		"unknown payment status":   {[]string{`"paid"`, `"perhaps"`}, "", observe.Malformed},
		"an intent of hostile form": {
			[]string{`"pi_1"`, `"pi_<script>"`}, "", observe.Malformed},
		"an endless intent":      {[]string{`pi_1`, "pi_" + strings.Repeat("1", 255)}, "", observe.Malformed},
		"a negative amount":      {[]string{`4200`, `-4200`}, "", observe.Malformed},
		"a fraction":             {[]string{`4200`, `4200.0`}, "", observe.Malformed},
		"an amount in a text":    {[]string{`4200`, `"4200"`}, "", observe.Malformed},
		"2^53+1":                 {[]string{`4200`, `9007199254740993`}, "", observe.Malformed},
		"no amount":              {[]string{`"amount_total":4200,`, ``}, "", observe.Malformed},
		"amount in another case": {[]string{`amount_total`, `Amount_Total`}, "", observe.Malformed},
		"a negative subtotal":    {[]string{`4300`, `-4300`}, "", observe.Malformed},
		"no subtotal":            {[]string{`"amount_subtotal":4300,`, ``}, ledger.StatusConfirmed, ""},
		"currency of no code":    {[]string{`"usd"`, `"US Dollars"`}, "", observe.Malformed},
		"mode is a number":       {[]string{`"mode":"payment"`, `"mode":1`}, "", observe.Malformed},
		"no data":                {[]string{`"data"`, `"date"`}, "", observe.Malformed},
		"something after it":     {[]string{`}}}}`, `}}}} {}`}, "", observe.Malformed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s, err := testScope().event([]byte(strings.NewReplacer(test.replace...).Replace(paidEvent)), fromWebhook)
			if test.verdict == "" {
				require.NoError(t, err)
				require.Equal(t, test.state, s.State)
				require.Equal(t, "pi_1", s.ExternalID)
				return
			}
			requireUnusable(t, err, test.verdict)
			require.Empty(t, s)
		})
	}
}

func requireUnusable(t *testing.T, err error, verdict observe.Verdict) {
	t.Helper()
	var none *unusableError
	require.ErrorAs(t, err, &none)
	require.Equal(t, verdict, none.verdict, none.detail)
	require.NotEmpty(t, none.detail)
	for _, part := range []string{"evt_", "pi_", "plink_", "example.com", "4200", "<"} {
		require.NotContains(t, none.detail, part, "the detail quotes the delivery")
	}
}

func TestEventKeepsPaidAmount(t *testing.T) {
	t.Parallel()
	short, err := testScope().event([]byte(strings.Replace(paidEvent, "4200", "4199", 1)), fromWebhook)
	require.NoError(t, err)
	require.EqualValues(t, 4199, short.Amount)
	require.EqualValues(t, 4199, *short.USDCents)

	euros, err := testScope().event([]byte(strings.Replace(paidEvent, `"currency":"usd"`, `"currency":"eur"`, 1)), fromWebhook)
	require.NoError(t, err)
	require.Equal(t, "EUR", euros.Asset)
	require.Nil(t, euros.USDCents, "the value in dollars is not known, and not zero")
	require.Empty(t, euros.ValueBasis)
}

func TestTestModeIgnoresLiveEvents(t *testing.T) {
	t.Parallel()
	test := testScope()
	test.test = true
	_, err := test.event([]byte(paidEvent), fromWebhook)
	requireUnusable(t, err, observe.Ignored)
	s, err := test.event([]byte(strings.ReplaceAll(paidEvent, `"livemode":true`, `"livemode":false`)), fromWebhook)
	require.NoError(t, err)
	require.True(t, s.Testnet)
}

func TestRefundAndDisputeEvents(t *testing.T) {
	t.Parallel()
	refund := func(status string) string {
		return fmt.Sprintf(`{"id":"re_1","object":"refund","amount":1000,"payment_intent":"pi_1","status":"%s","created":1000000005}`, status)
	}
	dispute := func(status string) string {
		return fmt.Sprintf(`{"id":"dp_1","object":"dispute","payment_intent":"pi_1","status":"%s","created":1000000005}`, status)
	}
	type word = ledger.Return
	refunded := func(gone bool, rank int) *word {
		return &word{ID: "re_1", Kind: ledger.ReturnRefund, Amount: 1000, Gone: gone, At: 1_000_000_005, Rank: rank}
	}
	disputed := func(gone bool, rank int) *word {
		return &word{ID: "dp_1", Kind: ledger.ReturnReversal, Gone: gone, At: 1_000_000_009, Rank: rank}
	}
	disputed1000 := func(status, moved string) string {
		return fmt.Sprintf(`{"id":"dp_1","object":"dispute","payment_intent":"pi_1","status":"%s","created":1000000005,"amount":1000,"currency":"usd","balance_transactions":[%s]}`, status, moved)
	}
	part := func(amount int64, rank int) *word {
		return &word{ID: "dp_1", Kind: ledger.ReturnReversal, Amount: amount, Currency: "USD", Gone: true, At: 1_000_000_009, Rank: rank}
	}
	tests := []struct {
		kind, object string
		want         *word // nil is ignored
	}{
		{refundCreated, refund("pending"), refunded(false, 0)},
		{refundCreated, refund("succeeded"), refunded(true, 1)},
		{refundUpdated, refund("requires_action"), refunded(false, 0)},
		{refundUpdated, refund("canceled"), refunded(false, 2)},
		{chargeRefundUpdated, refund("succeeded"), refunded(true, 1)},
		{refundFailed, refund("failed"), refunded(false, 2)},
		{chargeRefunded, `{"id":"ch_1","created":1000000005,"payment_intent":"pi_1","amount_refunded":700}`,
			&word{ID: "ch_1", Kind: ledger.ReturnTotal, Amount: 700, Gone: true, At: 1_000_000_009}},
		{chargeRefunded, `{"id":"ch_1","created":1000000005,"payment_intent":"pi_1","amount_refunded":700,"captured":true}`,
			&word{ID: "ch_1", Kind: ledger.ReturnTotal, Amount: 700, Gone: true, At: 1_000_000_009}},
		{chargeRefunded, `{"id":"ch_1","created":1000000005,"payment_intent":"pi_1","amount_refunded":700,"captured":false}`, nil},
		{chargeRefunded, `{"id":"ch_1","created":1000000005,"payment_intent":"pi_1","amount_refunded":0}`,
			&word{ID: "ch_1", Kind: ledger.ReturnTotal, At: 1_000_000_009}},
		{disputeWithdrawn, dispute("needs_response"), disputed(true, rankWithdrawn)},
		{disputeReinstated, dispute("won"), disputed(false, rankReinstated)},
		{disputeClosed, dispute("lost"), disputed(true, rankWithdrawn)},
		{disputeClosed, dispute("won"), disputed(false, rankReinstated)},
		{disputeClosed, dispute("warning_closed"), nil},
		{chargeCaptured, `{"id":"ch_1","created":1000000005,"payment_intent":"pi_1","amount":4200,"amount_captured":4200,"amount_refunded":0}`,
			&word{ID: "capture", Kind: ledger.ReturnCapture, At: 1_000_000_009}},
		{disputeWithdrawn, disputed1000("needs_response", `{"amount":-1000,"currency":"usd","created":1000000009}`), part(1000, rankWithdrawn)},
		{disputeWithdrawn, disputed1000("needs_response", ``), part(1000, rankWithdrawn)},
		{disputeWithdrawn, disputed1000("needs_response", `{"amount":-920,"currency":"eur","created":1000000009}`), part(1000, rankWithdrawn)},
		{disputeClosed, disputed1000("lost", `{"amount":-1000,"currency":"usd","created":1000000009}`), part(1000, rankWithdrawn)},
		{disputeReinstated, disputed1000("won", `{"amount":-1000,"currency":"usd","created":1000000009},{"amount":1000,"currency":"usd","created":1000000009}`),
			disputed(false, rankReinstated)},
		{disputeReinstated, disputed1000("won", `{"amount":-1000,"currency":"usd","created":1000000009},{"amount":700,"currency":"usd","created":1000000009}`),
			part(300, rankReinstated)},
		{disputeReinstated, disputed1000("won", `{"amount":-920,"currency":"eur","created":1000000009},{"amount":905,"currency":"eur","created":1000000009}`),
			disputed(false, rankReinstated)},
		{disputeClosed, disputed1000("won", `{"amount":-1000,"currency":"usd","created":1000000009}`), disputed(false, rankReinstated)},
		{refundCreated, strings.Replace(refund("succeeded"), `"pi_1"`, "null", 1), nil},
		{disputeClosed, strings.Replace(dispute("lost"), `"pi_1"`, "null", 1), nil},
	}
	for _, test := range tests {
		t.Run(test.kind, func(t *testing.T) {
			s, err := testScope().event(eventOf(test.kind, 1_000_000_009, test.object), fromWebhook)
			if test.want == nil {
				requireUnusable(t, err, observe.Ignored)
				return
			}
			require.NoError(t, err)
			require.Equal(t, ledger.Observation{
				Offer: "shop", Account: testAccount, Rail: "card", ExternalID: "pi_1", Addendum: true,
				Returns: []word{*test.want}, EvidenceLevel: ledger.LevelSigned, Cause: "webhook",
			}, s)
		})
	}
	for state, refunds := range map[string]bool{"pending": true, "requires_action": true, "succeeded": true, "failed": false, "canceled": false} {
		s, err := testScope().event(eventOf(refundUpdated, 1_000_000_009, refund(state)), fromWebhook)
		require.NoError(t, err)
		require.Equal(t, refunds, s.Returns[0].Refunds("USD"), state)
	}
	for _, object := range []string{refund("unheard_of"), strings.Replace(refund("succeeded"), "1000", "-1", 1), `{"id":7}`, `[]`} {
		_, err := testScope().event(eventOf(refundUpdated, 1_000_000_009, object), fromWebhook)
		requireUnusable(t, err, observe.Malformed)
	}
	for _, object := range []string{
		disputed1000("won", `7`), disputed1000("won", `{"amount":1}`), strings.Replace(disputed1000("lost", ""), "1000", "-1", 1),
		strings.Replace(disputed1000("lost", ""), "usd", "US dollars", 1), strings.Replace(disputed1000("lost", ""), `"amount":1000,`, "", 1),
	} {
		_, err := testScope().event(eventOf(disputeClosed, 1_000_000_009, object), fromWebhook)
		requireUnusable(t, err, observe.Malformed)
	}
}

func TestDisputeStates(t *testing.T) {
	t.Parallel()
	taken, given := `{"amount":-4200,"created":1000000007}`, `{"amount":4200,"created":1000000008}`
	for name, test := range map[string]struct {
		status, moved string
		gone          bool
		at            int64 // 0 is ignored
	}{
		"taken":                    {"needs_response", taken, true, 1_000_000_007},
		"lost":                     {"lost", taken, true, 1_000_000_007},
		"won":                      {"won", taken + "," + given, false, 1_000_000_008},
		"won, not given back yet":  {"won", taken, false, 1_000_000_007},
		"lost, given back after":   {"lost", given + "," + taken, false, 1_000_000_008},
		"lost without a statement": {"lost", "", true, 1_000_000_005},
		"not taken yet":            {"needs_response", "", false, 0},
		"inquiry":                  {"warning_needs_response", "", false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := testScope().read(fmt.Appendf(nil,
				`{"id":"dp_1","payment_intent":"pi_1","status":%q,"created":1000000005,"balance_transactions":[%s]}`, test.status, test.moved))
			require.NoError(t, err)
			s, err := testScope().dispute(o, fromAPI)
			if test.at == 0 {
				requireUnusable(t, err, observe.Ignored)
				return
			}
			require.NoError(t, err)
			require.Equal(t, ledger.LevelProvider, s.EvidenceLevel)
			rank := rankReinstated
			if test.gone {
				rank = rankWithdrawn
			}
			require.Equal(t, []ledger.Return{{ID: "dp_1", Kind: ledger.ReturnReversal, Gone: test.gone, At: test.at, Rank: rank}}, s.Returns)
		})
	}
	for _, moved := range []string{`null`, `[7]`, `[{"amount":0.5,"created":1000000007}]`, `[{"amount":1}]`, `[{"amount":9007199254740992,"created":1000000007}]`, `[{"amount":-9007199254740992,"created":1000000007}]`} {
		o, err := testScope().read([]byte(
			`{"id":"dp_1","payment_intent":"pi_1","status":"lost","created":1000000005,"balance_transactions":` + moved + `}`))
		if err == nil {
			_, err = testScope().dispute(o, fromAPI)
		}
		requireUnusable(t, err, observe.Malformed)
	}
}

// A time that the processor cannot have meant would stand in the books for good.
func TestEventWithAbsurdTimeIsMalformed(t *testing.T) {
	t.Parallel()
	now := testScope().now.Unix()
	for at, taken := range map[int64]bool{
		now: true, now + 86400: true, now + 86401: false, 9007199254740991: false, 253402300800: false, now * 1000: false,
		946684800: true, 946684799: false, 0: false, -1: false,
	} {
		for _, event := range [][]byte{
			eventOf(chargeCaptured, at, fmt.Sprintf(`{"id":"ch_1","created":%d,"payment_intent":"pi_1","amount":1,"amount_captured":1}`, now)),
			eventOf(refundCreated, now, fmt.Sprintf(`{"id":"re_1","amount":1,"payment_intent":"pi_1","status":"succeeded","created":%d}`, at)),
			eventOf(disputeWithdrawn, now, fmt.Sprintf(`{"id":"dp_1","payment_intent":"pi_1","status":"lost","created":%d}`, at)),
			eventOf(disputeWithdrawn, now, fmt.Sprintf(`{"id":"dp_1","payment_intent":"pi_1","status":"lost","created":%d,`+
				`"balance_transactions":[{"amount":-1,"created":%d}]}`, now, at)),
		} {
			for _, from := range []ledger.EvidenceLevel{fromWebhook, fromAPI} {
				_, err := testScope().event(event, from)
				if taken {
					require.NoError(t, err, "%d in %s", at, event)
				} else {
					requireUnusable(t, err, observe.Malformed)
				}
			}
		}
	}
}

// eventOf is a live event with an object.
func eventOf(kind string, at int64, object string) []byte {
	return fmt.Appendf(nil, `{"id":"evt_9","object":"event","type":%q,"created":%d,"livemode":true,"data":{"object":%s}}`, kind, at, object)
}

// FuzzEvent looks for an event that makes a observation which no ledger should
// get, or whose refusal repeats what it was given.
func FuzzEvent(f *testing.F) {
	f.Add([]byte(paidEvent))
	clock := newClock()
	processor := payoffertest.NewProcessor(testKey, clock.Now)
	intent := processor.Pay(testLink, 4200, true)
	processor.Settle(intent)
	processor.UpdateRefund(processor.Refund(intent, 1000, "pending"), "failed")
	processor.CloseDispute(processor.Dispute(intent, false), true)
	for _, body := range processor.Events() {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := testScope().event(body, fromWebhook)
		if err != nil {
			var none *unusableError
			require.True(t, errors.As(err, &none))
			require.Less(t, len(none.detail), 200)
			return
		}
		require.True(t, json.Valid(body))
		require.NotEmpty(t, s.ExternalID)
		require.Regexp(t, idForm, s.ExternalID)
		require.True(t, s.Amount >= 0 && s.Amount < 1<<53)
		require.NotEqual(t, s.Addendum, len(s.Returns) == 0)
		require.True(t, s.Addendum || s.OccurredAt >= testStart && s.Amount > 0)
	})
}

// What the operator is told to subscribe to is read.
func TestSubscribedEventTypesAreRead(t *testing.T) {
	require.Subset(t, eventTypes, Events)
	require.Contains(t, Events, sessionCompleted)
}
