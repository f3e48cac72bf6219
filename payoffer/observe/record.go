package observe

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// Ledger is what every observer reads and writes; *ledger.Ledger is one.
type Ledger interface {
	Record(ctx context.Context, cursor *ledger.Cursor, observations ...ledger.Observation) ([]ledger.Receipt, error)
	Cursor(ctx context.Context, offer, account string) (ledger.Cursor, bool, error)
	Account(ctx context.Context, offer, account string) (ledger.Account, error)
	SetOrigin(ctx context.Context, offer, account, origin string) (stored string, err error)
	LowerOrigin(ctx context.Context, offer, account, origin string) (lowered bool, err error)
}

// ErrNoLedger is all that is said of the ledger's failures: its own words may name
// its address.
var ErrNoLedger error = &Error{Code: ErrLedger, Host: "ledger"}

// Record commits observations and the cursor that covers them. Observations that the
// ledger refuses for good (ledger.ErrObservation), as one with an absurd amount,
// are returned and do not keep the others out. The error is ErrNoLedger.
func Record(ctx context.Context, l Ledger, cursor *ledger.Cursor, observations ...ledger.Observation) (refused []ledger.Observation, err error) {
	if len(observations) == 0 && cursor == nil {
		return nil, nil
	}
	_, err = l.Record(ctx, cursor, observations...)
	if errors.Is(err, ledger.ErrObservation) {
		for _, s := range observations {
			if _, err := l.Record(ctx, nil, s); errors.Is(err, ledger.ErrObservation) {
				refused = append(refused, s)
			} else if err != nil {
				return refused, ErrNoLedger
			}
		}
		if err = nil; cursor != nil {
			_, err = l.Record(ctx, cursor)
		}
	}
	if err != nil {
		return refused, ErrNoLedger
	}
	return refused, nil
}

// Cursor reads how far an account was observed. The error is ErrNoLedger.
func Cursor(ctx context.Context, l Ledger, offer, account string) (ledger.Cursor, bool, error) {
	c, found, err := l.Cursor(ctx, offer, account)
	if err != nil {
		return ledger.Cursor{}, false, ErrNoLedger
	}
	return c, found, nil
}

// Origin is since when an account's money counts, in the unit of its cursor: a
// Unix second, or a block. The account's first observer stores first; -1 stores
// nothing, and is what comes back while nobody has. The error is ErrNoLedger.
func Origin(ctx context.Context, l Ledger, offer, account string, first int64) (int64, error) {
	text := ""
	if first >= 0 {
		text = strconv.FormatInt(first, 10)
	}
	text, err := l.SetOrigin(ctx, offer, account, text)
	if err != nil {
		return 0, ErrNoLedger
	}
	return Position(text)
}

// Position reads a position that the ledger has in decimal digits; -1 for none. The error is ErrNoLedger.
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

// Account reads what is kept of an account. The error is ErrNoLedger.
func Account(ctx context.Context, l Ledger, offer, account string) (ledger.Account, error) {
	a, err := l.Account(ctx, offer, account)
	if err != nil {
		return ledger.Account{}, ErrNoLedger
	}
	return a, nil
}

// LowerOrigin puts the origin of an account back to a position, in the unit of
// its cursor, and reports whether it was later before. The error is ErrNoLedger.
func LowerOrigin(ctx context.Context, l Ledger, offer, account string, to int64) (lowered bool, err error) {
	if lowered, err = l.LowerOrigin(ctx, offer, account, strconv.FormatInt(to, 10)); err != nil {
		return false, ErrNoLedger
	}
	return lowered, nil
}

// Evidence is what a observation rests on, as JSON: numbers and texts.
func Evidence(of any) json.RawMessage {
	encoded, err := json.Marshal(of)
	if err != nil {
		panic("observe: " + err.Error())
	}
	return encoded
}

// Restated is what the chain says of a receipt that it does not show: all as it
// was read last, but for the state.
func Restated(row ledger.Receipt, state ledger.Status, cause string) *ledger.Observation {
	if row.ValueBasis == ledger.BasisStated {
		row.USDCents, row.ValueBasis = nil, "" // that is the operator's word, not the chain's
	}
	return &ledger.Observation{
		Offer: row.Offer, Account: row.Account, Rail: row.Rail, ExternalID: row.ExternalID, Transaction: row.Transaction,
		Asset: row.Asset, Amount: row.Amount, USDCents: row.USDCents, ValueBasis: row.ValueBasis, State: state,
		EvidenceLevel: ledger.LevelChain, Evidence: row.Evidence, Payer: row.Payer, Nonce: row.Nonce, Own: row.Own, Testnet: row.Testnet,
		OccurredAt: row.OccurredAt, Cause: cause,
	}
}
