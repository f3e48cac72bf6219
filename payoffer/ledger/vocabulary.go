package ledger

import "github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"

// Types of package accounting.
type (
	Status        = accounting.Status
	EvidenceLevel = accounting.EvidenceLevel
	ReturnKind    = accounting.ReturnKind
	Return        = accounting.Return
	Observation   = accounting.Observation
	IntentKey     = accounting.IntentKey
	IntentState   = accounting.IntentState
	IntentChange  = accounting.IntentChange
	Progress      = accounting.Progress
	Receipt       = accounting.Receipt
	Total         = accounting.Total
	ValueBasis    = accounting.ValueBasis
	StatedValue   = accounting.StatedValue
)

// Constants of package accounting.
const (
	StatusSeen      = accounting.StatusSeen
	StatusConfirmed = accounting.StatusConfirmed
	StatusDropped   = accounting.StatusDropped
	StatusRefunded  = accounting.StatusRefunded
	StatusReversed  = accounting.StatusReversed
	StatusMoved     = accounting.StatusMoved
	StatusSettling  = accounting.StatusSettling
	StatusClaimed   = accounting.StatusClaimed

	LevelSigned   = accounting.LevelSigned
	LevelProvider = accounting.LevelProvider
	LevelChain    = accounting.LevelChain
	LevelManual   = accounting.LevelManual

	BasisFace   = accounting.BasisFace
	BasisQuote  = accounting.BasisQuote
	BasisRate   = accounting.BasisRate
	BasisStated = accounting.BasisStated

	CauseBackfilled = accounting.CauseBackfilled
	CauseRedacted   = accounting.CauseRedacted

	IntentSettling = accounting.IntentSettling
	IntentSettled  = accounting.IntentSettled
	IntentRefused  = accounting.IntentRefused

	EvidenceFacilitator = accounting.EvidenceFacilitator
	EvidenceChain       = accounting.EvidenceChain

	ReturnRefund   = accounting.ReturnRefund
	ReturnTotal    = accounting.ReturnTotal
	ReturnReversal = accounting.ReturnReversal
	ReturnCapture  = accounting.ReturnCapture

	// LongestLease is the longest lease of an intent or of a subscriber.
	LongestLease = accounting.LongestLease
)

var (
	// ErrObservation is returned by Record for an invalid observation.
	ErrObservation = accounting.ErrObservation
	// ErrIntentState is returned by Apply: the stage of the payment does not allow the change.
	ErrIntentState = accounting.ErrIntentState
	// ErrLeaseHeld is returned by Apply: another instance works on the payment.
	ErrLeaseHeld = accounting.ErrLeaseHeld
)
