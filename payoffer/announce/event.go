package announce

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// event is the announcement of one transition.
type event struct {
	// kind says what the receipt amounts to since then: payment_seen,
	// payment_confirmed, payment_refunded (in part, while its status is still
	// confirmed), payment_reversed or payment_dropped.
	kind string
	id   string    // names the transition for good
	at   time.Time // when the transition was recorded
	// data are the facts, without anything about the payer and without what an
	// operator noted.
	data map[string]any
	// of is the transition, change what it changed, and counted whether its money is
	// received after it.
	of      ledger.Transition
	change  accounting.Change
	counted bool
}

// testCounts is what the ledger's sums make of TestOffer now.
func (c *Config) testCounts(ctx context.Context) (bool, error) {
	if !c.TestOffer {
		return false, nil
	}
	totals, err := c.Ledger.Totals(ctx, c.OfferID)
	return accounting.TestCounts(totals, c.TestOffer), err
}

// newEvent is a pure function of a transition, of what the configuration says of
// its offer, and of whether test money counts. Via, evidence, own, testnet and
// counted are those of the receipt now, so that a later try may say more than an
// earlier one.
func newEvent(c *Config, t ledger.Transition, testCounts bool) event {
	e := event{kind: kindOf(t), id: t.EventID(), at: time.Unix(t.At, 0).UTC(), of: t, change: t.Change(), counted: t.Standing().Counts(testCounts)}
	e.data = map[string]any{
		"id":               e.id,
		"seq":              t.Seq,
		"offer":            t.Offer,
		"rail":             t.Rail,
		"externalId":       t.ExternalID,
		"number":           t.ReceiptID,
		"version":          t.Version,
		"change":           e.change.Words(),
		"from":             nil,
		"status":           string(t.To),
		"evidence":         string(t.EvidenceLevel),
		"asset":            t.Asset,
		"amountAtomic":     strconv.FormatInt(t.Amount, 10),
		"refundedAtomic":   strconv.FormatInt(t.Refunded, 10),
		"amountUsd":        nil,
		"amountUsdDecimal": nil,
		"own":              t.Own,
		"testnet":          t.Testnet,
		"counted":          e.counted,
		"cursor":           t.Bookmark().String(),
		"occurredAt":       accounting.Timestamp(t.OccurredAt),
		"recordedAt":       rfc3339(e.at),
	}
	if t.From != "" {
		e.data["from"] = string(t.From)
	}
	if t.USDCents != nil {
		usd := offer.USD(*t.USDCents)
		e.data["amountUsd"], e.data["amountUsdDecimal"] = usd, usd.Decimal()
	}
	if t.Via != "" {
		e.data["via"] = t.Via
	}
	if t.ReturnKind != "" {
		e.data["returnKind"] = string(t.ReturnKind) // a dispute of a part is no refund
	}
	if t.Cause == ledger.CauseBackfilled {
		e.data["backfilled"] = true
	}
	if c.BaseURL != "" {
		e.data["baseUrl"] = c.BaseURL
	}
	return e
}

// announced reports whether a transition is anybody's news. Money that moved
// within the account was paid by nobody; it is news only where it was taken for a
// payment before. Another name moves no money; what comes after has the payment's
// number still.
func announced(t ledger.Transition) bool {
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

// everything is the news of a receiver that is told of every transition.
func everything(ledger.Transition) bool { return true }

// kindOf names what the receipt amounts to after the transition.
func kindOf(t ledger.Transition) string {
	switch {
	case t.To == ledger.StatusConfirmed && t.Refunded > 0:
		return "payment_refunded"
	case t.To == ledger.StatusMoved:
		return "payment_dropped" // it was none
	default:
		return "payment_" + string(t.To)
	}
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// body is the payload as Standard Webhooks recommends it.
func (e event) body() ([]byte, error) {
	return json.Marshal(struct {
		Type      string         `json:"type"`
		Timestamp string         `json:"timestamp"`
		Data      map[string]any `json:"data"`
	}{e.kind, rfc3339(e.at), e.data})
}
