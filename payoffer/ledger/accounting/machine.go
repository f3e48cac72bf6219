package accounting

import (
	"cmp"
	"fmt"
	"time"
)

// The life of an x402 payment is one table: the entries of a payment that the ledger does not have, and the steps of one
// that it has. Reading a chain or a facilitator gives an Event. Next and Enter decide what it means. They do no I/O.

// Stage is where a payment by an EIP-3009 authorization stands.
type Stage string

// The stages.
const (
	StageNone      Stage = "none"      // the ledger does not have it
	StageSending   Stage = "sending"   // an attempt sends it for the first time
	StageResending Stage = "resending" // an attempt sends it again
	StageOpen      Stage = "open"      // it may have been sent, and its outcome is unknown
	StageSuspended Stage = "suspended" // it was not sent; whether another service has sent it is unknown
	StageClaimed   Stage = "claimed"   // the facilitator or the operator reports that it was charged
	StageProven    Stage = "proven"    // the chain shows that it was charged
	StageRefused   Stage = "refused"   // it was not charged
	StageWithdrawn Stage = "withdrawn" // the ledger forgets it, but not what was rejected because of it
)

// Event is what has become known of a payment.
type Event string

// The events of a payment that the ledger does not have.
const (
	EventDeclined       Event = "declined"        // it is wrong, or a facilitator declines it, and nothing says that it is used
	EventSaidUsed       Event = "said used"       // a facilitator says that it is used, and the chain does not show it
	EventPaid           Event = "paid"            // the chain shows its Transfer to this offer
	EventElsewhere      Event = "elsewhere"       // it was used, and did not pay this offer
	EventBefore         Event = "before"          // it was used, perhaps before the records of this offer begin
	EventUnobserved     Event = "unobserved"      // it was used, and the observer has not reached its block
	EventUnreadable     Event = "unreadable"      // it would be refused, and the chain cannot be read
	EventUnproven       Event = "unproven"        // said used, paid, unobserved or unreadable, with a signature that is not proven
	EventNoChain        Event = "no chain"        // it has expired or is said to be used, and no chain is configured
	EventClocksDisagree Event = "clocks disagree" // it would be refused for its times, which another clock contradicts
	EventPayerOpen      Event = "payer open"      // another payment of its payer is open
	EventEarlier        Event = "earlier"         // an earlier charge of its payer is the response to it
	EventForged         Event = "forged"          // it conflicts with another payment, and its signature is not proven
	EventIDInUse        Event = "id in use"       // its payment identifier belongs to another payment
	EventVerified       Event = "verified"        // a facilitator has verified it
)

// The events of a payment that the ledger has.
const (
	EventLeased         Event = "leased"            // an attempt takes it over
	EventReassigned     Event = "reassigned"        // no byte reached a facilitator, and the next one is asked
	EventNotSent        Event = "not sent"          // no byte reached a facilitator, or a suspended payment was not used elsewhere
	EventUnknown        Event = "unknown"           // any reply but a success that can be true
	EventClaimed        Event = "claimed"           // a facilitator reports a success
	EventProven         Event = "proven"            // the chain shows its Transfer of the price, perhaps in another transaction
	EventAnswered       Event = "answered"          // the answer to its repeats is made
	EventGone           Event = "gone"              // the Transfer has left the chain
	EventDisproved      Event = "disproved"         // a final block shows that a claim is false
	EventDead           Event = "dead"              // a final block shows that it can never be charged
	EventOperatorPaid   Event = "operator paid"     // the operator reports a payment
	EventOperatorUnpaid Event = "operator not paid" // the operator reports that there is none
)

// Answer is the outcome of an attempt for its payer.
type Answer string

// The answers, with their HTTP status.
const (
	AnswerSettled     Answer = "settled"     // 200: the payer was charged
	AnswerRefused     Answer = "refused"     // 402: this payload was not charged and will not be
	AnswerConflict    Answer = "conflict"    // 409: it was not sent, because of another payment or because it may have been charged elsewhere
	AnswerOpen        Answer = "open"        // 503: the outcome is unknown; send the same payload again, never a new one
	AnswerUnavailable Answer = "unavailable" // 503: it was not sent; try later
)

// Cell is the stage after an event, and the answer to its attempt.
type Cell struct {
	To     Stage
	Answer Answer
}

// Entries are the cells of a payment that the ledger does not have.
var Entries = map[Event]Cell{
	EventDeclined:       {StageNone, AnswerRefused},
	EventSaidUsed:       {StageSuspended, AnswerOpen},
	EventPaid:           {StageProven, AnswerSettled},
	EventElsewhere:      {StageNone, AnswerRefused},
	EventBefore:         {StageNone, AnswerConflict},
	EventUnobserved:     {StageSuspended, AnswerOpen},
	EventUnreadable:     {StageSuspended, AnswerOpen},
	EventUnproven:       {StageNone, AnswerOpen},
	EventNoChain:        {StageNone, AnswerConflict},
	EventClocksDisagree: {StageNone, AnswerUnavailable},
	EventPayerOpen:      {StageNone, AnswerConflict},
	EventEarlier:        {StageNone, AnswerSettled},
	EventForged:         {StageRefused, AnswerConflict},
	EventIDInUse:        {StageNone, AnswerConflict},
	EventVerified:       {StageSending, AnswerOpen},
}

// Steps has the stage after each event of a payment that the ledger has. An event without a step is an error and changes nothing.
var Steps = map[Stage]map[Event]Stage{
	StageSending: {
		EventReassigned: StageSending, EventNotSent: StageWithdrawn, EventUnknown: StageOpen, EventClaimed: StageClaimed,
		EventProven: StageProven, EventDead: StageRefused,
	},
	StageResending: {
		EventNotSent: StageOpen, EventUnknown: StageOpen, EventClaimed: StageClaimed, EventProven: StageProven, EventDead: StageRefused,
	},
	StageOpen: {
		EventLeased: StageResending, EventNotSent: StageOpen, EventUnknown: StageOpen, EventClaimed: StageClaimed, EventProven: StageProven,
		EventDead: StageRefused, EventOperatorPaid: StageClaimed, EventOperatorUnpaid: StageRefused,
	},
	StageSuspended: {
		EventLeased: StageSuspended, EventNotSent: StageWithdrawn, EventUnknown: StageSuspended, EventProven: StageProven,
		EventDead: StageRefused, EventOperatorPaid: StageClaimed, EventOperatorUnpaid: StageRefused,
	},
	StageClaimed: {
		EventClaimed: StageClaimed, EventProven: StageProven, EventAnswered: StageClaimed, EventGone: StageOpen,
		EventDisproved: StageOpen, EventOperatorUnpaid: StageRefused,
	},
	StageProven: {
		EventClaimed: StageProven, EventProven: StageProven, EventAnswered: StageProven, EventGone: StageOpen, EventDisproved: StageProven,
	},
	StageRefused: {
		EventProven: StageProven, EventDead: StageRefused, EventOperatorPaid: StageClaimed, EventOperatorUnpaid: StageRefused,
	},
}

// Answer is that of a payment in this stage.
func (s Stage) Answer() Answer {
	switch s {
	case StageClaimed, StageProven:
		return AnswerSettled
	case StageRefused:
		return AnswerRefused
	case StageNone, StageWithdrawn:
		return AnswerUnavailable
	default:
		return AnswerOpen
	}
}

// ReasonOperator is the reason of a payment that the operator reports as not paid.
const ReasonOperator = "operator_not_paid"

// IntentChange is an event with what it brings.
type IntentChange struct {
	Event Event
	// Owner is the instance whose attempt reports the event; empty if none does. Lease is the end of its lease in Unix seconds.
	Owner string
	Lease int64
	// Facilitator is the host of the one that is asked next.
	Facilitator string
	// Transaction, Reason and Answer are what is known; empty if nothing new is.
	Transaction, Reason string
	Answer              []byte
}

// Next returns the progress after a change. Errors: ErrIntentState if the stage does not allow it, ErrLeaseHeld if
// another instance has the lease.
func (p Progress) Next(c IntentChange, now time.Time) (Progress, error) {
	from := p.Stage(now)
	to, allowed := Steps[from][c.Event]
	switch {
	case p.State == IntentSettling && p.Leased(now) && c.Owner != "" && c.Owner != p.Owner:
		return p, ErrLeaseHeld
	case !allowed, c.Event == EventOperatorPaid && from == StageRefused && p.Reason != ReasonOperator:
		return p, fmt.Errorf("%w: it is %s", ErrIntentState, from)
	}
	if p.Answer == nil && len(c.Answer) > 0 && to.Answer() == AnswerSettled { // a stored one stays, because the payer may have it
		p.Answer = c.Answer
	}
	switch {
	case from == to && p.State != IntentSettling && c.Event != EventProven: // at most the answer is new
	case to == StageClaimed:
		p.settle(EvidenceFacilitator, c.Transaction)
	case to == StageProven:
		p.settle(EvidenceChain, c.Transaction)
	case to == StageRefused:
		p.State, p.Evidence, p.Reason, p.Answer = IntentRefused, "", c.Reason, nil
	case to == StageWithdrawn:
		p.State = IntentWithdrawn
	case p.State == IntentSettled: // it is open again, and due at once
		p.State, p.Evidence, p.Reason, p.Answer = IntentSettling, "", c.Reason, nil
		p.Owner, p.LeaseUntil, p.PollAt, p.Reopened = "", 0, 0, true
	case c.Event == EventReassigned:
		p.Facilitator = c.Facilitator
	case c.Event == EventLeased: // if the process ends, it is due when the lease ends
		p.Owner, p.LeaseUntil, p.PollAt = c.Owner, c.Lease, now.Unix()
	default:
		p.Owner, p.LeaseUntil, p.PollAt = c.Owner, now.Unix(), now.Unix()+UntilPoll(p.CreatedAt, now, longestOpen)
		p.Transaction, p.Reason = cmp.Or(c.Transaction, p.Transaction), cmp.Or(c.Reason, p.Reason)
	}
	return p, nil
}

func (p *Progress) settle(evidence, transaction string) {
	p.State, p.Evidence, p.Reason, p.Transaction = IntentSettled, evidence, "", cmp.Or(transaction, p.Transaction)
}
