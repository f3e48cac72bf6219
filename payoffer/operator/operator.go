// Package operator implements the actions of an operator on one offer: list receipts, enter payments and refunds,
// resolve payments of unknown outcome, and make a new signing key. The admin API serves it. Its types with JSON
// members are what the commands exchange with the running server.
package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/gate"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// Paths of the admin API.
const (
	PathReceived = "/pay_offer/received"
	PathReceipts = "/pay_offer/receipts"
	PathIntents  = "/pay_offer/intents"
	PathClaims   = "/pay_offer/claims"
	PathKeys     = "/pay_offer/keys"
	PathPasses   = "/pay_offer/passes"

	PathAnnouncements = "/pay_offer/announcements"
	PathMovements     = "/pay_offer/movements"
	PathFeed          = "/pay_offer/feed"
	PathDiagnostics   = "/pay_offer/diagnostics"
)

// MaxPage is the largest number of rows on a page.
const MaxPage = 100

// Service serves the operator of one offer.
type Service struct {
	Offer    *offer.Offer
	Accounts []ledger.Account // of the offer's rails
	Ledger   *ledger.Ledger
	// Health is how well each rail is observed, and Facilitators that of the facilitators.
	Health       func() []observe.Health
	Facilitators func() []x402.FacilitatorHealth
	// Trouble is why the offer takes no payments; empty if it does.
	Trouble func() string
	// Summary is the report of /v1/received without receipts.
	Summary func(context.Context) (report.Summary, error)
	// Page is the URL of a receipt's page, a secret of the payer and the operator; empty during the start.
	Page func(ledger.Receipt) string
	// Keeper makes the links of passes.
	Keeper *gate.Keeper
	// Rotate makes and publishes a new signing key. If it fails, the keys are unchanged.
	Rotate    func(ctx context.Context, revoke bool) (keyID string, signsFrom time.Time, err error)
	Announcer *announce.Announcer
	// Report returns the diagnostics of the offer, without its ledger and its rails.
	Report func() Diagnostics
	Now    func() time.Time
	Logger *slog.Logger

	changing sync.Mutex // one change at a time, because each depends on the present state
}

// Kind is why a request failed.
type Kind int

const (
	Invalid     Kind = iota + 1 // the request itself is wrong
	Unknown                     // there is no such rail, receipt or payment
	Conflict                    // the state of the ledger does not allow it
	Unavailable                 // the ledger or the storage cannot be used now
)

// Error is the error of every method of Service. Nothing was changed unless its sentence says so.
type Error struct {
	Kind     Kind
	Sentence string // for the operator: what is wrong and what to do
	cause    error  // for the log, or nil
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

func invalid(err error) error { return &Error{Kind: Invalid, Sentence: err.Error()} }

func unreadable(err error) error {
	return &Error{Unavailable, "the ledger is not available now; read the server's log for the reason, and try again", err}
}

// notStored is for a failed commit, which the ledger may have stored: the connection can be lost meanwhile.
func notStored(err error) error {
	return &Error{Unavailable, "the ledger is not available now, so this may or may not be stored; read the server's log for the reason, " +
		"then send exactly the same again: nothing is stored twice", err}
}

// cutPage removes the row after a page, which shows that there is a next page, and returns the number of the last row
// left, from which the next page continues.
func cutPage[T any](rows []T, limit int, number func(T) int64) ([]T, *int64) {
	if len(rows) <= limit {
		return rows, nil
	}
	return rows[:limit], new(number(rows[limit-1]))
}

func timestamp(unix int64) string { return accounting.Timestamp(unix) }

// KeyRotation asks for a new signing key.
type KeyRotation struct {
	Offer  string `json:"offer,omitempty"`  // its id; optional if there is only one
	Revoke bool   `json:"revoke,omitempty"` // withdraw all earlier keys
}

// RotatedKey is the answer.
type RotatedKey struct {
	Offer     string `json:"offer"`
	KeyID     string `json:"key_id"`     // such as "did:web:pay.example.org#key"
	SignsFrom string `json:"signs_from"` // RFC 3339
	Revoked   bool   `json:"revoked"`
}

// RotateKey makes a new key for signed offers and receipts.
func (s *Service) RotateKey(ctx context.Context, r KeyRotation) (RotatedKey, error) {
	id, from, err := s.Rotate(ctx, r.Revoke)
	if refused := (*Error)(nil); errors.As(err, &refused) {
		return RotatedKey{}, refused
	}
	if err != nil {
		return RotatedKey{}, &Error{Unavailable, "Caddy's storage is not available now, and the keys are unchanged; read the server's log for the reason, and try again", err}
	}
	key := RotatedKey{Offer: s.Offer.ID, KeyID: id, SignsFrom: timestamp(from.Unix()), Revoked: r.Revoke}
	s.Logger.Info("the operator rotated the signing key", "key_id", key.KeyID, "signs_from", key.SignsFrom, "revoked", key.Revoked)
	return key, nil
}
