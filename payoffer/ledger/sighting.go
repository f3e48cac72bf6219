package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Status is what a receipt amounts to. Only StatusConfirmed is money held.
type Status string

// The statuses.
const (
	// StatusSeen is announced by the truth source and not sure yet.
	StatusSeen Status = "seen"
	// StatusConfirmed is money received.
	StatusConfirmed Status = "confirmed"
	// StatusDropped never became money: it left the chain or failed.
	StatusDropped Status = "dropped"
	// StatusRefunded went back to the payer in full.
	StatusRefunded Status = "refunded"
	// StatusReversed was taken back, by a dispute or by the operator's entry.
	StatusReversed Status = "reversed"
	// StatusSettling and StatusClaimed are sums of x402 intents that have no
	// receipt: of unknown outcome, and settled by a facilitator's word alone.
	StatusSettling Status = "settling"
	StatusClaimed  Status = "claimed"
)

// EvidenceLevel says what a receipt rests on.
type EvidenceLevel string

// The levels of evidence.
const (
	// LevelAsserted is an unsigned message: it counts nowhere.
	LevelAsserted EvidenceLevel = "asserted"
	// LevelSigned is a message with a verified signature.
	LevelSigned EvidenceLevel = "signed"
	// LevelProvider was read from the provider.
	LevelProvider EvidenceLevel = "provider"
	// LevelChain was read from the chain.
	LevelChain EvidenceLevel = "chain"
	// LevelManual is an operator's entry.
	LevelManual EvidenceLevel = "manual"
)

// Counted reports whether confirmed money with this evidence counts as
// received.
func (e EvidenceLevel) Counted() bool { return e.trust() >= trustProven }

// maxEvidence bounds a receipt's evidence, in bytes.
const maxEvidence = 4 << 10

// Sighting is what a truth source says about one money movement at one time.
type Sighting struct {
	// Offer, Account and Rail say where the money went. The rail's name is
	// kept from the first sighting.
	Offer, Account, Rail string
	// ExternalID names the money, as in "eip155:<chain>:<tx>:<ordinal>",
	// "txid:vout" or "pi_…". It is unique in its account.
	ExternalID string
	// Transaction is the hash of the chain's transaction, or empty.
	Transaction string
	// Via is how the payer was led here: "x402", "eip681", "link" or empty.
	// It is only ever added.
	Via string
	// Asset names the unit, and Amount counts it in atomic units.
	Asset  string
	Amount int64
	// USDCents is the amount's value in US cents; nil while unknown. On a
	// chain the first known value of an amount stays.
	USDCents *int64
	// State is StatusSeen, StatusConfirmed or StatusDropped.
	State Status
	Refunded   int64
	Reversed   bool
	ReversedAt int64
	// Returns is money that went back to the payer, or came back from there.
	Returns []Return
	// Addendum says that the sighting brings Returns alone: it never makes a
	// row. They are kept, and counted as soon as another sighting made one.
	Addendum bool
	// Revision orders an operator's entries of one receipt: the highest holds.
	// Other sightings leave it 0.
	Revision int64
	// Note is an operator's reason, kept with the transition and published
	// nowhere.
	Note string
	// Final says that the chain will not change its mind any more.
	Final bool
	// EvidenceLevel is what the sighting rests on, and Evidence a small JSON
	// value (up to 4 KiB, no personal data) by which it can be checked again.
	EvidenceLevel EvidenceLevel
	Evidence      json.RawMessage
	// Payer is a chain address, or empty.
	Payer string
	// Own says that the payer is one of the operator's own addresses.
	Own bool
	// Testnet says that the money is worth nothing; on a Testnet account it is
	// so without being said.
	Testnet bool
	// Intent is the x402 authorization that the movement used, or nil.
	Intent *IntentKey
	// Answer is what replays of that authorization are answered with; nil
	// keeps what is stored.
	Answer []byte
	// OccurredAt is when the money moved, in Unix seconds.
	OccurredAt int64
	// Cause is a short machine word for the history, as in "poll" or "webhook".
	Cause string
}

// ErrSighting is returned by Record for a sighting that can be no row.
var ErrSighting = errors.New("invalid sighting")

func (s *Sighting) validate() error {
	var problem string
	switch {
	case s.Offer == "" || s.Account == "" || s.Rail == "" || s.ExternalID == "" || s.Asset == "":
		problem = "offer, account, rail, external id and asset are needed"
	case s.State != StatusSeen && s.State != StatusConfirmed && s.State != StatusDropped:
		problem = fmt.Sprintf("state %q is not seen, confirmed or dropped", s.State)
	case s.EvidenceLevel.trust() == trustNone:
		problem = fmt.Sprintf("unknown evidence level %q", s.EvidenceLevel)
	case s.Intent != nil && s.Transaction == "":
		problem = "an intent is joined by a transaction"
	case s.Amount < 0 || s.Refunded < 0 || s.USDCents != nil && *s.USDCents < 0:
		problem = "negative amount"
	case len(s.Evidence) > maxEvidence:
		problem = fmt.Sprintf("evidence of %d bytes is above %d", len(s.Evidence), maxEvidence)
	case len(s.Evidence) > 0 && !json.Valid(s.Evidence):
		problem = "evidence is not JSON"
	case !storable(s.Offer, s.Account, s.Rail, s.ExternalID, s.Transaction, s.Via, s.Asset, string(s.Evidence), s.Payer, s.Cause):
		problem = "a text is not UTF-8 or holds U+0000"
	default:
		return nil
	}
	return fmt.Errorf("%w: %q of account %q: %s", ErrSighting, s.ExternalID, s.Account, problem)
}

// storable reports whether every database keeps the texts as they are.
func storable(texts ...string) bool {
	for _, text := range texts {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return false
		}
	}
	return true
}
