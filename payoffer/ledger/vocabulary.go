package ledger

import "github.com/payoffer/caddy-pay-offer/payoffer/ledger/book"

// The words of package book in which the ledger is spoken to.
type (
	Status        = book.Status
	EvidenceLevel = book.EvidenceLevel
	ReturnKind    = book.ReturnKind
	Return        = book.Return
	Sighting      = book.Sighting
	IntentKey     = book.IntentKey
	Receipt       = book.Receipt
	Total         = book.Total
	ValueBasis    = book.ValueBasis
	StatedValue   = book.StatedValue
)

// As in package book.
const (
	StatusSeen      = book.StatusSeen
	StatusConfirmed = book.StatusConfirmed
	StatusDropped   = book.StatusDropped
	StatusRefunded  = book.StatusRefunded
	StatusReversed  = book.StatusReversed
	StatusMoved     = book.StatusMoved
	StatusSettling  = book.StatusSettling
	StatusClaimed   = book.StatusClaimed

	LevelSigned   = book.LevelSigned
	LevelProvider = book.LevelProvider
	LevelChain    = book.LevelChain
	LevelManual   = book.LevelManual

	BasisFace   = book.BasisFace
	BasisQuote  = book.BasisQuote
	BasisRate   = book.BasisRate
	BasisStated = book.BasisStated

	CauseBackfilled = book.CauseBackfilled
	CauseRedacted   = book.CauseRedacted

	ReturnRefund   = book.ReturnRefund
	ReturnTotal    = book.ReturnTotal
	ReturnReversal = book.ReturnReversal
	ReturnCapture  = book.ReturnCapture
)

// ErrSighting is returned by Record for a sighting that can be no row.
var ErrSighting = book.ErrSighting
