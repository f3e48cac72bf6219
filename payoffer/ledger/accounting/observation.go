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

// Maximum sizes in bytes. The external ID is part of a header of each webhook.
const (
	maxExternalID = 256
	maxEvidence   = 4 << 10
	maxNote       = 4 << 10
)

// nonceForm is the form of the nonce of an authorization.
var nonceForm = regexp.MustCompile(`^0x[0-9a-f]{64}$`)

// Observation is what a source reports about one money movement at one time.
type Observation struct {
	// Offer, Account and Rail say where the money went. The first rail name stays.
	Offer, Account, Rail string
	// ExternalID names the money in its account, such as "eip155:<chain>:<tx>:<ordinal>",
	// "txid:vout" or "pi_…".
	ExternalID  string
	Transaction string // the hash of the chain's transaction, or empty
	// Via is the method by which the payer sent the money: "x402", "eip681", "link" or empty. Merge only adds it.
	Via    string
	Asset  string
	Amount int64 // in atomic units of the asset
	// USDCents is the value in US cents; nil while unknown. On a chain the first known value
	// of a confirmed amount stays.
	USDCents   *int64
	ValueBasis ValueBasis
	Stated     *StatedValue // by the operator, or nil
	State      Status       // StatusSeen, StatusConfirmed, StatusDropped or StatusMoved
	Returns    []Return     // refunds and disputes
	// Addendum means that only Returns, Stated and Own count, and that no row is made. Offer,
	// Account, Rail, ExternalID, EvidenceLevel, Cause and Note say for which receipt and why.
	// Returns are stored, and merged as soon as there is a row, within 35 days.
	Addendum bool
	// Once means that the external ID is unique on the rail: no row is made if another account
	// of the offer has it.
	Once bool
	// Revision orders an operator's entries of one receipt: the highest replaces the others, unless a
	// provider or a chain reports the payment. It is 0 for other sources.
	Revision int64
	// ExpectedVersion is the version of the receipt that the operator saw, 0 for none. Record
	// rejects the observation if it is another one now. nil accepts any.
	ExpectedVersion *int64
	Note            string // the operator's reason (up to 4 KiB), which is private
	Final           bool   // the chain will not change any more
	EvidenceLevel   EvidenceLevel
	Evidence        json.RawMessage // for a later check (up to 4 KiB, no personal data)
	Payer           string          // a chain address, or empty
	// Nonce is that of the EIP-3009 authorization of the movement (0x and 64 lower-case hex
	// digits), or empty. It is added even to a final receipt, and never removed.
	Nonce      string
	Own        bool       // the payer is one of the operator's own addresses
	Testnet    bool       // the money is worth nothing; set for every observation of a Testnet account
	Intent     *IntentKey // the x402 authorization of the movement, or nil
	Answer     []byte     // the response to repeats of that authorization; nil keeps the stored one
	OccurredAt int64      // when the money moved, in Unix seconds
	Cause      string     // a short machine word for the history, such as "poll" or CauseBackfilled
}

const (
	CauseBackfilled = "backfilled" // from before the account's first origin; read after the origin was lowered
	CauseRedacted   = "redacted"   // the receipt has another external ID
)

// IntentKey identifies an EIP-3009 authorization: the token contract accepts a nonce of a
// payer once. Asset (the token contract), From (the payer) and Nonce are hex with 0x.
type IntentKey struct {
	Network            string // CAIP-2, such as "eip155:8453"
	Asset, From, Nonce string
}

// Canonical returns the only form in which the ledger stores a key: with two
// forms, one authorization could be charged twice.
func (i IntentKey) Canonical() IntentKey {
	return IntentKey{i.Network, strings.ToLower(i.Asset), strings.ToLower(i.From), strings.ToLower(i.Nonce)}
}

// ErrObservation is returned for an invalid observation.
var ErrObservation = errors.New("the observed payment is invalid")

// Validate returns ErrObservation with the reason, or nil.
func (o *Observation) Validate() error {
	problem := o.problem()
	if problem == "" && !o.Addendum {
		problem = o.paymentProblem()
	}
	for _, r := range o.Returns {
		problem = cmp.Or(problem, r.problem())
	}
	if problem == "" {
		return nil
	}
	return fmt.Errorf("%w: %q of account %q: %s; report this as a bug", ErrObservation, o.ExternalID, o.Account, problem)
}

func (o *Observation) problem() string {
	switch {
	case o.Offer == "" || o.Account == "" || o.Rail == "" || o.ExternalID == "":
		return "offer, account, rail and external id are needed"
	case len(o.ExternalID) > maxExternalID:
		return fmt.Sprintf("the external id has %d bytes; at most %d are allowed", len(o.ExternalID), maxExternalID)
	case o.EvidenceLevel.trust() == trustNone:
		return fmt.Sprintf("unknown evidence level %q", o.EvidenceLevel)
	case o.Addendum && len(o.Returns) == 0 && o.Stated == nil && !o.Own:
		return "an addendum needs returns, a stated value or Own"
	case o.Stated != nil && (o.Stated.USDCents < 0 || o.EvidenceLevel != LevelManual):
		return "only the operator may state a value, and it must not be negative"
	case len(o.Note) > maxNote:
		return fmt.Sprintf("the note has %d bytes; at most %d are allowed", len(o.Note), maxNote)
	case !Storable(o.Offer, o.Account, o.Rail, o.ExternalID, o.Cause, o.Note):
		return "a text is not UTF-8 or contains U+0000"
	default:
		return ""
	}
}

func (o *Observation) paymentProblem() string {
	switch {
	case o.Asset == "":
		return "the asset is needed"
	case o.State != StatusSeen && o.State != StatusConfirmed && o.State != StatusDropped && o.State != StatusMoved:
		return fmt.Sprintf("state %q is not seen, confirmed, dropped or moved", o.State)
	case o.State == StatusMoved && o.EvidenceLevel != LevelChain:
		return "only a chain reports that money moved within an account"
	case o.Intent != nil && o.Transaction == "":
		return "an intent needs a transaction"
	case o.Nonce != "" && (o.EvidenceLevel != LevelChain || !nonceForm.MatchString(o.Nonce)):
		return "a nonce must be 0x and 64 lower-case hex digits, and come from a chain"
	case o.Amount < 0 || o.USDCents != nil && *o.USDCents < 0:
		return "negative amount"
	case o.Revision < 0 || o.Revision > 0 && o.EvidenceLevel != LevelManual:
		return "only an operator's entry may have a revision, and it must not be negative"
	case len(o.Evidence) > maxEvidence:
		return fmt.Sprintf("the evidence has %d bytes; at most %d are allowed", len(o.Evidence), maxEvidence)
	case len(o.Evidence) > 0 && !json.Valid(o.Evidence):
		return "evidence is not JSON"
	case !Storable(o.Transaction, o.Via, o.Asset, string(o.Evidence), o.Payer):
		return "a text is not UTF-8 or contains U+0000"
	default:
		return ""
	}
}

// Storable reports whether every database can store the texts: UTF-8 without U+0000.
func Storable(texts ...string) bool {
	for _, text := range texts {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return false
		}
	}
	return true
}
