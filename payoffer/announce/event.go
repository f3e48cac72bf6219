package announce

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
)

const kindTest = "notification_test" // of an event that is about no payment

// event is the notification of one transition.
type event struct {
	// kind is what the receipt has become: payment_seen, payment_confirmed, payment_refunded (also in part, while its
	// status is confirmed), payment_reversed, payment_dropped, or kindTest.
	kind       string
	id         string    // identifies the transition for good
	at         time.Time // when the transition was recorded
	data       any       // a report.Event, but of a test
	text       string    // of a message that is about no payment and no test
	transition ledger.Transition
	// change is what the transition changed, and counted whether the money is received after it.
	change  accounting.Change
	counted bool
}

// newEvent makes the event of a transition. Some facts are those of the receipt now, so that a later attempt may
// say more than an earlier one.
func newEvent(c *Config, t ledger.Transition, testCounts bool) event {
	data := report.NewEvent(t, testCounts, c.Offer.BaseURL)
	return event{kind: kindOf(t), id: data.ID, at: time.Unix(t.At, 0).UTC(), data: data, transition: t, change: t.Change(), counted: data.Counted}
}

// usd is the value with two decimals; nil while it is unknown.
func (e event) usd() any {
	if e.transition.USDCents == nil {
		return nil
	}
	return offer.USD(*e.transition.USDCents).Decimal()
}

// members are the data as an event of Caddy has them. Numbers keep their digits.
func (e event) members() (members map[string]any, err error) {
	text, err := json.Marshal(e.data)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return members, decoder.Decode(&members)
}

// isAnnounced reports whether a transition is sent to subscribers. Money that moved within the account is sent only if
// it was reported as a payment before. A redaction moves no money.
func isAnnounced(t ledger.Transition) bool {
	switch {
	case t.Cause == ledger.CauseRedacted:
		return false
	case t.To == ledger.StatusMoved:
		return t.From != "" && t.From != ledger.StatusMoved && t.From != ledger.StatusDropped
	case t.To == ledger.StatusDropped:
		return t.From != ledger.StatusMoved
	default:
		return true
	}
}

// kindOf is the kind of event for a transition.
func kindOf(t ledger.Transition) string {
	switch {
	case t.To == ledger.StatusConfirmed && t.Refunded > 0:
		return "payment_refunded"
	case t.To == ledger.StatusMoved:
		return "payment_dropped" // it was not a payment
	default:
		return "payment_" + string(t.To)
	}
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// body is the payload that Standard Webhooks recommends.
func (e event) body() ([]byte, error) {
	return json.Marshal(struct {
		Type      string `json:"type"`
		Timestamp string `json:"timestamp"`
		Data      any    `json:"data"`
	}{e.kind, rfc3339(e.at), e.data})
}
