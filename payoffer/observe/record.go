package observe

import (
	"context"
	"errors"
	"strconv"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// Ledger is the part of ledger.Ledger that observers use.
type Ledger interface {
	Record(ctx context.Context, cursor *ledger.Cursor, observations ...ledger.Observation) ([]ledger.Receipt, error)
	Cursor(ctx context.Context, offer, account string) (ledger.Cursor, bool, error)
	Account(ctx context.Context, offer, account string) (ledger.Account, error)
	SetOrigin(ctx context.Context, offer, account, origin string) (stored string, err error)
	LowerOrigin(ctx context.Context, offer, account, origin string) (lowered bool, err error)
}

// ErrNoLedger replaces all errors of the ledger, because their texts may contain its address.
var ErrNoLedger error = &Error{Code: ErrLedger, Host: "ledger"}

// Record commits observations and the cursor that covers them. It returns the observations
// that the ledger rejects as invalid (ledger.ErrObservation), such as one with an absurd
// amount, and stores the others. The error is ErrNoLedger.
func Record(ctx context.Context, l Ledger, cursor *ledger.Cursor, observations ...ledger.Observation) (rejected []ledger.Observation, err error) {
	if len(observations) == 0 && cursor == nil {
		return nil, nil
	}
	_, err = l.Record(ctx, cursor, observations...)
	if errors.Is(err, ledger.ErrObservation) {
		for _, o := range observations {
			if _, err := l.Record(ctx, nil, o); errors.Is(err, ledger.ErrObservation) {
				rejected = append(rejected, o)
			} else if err != nil {
				return rejected, ErrNoLedger
			}
		}
		if err = nil; cursor != nil {
			_, err = l.Record(ctx, cursor)
		}
	}
	if err != nil {
		return rejected, ErrNoLedger
	}
	return rejected, nil
}

// Cursor reads the cursor of an account. The error is ErrNoLedger.
func Cursor(ctx context.Context, l Ledger, offer, account string) (ledger.Cursor, bool, error) {
	c, found, err := l.Cursor(ctx, offer, account)
	if err != nil {
		return ledger.Cursor{}, false, ErrNoLedger
	}
	return c, found, nil
}

// Origin returns the position from which an account's money counts: a Unix second or a block,
// as in its cursor. If none is stored, it stores first. The error is ErrNoLedger.
func Origin(ctx context.Context, l Ledger, offer, account string, first int64) (int64, error) {
	text, err := l.SetOrigin(ctx, offer, account, strconv.FormatInt(first, 10))
	if err != nil {
		return 0, ErrNoLedger
	}
	return Position(text)
}

// Position parses a stored position of decimal digits; -1 for an empty one. The error is ErrNoLedger.
func Position(text string) (int64, error) {
	if text == "" {
		return -1, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, ErrNoLedger
	}
	return int64(n), nil
}

// LowerOrigin moves the origin of an account to an earlier position, in the unit of its
// cursor, and reports whether it was later before. The error is ErrNoLedger.
func LowerOrigin(ctx context.Context, l Ledger, offer, account string, to int64) (lowered bool, err error) {
	if lowered, err = l.LowerOrigin(ctx, offer, account, strconv.FormatInt(to, 10)); err != nil {
		return false, ErrNoLedger
	}
	return lowered, nil
}

// Restated returns an observation of a receipt that the chain does not show any more: with
// its last values and the given state.
func Restated(row ledger.Receipt, state ledger.Status, cause string) *ledger.Observation {
	if row.ValueBasis == ledger.BasisStated {
		row.USDCents, row.ValueBasis = nil, "" // the operator stated the value, not the chain
	}
	return &ledger.Observation{
		Offer: row.Offer, Account: row.Account, Rail: row.Rail, ExternalID: row.ExternalID, Transaction: row.Transaction,
		Asset: row.Asset, Amount: row.Amount, USDCents: row.USDCents, ValueBasis: row.ValueBasis, State: state,
		EvidenceLevel: ledger.LevelChain, Evidence: row.Evidence, Payer: row.Payer, Nonce: row.Nonce, Own: row.Own, Testnet: row.Testnet,
		OccurredAt: row.OccurredAt, Cause: cause,
	}
}
