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

	ReturnRefund   = accounting.ReturnRefund
	ReturnTotal    = accounting.ReturnTotal
	ReturnReversal = accounting.ReturnReversal
	ReturnCapture  = accounting.ReturnCapture
)

// ErrObservation is returned by Record for an invalid observation.
var ErrObservation = accounting.ErrObservation
