package accounting

import (
	"errors"
	"time"
)

// IntentState is the outcome of an intent, as it is stored. Stage says more.
type IntentState string

// The states of an intent.
const (
	// IntentSettling is open: the outcome is unknown.
	IntentSettling IntentState = "settling"
	// IntentSettled was paid. Progress.Evidence is the proof.
	IntentSettled IntentState = "settled"
	// IntentRefused was not paid and cannot be paid any more.
	IntentRefused IntentState = "refused"
	// IntentWithdrawn was not sent. It is never stored.
	IntentWithdrawn IntentState = "withdrawn"
)

// The evidence that an intent was paid.
const (
	// EvidenceFacilitator is a facilitator's unverified report. It is not counted.
	EvidenceFacilitator = "facilitator"
	// EvidenceChain is the Transfer log.
	EvidenceChain = "chain"
)

const (
	// LongestLease is the longest lease of an intent or of a subscriber. It is far more than the clocks of two
	// instances differ by.
	LongestLease = 10 * time.Minute
	// An open intent is resolved again after an eighth of its age, within these bounds.
	soonest     = 2 * time.Second
	longestOpen = 2 * time.Minute
)

// Progress is the part of an intent that changes. Times are Unix seconds.
type Progress struct {
	State    IntentState
	Evidence string // empty unless State is IntentSettled
	// Reason is the code of a refusal or of the last unknown outcome.
	Reason string
	// Transaction is the hash that the facilitator reported or that was found on the chain, or empty.
	Transaction string
	// Answer is the stored SettleResponse, or nil.
	Answer []byte
	// Facilitator is the host of the facilitator to which it is sent, or empty.
	Facilitator string
	// Owner is the instance that works on it, until LeaseUntil.
	Owner      string
	LeaseUntil int64
	// PollAt is when it is due to be resolved, unless it is leased; 0 until an attempt takes it over or its first one ends.
	PollAt int64
	// Reopened: it was settled before, so that it was certainly sent.
	Reopened bool
	// AcknowledgedAt is when the first 200 that names the charge was written; 0 if none was.
	AcknowledgedAt int64
	// Unacknowledged reports whether the payer got another response before that 200.
	Unacknowledged bool
	// RejectedUntil is the latest end of the payer's other authorizations that were rejected because of this one; 0 for none.
	RejectedUntil int64
	// CreatedAt is when it was committed.
	CreatedAt int64
}

var (
	// ErrIntentState: the stage of the payment does not allow the change.
	ErrIntentState = errors.New("the x402 payment is not changed (compare 'caddy pay-offer intents')")
	// ErrLeaseHeld: another attempt works on the payment.
	ErrLeaseHeld = errors.New("another attempt is settling this x402 payment; wait for its result")
)

// Leased reports whether an attempt works on the intent. A lease that is longer than
// LongestLease was given while the clock was wrong, and is ignored.
func (p Progress) Leased(now time.Time) bool {
	left := p.LeaseUntil - now.Unix()
	return 0 < left && left <= int64(LongestLease/time.Second)
}

// UntilPoll is the number of seconds until a payment that was committed at createdAt (Unix seconds) is due again: an
// eighth of its age, within bounds.
func UntilPoll(createdAt int64, now time.Time, longest time.Duration) int64 {
	age := now.Sub(time.Unix(createdAt, 0))
	return int64(min(max(age/8, soonest), longest) / time.Second)
}

// Stage is where the payment stands.
func (p Progress) Stage(now time.Time) Stage {
	switch {
	case p.State == IntentWithdrawn:
		return StageWithdrawn
	case p.State == IntentRefused:
		return StageRefused
	case p.State == IntentSettled && p.Evidence == EvidenceChain:
		return StageProven
	case p.State == IntentSettled:
		return StageClaimed
	case p.Facilitator == "" && !p.Reopened:
		return StageSuspended
	case !p.Leased(now):
		return StageOpen
	case p.PollAt == 0:
		return StageSending
	default:
		return StageResending
	}
}

// Reject records that an authorization of the payer that ends at until (Unix seconds) was rejected because of this one.
// If this one is charged, it is the response to all that end by then.
func (p *Progress) Reject(until int64) {
	p.RejectedUntil = max(p.RejectedUntil, until)
	p.Unacknowledged = p.Unacknowledged || p.State == IntentSettling
}

// Unacknowledge records that the payer got a response without the outcome. Earlier acknowledgements no longer count.
func (p *Progress) Unacknowledge() { p.Unacknowledged, p.AcknowledgedAt = true, 0 }
