// Package manual contains the rules of an operator's entries: payments that no other source reports, and their
// refunds. It checks an entry and turns it into an observation for the ledger. Its errors are for the operator.
package manual

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
)

const (
	// maxAmount bounds an entry, because a longer number is a typo.
	maxAmount offer.USD = 10_000_000_00
	// maxReference and maxReason bound the texts, in characters.
	maxReference = 128
	maxReason    = 500
	// ahead is how far the date of an entry may be in the future: time zones differ by less.
	ahead = 24 * time.Hour
	// oldest is the age from which an entry is probably a typo.
	oldest = 400 * 24 * time.Hour
)

// Entry is what an operator enters: the body of POST /pay_offer/receipts.
type Entry struct {
	Action      string      `json:"action"`          // enter, void, restore, refund, value, own or redact
	Offer       string      `json:"offer,omitempty"` // its id; optional if there is only one
	Rail        string      `json:"rail"`
	Reference   string      `json:"reference"`             // identifies the payment for good; published with the receipt
	Amount      json.Number `json:"amount,omitempty"`      // such as 42 or "42.50": US dollars, or the payment's unit for a refund
	Transaction string      `json:"transaction,omitempty"` // of the refund on the chain; to restore, only its refund
	Date        string      `json:"date,omitempty"`        // a day (UTC) or a moment, such as 2026-11-20T15:04:05+01:00
	Reason      string      `json:"reason,omitempty"`      // kept in the history, published nowhere
	Sure        bool        `json:"sure,omitempty"`        // it is right although it looks like a typo

	// USD is Amount in US cents, and OccurredAt is Date; both are zero without one. Parse sets them.
	USD        offer.USD `json:"-"`
	OccurredAt time.Time `json:"-"`
}

// Parse checks the entry as far as that is possible without the ledger.
func (e *Entry) Parse(now time.Time) (err error) {
	if e.Reference == "" {
		return errors.New("the reference is missing; write what identifies the payment, such as INV-7 or " +
			"a reference that 'caddy pay-offer received --receipts' lists")
	}
	if err := checkText("reference", e.Reference, maxReference); err != nil {
		return err
	}
	e.Reference = norm.NFC.String(e.Reference)
	if e.Reason != "" || e.Action != "enter" {
		if err := CheckReason(e.Reason); err != nil {
			return err
		}
	}
	if e.Amount != "" && e.Action != "refund" {
		if e.USD, err = ParseAmount(e.Amount.String()); err != nil {
			return err
		}
	}
	if e.Date != "" {
		if e.OccurredAt, err = ParseDate(e.Date, time.UTC); err != nil {
			return err
		}
	}
	if e.OccurredAt.After(now.Add(ahead)) {
		return fmt.Errorf("the date %s is in the future; enter a payment after it has arrived", day(e.OccurredAt))
	}
	return nil
}

// CheckReason checks the reason of a change, which is required.
func CheckReason(reason string) error {
	if reason == "" {
		return errors.New("the reason is missing; write one, such as \"paid in cash\" (it is not published)")
	}
	return checkText("reason", reason, maxReason)
}

func checkText(name, text string, most int) error {
	switch {
	case !utf8.ValidString(text):
		return fmt.Errorf("the %s is not UTF-8 text; remove the other characters", name)
	case utf8.RuneCountInString(text) > most:
		return fmt.Errorf("the %s has %d characters; use at most %d", name, utf8.RuneCountInString(text), most)
	case strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("the %s contains a character that cannot be printed, such as a line break; remove it", name)
	case text != strings.TrimSpace(text):
		return fmt.Errorf("the %s begins or ends with a space; remove it", name)
	default:
		return nil
	}
}

var mailAddress = regexp.MustCompile(`[^\s@<>]+@[^\s@<>]+\.[^\s@<>]`)

// CheckPublishable refuses a reference that contains an e-mail address, because references are published.
func CheckPublishable(reference string) error {
	if mailAddress.MatchString(reference) {
		return errors.New("the reference looks like an e-mail address and would be published; use an invoice number, such as INV-7")
	}
	return nil
}

// Typo returns why a new entry is probably a mistake, or empty. price is that of the offer, and references are those
// that were entered before.
func (e Entry) Typo(price offer.USD, references []string, now time.Time) string {
	if e.USD > 3*price || 3*e.USD < price {
		return fmt.Sprintf("the amount is %s US dollars, and the price %s", e.USD.Decimal(), price.Decimal())
	}
	if !e.OccurredAt.IsZero() && now.Sub(e.OccurredAt) > oldest {
		return "the date " + day(e.OccurredAt) + " is more than 400 days ago"
	}
	if e.OccurredAt.After(now) {
		return "the date " + day(e.OccurredAt) + " is in the future"
	}
	for _, other := range references {
		if other != e.Reference && strings.EqualFold(bare(other), bare(e.Reference)) {
			return fmt.Sprintf("the reference is almost %q, which is entered already", other)
		}
	}
	return ""
}

// bare is a reference without its dashes, spaces and forms of Unicode.
func bare(reference string) string {
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Pd, unicode.Zs) || r == '\u2212' { // the minus sign
			return -1
		}
		return r
	}, norm.NFKC.String(reference))
}

// day is a date for people.
func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// ParseAmount reads a plain decimal number of US dollars with at most two decimals, more than 0 and at most maxAmount.
func ParseAmount(s string) (offer.USD, error) {
	cents, cut, ok := offer.ParseDecimal(s, 2)
	if !ok || cut {
		return 0, fmt.Errorf("%.40q is not an amount of US dollars; write at most two decimals, such as 42 or 42.50", s)
	}
	if amount := offer.USD(cents); amount > 0 && amount <= maxAmount {
		return amount, nil
	}
	return 0, fmt.Errorf("the amount %.40s is out of range; it must be more than 0 and at most %s US dollars", s, maxAmount)
}

// ParseDate reads a day (its midnight in the zone) or a moment (RFC 3339), from 1970 on.
func ParseDate(s string, zone *time.Location) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		t, err := time.ParseInLocation(layout, s, zone)
		switch {
		case err != nil:
		case t.Unix() <= 0: // the zero time means no date
			return t, fmt.Errorf("the date %s is before 1970; correct the year, such as 2026-11-20", day(t))
		default:
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%.40q is not a date; write for example 2026-11-20 or 2026-11-20T15:04:05Z", s)
}

// Day is the day of an entry without a time of day, such as "2026-11-20"; else empty.
func (e Entry) Day() string {
	if hour, minute, second := e.OccurredAt.Clock(); e.OccurredAt.IsZero() || hour+minute+second > 0 {
		return ""
	}
	return e.OccurredAt.Format(time.DateOnly)
}

// IsDated reports whether the entry has the date of a receipt, or none. The same day in another time zone is the same.
func (e Entry) IsDated(stored ledger.Receipt) bool {
	if e.OccurredAt.IsZero() || e.OccurredAt.Unix() == stored.OccurredAt {
		return true
	}
	day := e.Day()
	return day != "" && day == report.Day(stored)
}

// Enter returns the observation of entered money. stored is the voided receipt that the entry replaces, if any.
func (e Entry) Enter(stored ledger.Receipt, now time.Time) ledger.Observation {
	s := e.observation(stored, "entered")
	amount, occurred := int64(e.USD), now.Unix()
	if !e.OccurredAt.IsZero() {
		occurred = e.OccurredAt.Unix()
	}
	s.Asset, s.Amount, s.USDCents, s.State, s.OccurredAt = "USD", amount, &amount, ledger.StatusConfirmed, occurred
	s.ValueBasis = ledger.BasisFace
	s.Evidence = offer.JSON(struct {
		Day       string `json:"day,omitempty"`
		EnteredAt string `json:"enteredAt"`
	}{e.Day(), now.UTC().Format(time.RFC3339)})
	if stored.Version > 0 {
		s.Revision, s.Returns = stored.Revision+1, []ledger.Return{voidRecord(stored, false, now)}
	}
	return s
}

// CauseRestored is the cause of the change that undoes a void or refunds.
const CauseRestored = "restored_by_operator"

// Void returns the observation that takes a receipt out of the totals.
func (e Entry) Void(stored ledger.Receipt, now time.Time) ledger.Observation {
	return e.addendum(stored, "voided_by_operator", voidRecord(stored, true, now))
}

// Restore returns the observation that undoes Void.
func (e Entry) Restore(stored ledger.Receipt, now time.Time) ledger.Observation {
	return e.addendum(stored, CauseRestored, voidRecord(stored, false, now))
}

// MarkOwn returns the observation that a payment is one of the operator's own.
func (e Entry) MarkOwn(stored ledger.Receipt) ledger.Observation {
	s := e.addendum(stored, "marked_own")
	s.Own = true
	return s
}

func (e Entry) observation(stored ledger.Receipt, cause string) ledger.Observation {
	return ledger.Observation{
		Offer: stored.Offer, Account: stored.Account, Rail: stored.Rail, ExternalID: stored.ExternalID,
		EvidenceLevel: ledger.LevelManual, Cause: cause, Note: e.Reason, ExpectedVersion: &stored.Version,
	}
}

func (e Entry) addendum(stored ledger.Receipt, cause string, returns ...ledger.Return) ledger.Observation {
	s := e.observation(stored, cause)
	s.Addendum, s.Returns = true, returns
	return s
}

// voidRecord is the operator's void of a whole payment, or the end of one. The receipt's version orders them, because
// two can have the same second and the clock can be set back. Of the same version, the end is later.
func voidRecord(stored ledger.Receipt, gone bool, now time.Time) ledger.Return {
	r := ledger.Return{
		ID: "operator", Kind: ledger.ReturnReversal, Gone: gone, At: max(now.Unix(), stored.UpdatedAt), Rank: 2 * int(stored.Version),
	}
	if !gone {
		r.Rank++
	}
	return r
}
