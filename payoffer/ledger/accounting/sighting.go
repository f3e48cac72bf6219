package accounting

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Bounds of what a sighting brings, in bytes. The external id is part of a
// header of each announcement.
const (
	maxExternalID = 256
	maxEvidence   = 4 << 10
	maxNote       = 4 << 10
)

// nonceForm is how the nonce of an authorization is written.
var nonceForm = regexp.MustCompile(`^0x[0-9a-f]{64}$`)

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
	// chain the first known value of a confirmed amount stays.
	USDCents *int64
	// ValueBasis says how USDCents was fixed.
	ValueBasis ValueBasis
	// Stated is what the operator says that the payment is worth, or nil.
	Stated *StatedValue
	// State is StatusSeen, StatusConfirmed, StatusDropped or StatusMoved.
	State Status
	// Returns is money that went back to the payer, or came back from there.
	Returns []Return
	// Addendum says that the sighting brings Returns or Stated alone: it never
	// makes a row. Returns are kept, and counted as soon as another sighting made
	// one, within 35 days. Beside them it has Offer, Account, Rail, ExternalID,
	// EvidenceLevel, Cause and Note; the rest is not looked at.
	Addendum bool
	// Once says that the external id names the money on the whole rail: where
	// another account of the offer has it, this one makes no row.
	Once bool
	// Revision orders an operator's entries of one receipt: the highest holds,
	// and gives way to what a provider or a chain says. Entries of one revision
	// are joined. Other sightings leave it 0.
	Revision int64
	// Upon is the version of the receipt, 0 for none, on which an operator decided
	// to say this: it is refused where another stands by now. nil is said upon
	// whatever stands.
	Upon *int64
	// Note is an operator's reason (up to 4 KiB), kept with the transition and
	// published nowhere.
	Note string
	// Final says that the chain will not change its mind any more.
	Final bool
	// EvidenceLevel is what the sighting rests on, and Evidence a small JSON
	// value (up to 4 KiB, no personal data) by which it can be checked again.
	EvidenceLevel EvidenceLevel
	Evidence      json.RawMessage
	// Payer is a chain address, or empty.
	Payer string
	// Nonce is that of the EIP-3009 authorization that made the movement: 0x
	// and 64 lower-case hex digits, or empty. Only a chain knows it. It is
	// added even to a final receipt, and what leaves it out takes none away.
	Nonce string
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
	// Cause is a short machine word for the history, as in "poll", "webhook" or
	// CauseBackfilled.
	Cause string
}

// CauseBackfilled is the cause of what was found before the first origin of an
// account, once that was lowered.
const CauseBackfilled = "backfilled"

// CauseRedacted is the cause of the transition by which the readers of the feed
// learn that a receipt has another external id.
const CauseRedacted = "redacted"

// IntentKey identifies an EIP-3009 authorization: the token contract accepts
// a nonce of a payer once.
type IntentKey struct {
	// Network is the CAIP-2 chain id, as in "eip155:8453".
	Network string
	// Asset is the token contract, From the payer, Nonce the 32 bytes of the
	// authorization; hex with 0x. The ledger compares them in lower case.
	Asset, From, Nonce string
}

// Canonical makes one key of all spellings of the same authorization: two of
// them in the ledger would be two charges.
func (k IntentKey) Canonical() IntentKey {
	return IntentKey{k.Network, strings.ToLower(k.Asset), strings.ToLower(k.From), strings.ToLower(k.Nonce)}
}

// ErrSighting is returned for a sighting that can be no row.
var ErrSighting = errors.New("invalid sighting")

// Validate returns ErrSighting, with the reason, for what cannot be stored.
func (s *Sighting) Validate() error {
	problem := s.problem()
	if problem == "" && !s.Addendum {
		problem = s.paymentProblem()
	}
	for _, r := range s.Returns {
		problem = cmp.Or(problem, r.problem())
	}
	if problem == "" {
		return nil
	}
	return fmt.Errorf("%w: %q of account %q: %s", ErrSighting, s.ExternalID, s.Account, problem)
}

// problem says why the sighting cannot be stored; empty for none.
func (s *Sighting) problem() string {
	switch {
	case s.Offer == "" || s.Account == "" || s.Rail == "" || s.ExternalID == "":
		return "offer, account, rail and external id are needed"
	case len(s.ExternalID) > maxExternalID:
		return fmt.Sprintf("an external id of %d bytes is above %d", len(s.ExternalID), maxExternalID)
	case s.EvidenceLevel.trust() == trustNone:
		return fmt.Sprintf("unknown evidence level %q", s.EvidenceLevel)
	case s.Addendum && len(s.Returns) == 0 && s.Stated == nil:
		return "an addendum brings returns or a stated value"
	case s.Stated != nil && (s.Stated.USDCents < 0 || s.EvidenceLevel != LevelManual):
		return "the operator alone states a value, from 0 on"
	case len(s.Note) > maxNote:
		return fmt.Sprintf("a note of %d bytes is above %d", len(s.Note), maxNote)
	case !Storable(s.Offer, s.Account, s.Rail, s.ExternalID, s.Cause, s.Note):
		return "a text is not UTF-8 or holds U+0000"
	default:
		return ""
	}
}

// paymentProblem is problem for what the sighting says of the payment itself.
func (s *Sighting) paymentProblem() string {
	switch {
	case s.Asset == "":
		return "the asset is needed"
	case s.State != StatusSeen && s.State != StatusConfirmed && s.State != StatusDropped && s.State != StatusMoved:
		return fmt.Sprintf("state %q is not seen, confirmed, dropped or moved", s.State)
	case s.State == StatusMoved && s.EvidenceLevel != LevelChain:
		return "only a chain tells that money was moved within an account"
	case s.Intent != nil && s.Transaction == "":
		return "an intent is joined by a transaction"
	case s.Nonce != "" && (s.EvidenceLevel != LevelChain || !nonceForm.MatchString(s.Nonce)):
		return "a nonce is 0x and 64 lower-case hex digits, and read from a chain"
	case s.Amount < 0 || s.USDCents != nil && *s.USDCents < 0:
		return "negative amount"
	case s.Revision < 0 || s.Revision > 0 && s.EvidenceLevel != LevelManual:
		return "an operator's entries alone have a revision, from 0 on"
	case len(s.Evidence) > maxEvidence:
		return fmt.Sprintf("evidence of %d bytes is above %d", len(s.Evidence), maxEvidence)
	case len(s.Evidence) > 0 && !json.Valid(s.Evidence):
		return "evidence is not JSON"
	case !Storable(s.Transaction, s.Via, s.Asset, string(s.Evidence), s.Payer):
		return "a text is not UTF-8 or holds U+0000"
	default:
		return ""
	}
}

// Storable reports whether every database keeps the texts as they are: in UTF-8,
// without U+0000.
func Storable(texts ...string) bool {
	for _, text := range texts {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return false
		}
	}
	return true
}
