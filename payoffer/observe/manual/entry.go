// Package manual holds the rules of an operator's entries: money that no other
// source tells of, and corrections. It says what an entry must look like, and
// what it becomes in the ledger; nothing is ever deleted. Its errors are
// sentences for the operator.
package manual

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	// maxAmount bounds an entry: a longer number is a slip of the hand.
	maxAmount offer.USD = 10_000_000_00
	// maxReference and maxReason bound the texts, in characters.
	maxReference = 128
	maxReason    = 500
	// ahead is how far an entry may lie in the future: clocks and time zones
	// differ by less.
	ahead = 24 * time.Hour
)

// Entry is what an operator says of one payment.
type Entry struct {
	// Rail is the name of the rail over which the money came.
	Rail string
	// Reference names the payment for good, as in the bank's reference, an
	// invoice number or a shop's sale id: 1 to 128 printable characters. It is
	// published with the receipt, so that no name of a person belongs there.
	Reference string
	// Amount is what arrived, or what it is worth, in US cents; 0 leaves a
	// correction's as it is.
	Amount offer.USD
	// Refund is what went back, as a plain decimal number in the unit of the
	// payment (offer.UnitOf), as in "10" or "0.0007".
	Refund string
	// Transaction is that of the chain by which it went back, or empty.
	Transaction string
	// OccurredAt is when it arrived, or went back; the zero time is now for what is
	// new, and leaves the time of what is known as it is.
	OccurredAt time.Time
	// Reason says why, up to 500 printable characters. It stays in the history
	// and is published nowhere.
	Reason string
}

// Check finds what is wrong with the entry whatever the ledger holds.
func (e Entry) Check(now time.Time) error {
	if err := checkText("reference", e.Reference, maxReference); err != nil {
		return err
	}
	if e.Reference == "" {
		return errors.New("the reference is missing; give what names the payment for good, as in INV-7, the shop's sale id, or what 'caddy pay-offer received --receipts' lists")
	}
	if err := checkText("reason", e.Reason, maxReason); err != nil {
		return err
	}
	if e.Amount < 0 || e.Amount > maxAmount {
		return fmt.Errorf("the amount %s is out of range; it must be more than 0 and at most %s US dollars", e.Amount, maxAmount)
	}
	if e.OccurredAt.After(now.Add(ahead)) {
		return fmt.Errorf("the date %s is in the future; enter money once it has arrived", day(e.OccurredAt))
	}
	return nil
}

// CheckReason checks the reason of a change to what stands in the ledger, which
// must be given: up to 500 printable characters.
func CheckReason(reason string) error {
	if reason == "" {
		return errors.New("the reason is missing; say in a few words why, it is kept and published nowhere")
	}
	return checkText("reason", reason, maxReason)
}

// checkText refuses what does not print as it is written: control characters,
// line breaks, and marks that turn the direction of a text.
func checkText(name, text string, most int) error {
	switch {
	case !utf8.ValidString(text):
		return fmt.Errorf("the %s is not UTF-8", name)
	case utf8.RuneCountInString(text) > most:
		return fmt.Errorf("the %s is longer than %d characters", name, most)
	case strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) || offer.CheckPrintable(text) != nil:
		return fmt.Errorf("the %s holds a character that cannot be printed, such as a line break; leave it out", name)
	case text != strings.TrimSpace(text):
		return fmt.Errorf("the %s begins or ends with a space; leave it out", name)
	default:
		return nil
	}
}

// day is a date for people.
func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// ParseAmount reads a plain decimal number of US dollars with at most two
// digits after the point, as in "42" or "42.50", more than zero and at most
// maxAmount.
func ParseAmount(s string) (offer.USD, error) {
	cents, cut, ok := offer.ParseDecimal(s, 2)
	if !ok || cut {
		return 0, fmt.Errorf("%.40q is not an amount of US dollars; write for example 42 or 42.50", s)
	}
	if amount := offer.USD(cents); amount > 0 && amount <= maxAmount {
		return amount, nil
	}
	return 0, fmt.Errorf("the amount %.40s is out of range; it must be more than 0 and at most %s US dollars", s, maxAmount)
}

// ParseDate reads a day (2026-11-20, the beginning of that day in the zone) or a
// moment (RFC 3339), from 1970 on.
func ParseDate(s string, zone *time.Location) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		t, err := time.ParseInLocation(layout, s, zone)
		switch {
		case err != nil:
		case t.Unix() <= 0: // among them the zero time, which is that of no date
			return t, fmt.Errorf("the date %s is before 1970; look for a slip in the year", day(t))
		default:
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%.40q is not a date; write for example 2026-11-20 or 2026-11-20T15:04:05Z", s)
}

// Entered is money that arrived. Of stored, what the entry leaves open is kept.
func (e Entry) Entered(stored ledger.Receipt, now time.Time) ledger.Sighting {
	return e.payment(stored, "entered", now)
}

// Corrected is another amount or time in place of what stands. It undoes a
// reversal by the operator.
func (e Entry) Corrected(stored ledger.Receipt, now time.Time) ledger.Sighting {
	s := e.payment(stored, "corrected", now)
	s.Revision = stored.Revision + 1
	if stored.Status == ledger.StatusReversed {
		s.Returns = takesBack(stored, false, now)
	}
	return s
}

// Reversed takes a receipt back.
func (e Entry) Reversed(stored ledger.Receipt, now time.Time) ledger.Sighting {
	return e.word(stored, "reversed_by_operator", true, now)
}

// CauseRestored is of what undoes a reversal, or takes refunds back.
const CauseRestored = "restored_by_operator"

// Restored undoes a reversal by the operator.
func (e Entry) Restored(stored ledger.Receipt, now time.Time) ledger.Sighting {
	return e.word(stored, CauseRestored, false, now)
}

func (e Entry) word(stored ledger.Receipt, cause string, gone bool, now time.Time) ledger.Sighting {
	return e.returns(stored, cause, takesBack(stored, gone, now)...)
}

// payment is what an entry says of the money itself, in US cents.
func (e Entry) payment(stored ledger.Receipt, cause string, now time.Time) ledger.Sighting {
	amount, occurred, date := stored.Amount, stored.OccurredAt, Day(stored)
	if e.Amount != 0 {
		amount = int64(e.Amount)
	}
	if !e.OccurredAt.IsZero() {
		occurred, date = e.OccurredAt.Unix(), e.Day()
	}
	s := e.sighting(stored, cause)
	s.Asset, s.Amount, s.USDCents, s.State, s.OccurredAt = "USD", amount, &amount, ledger.StatusConfirmed, occurred
	s.ValueBasis = ledger.BasisFace
	s.Evidence = observe.Evidence(struct {
		Day       string `json:"day,omitempty"`
		EnteredAt string `json:"enteredAt"`
	}{date, now.UTC().Format(time.RFC3339)})
	return s
}

func (e Entry) sighting(stored ledger.Receipt, cause string) ledger.Sighting {
	return ledger.Sighting{
		Offer: stored.Offer, Account: stored.Account, Rail: stored.Rail, ExternalID: stored.ExternalID,
		EvidenceLevel: ledger.LevelManual, Cause: cause, Note: e.Reason, Upon: &stored.Version,
	}
}

// takesBack is the operator's word on the whole payment. It is later than the
// one before, also within one second and after the clock was set back: what
// took effect has moved the receipt's version, and of two words on one version
// the one that gives the money back comes second.
func takesBack(stored ledger.Receipt, gone bool, now time.Time) []ledger.Return {
	word := ledger.Return{
		ID: "operator", Kind: ledger.ReturnReversal, Gone: gone,
		At: max(now.Unix(), stored.UpdatedAt), Rank: 2 * int(stored.Version),
	}
	if !gone {
		word.Rank++
	}
	return []ledger.Return{word}
}
