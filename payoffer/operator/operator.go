// Package operator is what an operator can do with one offer: see what was received,
// enter and change receipts, resolve payments whose outcome is unknown, have a
// rail read again, and make a new signing key. The admin API serves it, and the commands ask for it; its
// types with JSON members are what they exchange.
package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// The paths at which the admin API serves desks.
const (
	PathReceived = "/pay_offer/received"
	PathReceipts = "/pay_offer/receipts"
	PathIntents  = "/pay_offer/intents"
	PathClaims   = "/pay_offer/claims"
	PathKeys     = "/pay_offer/keys"

	PathAnnouncements = "/pay_offer/announcements"
	PathMovements     = "/pay_offer/movements"
	PathFeed          = "/pay_offer/feed"
	PathDiagnostics   = "/pay_offer/diagnostics"
)

// MaxPage is how many rows a page lists at most.
const MaxPage = 100

// Desk serves the operator of one offer.
type Desk struct {
	Offer    *offer.Offer
	Accounts []ledger.Account // where the money of the offer's rails arrives
	Ledger   *ledger.Ledger
	Health   func() []observe.Health // how well each rail is observed
	// Facilitators says how those are that settle.
	Facilitators func() []x402.FacilitatorHealth
	// Trouble says why the offer takes no payments; empty for one that does.
	Trouble func() string
	// Summary is what the offer answers at /v1/received, without receipts.
	Summary func(context.Context) (json.RawMessage, error)
	// Page is the address of the page that shows a receipt to its payer, a secret of
	// the two; empty while the service starts.
	Page func(ledger.Receipt) string
	// Rotate makes and publishes a new signing key, and says its whole id and
	// from when it signs. Where it fails, the keys are as they were, and an
	// *Error says it all.
	Rotate func(ctx context.Context, revoke bool) (keyID string, from time.Time, err error)
	// Announcer tells others of receipts.
	Announcer *announce.Announcer
	// Report returns the diagnostics of the offer, without its ledger and its rails.
	Report func() Diagnostics
	Now    func() time.Time
	Logger *slog.Logger

	acting sync.Mutex // one thing is done at a time: what stands decides
}

// Kind says why something was not done.
type Kind int

const (
	Invalid     Kind = iota + 1 // what was asked is wrong in itself
	Unknown                     // there is no such rail, receipt or payment
	Conflict                    // what stands in the ledger, or may still come, does not allow it
	Unavailable                 // the ledger or the storage cannot be used now
)

// Error is something that was not done. Every error of a desk is one. Nothing
// was changed, unless its sentence says so.
type Error struct {
	Kind     Kind
	Sentence string // tells the operator what is wrong and what to do
	cause    error  // for the log; nil where the sentence says it all
}

func (e *Error) Error() string {
	if e.cause != nil {
		return e.cause.Error()
	}
	return e.Sentence
}

func (e *Error) Unwrap() error { return e.cause }

func refuse(kind Kind, format string, args ...any) error {
	return &Error{Kind: kind, Sentence: fmt.Sprintf(format, args...)}
}

// invalid is the refusal of what err finds wrong.
func invalid(err error) error { return &Error{Kind: Invalid, Sentence: err.Error()} }

// noLedger is a failure of the ledger to be read.
func noLedger(err error) error {
	return &Error{Unavailable, "the ledger cannot be used now; the log says why, try again", err}
}

// notStored is a failure of the ledger to take a change, which it may have taken: the
// connection can be lost while it is committed.
func notStored(err error) error {
	return &Error{Unavailable, "the ledger cannot be used now; the log says why. Whether this was stored is not known: say the very same again, nothing is stored twice", err}
}

// cut takes from rows, of which one more than limit was asked for, those of a
// page. It returns the number from which the list goes on; nil at its end.
func cut[T any](rows []T, limit int, number func(T) int64) ([]T, *int64) {
	if len(rows) <= limit {
		return rows, nil
	}
	next := number(rows[limit-1])
	return rows[:limit], &next
}

// moment is a time in Unix seconds for people and programs.
func moment(unix int64) string { return accounting.Timestamp(unix) }

// dollars is an exact JSON number of US dollars; nil while the value is unknown.
func dollars(cents *int64) *json.Number {
	if cents == nil {
		return nil
	}
	number := json.Number(offer.USD(*cents).String())
	return &number
}
