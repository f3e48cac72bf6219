// Package failpoint names the moments at which a crash must not cost money, and
// ends the process there when a test asks for it: built with the tag failpoints,
// and with the name of a point in PAY_OFFER_FAILPOINT. In every other build Hit
// is empty and leaves nothing behind.
//
// It stands at the bottom: it imports nothing of this module, and every package
// below payoffer may import it.
package failpoint

// Point is a moment between two statements of the write path.
type Point string

// The points of a payment, in the order in which it passes them.
const (
	PayDecoded      Point = "pay.decoded"
	PayVerified     Point = "pay.verified"
	PayBeforeIntent Point = "pay.before-intent"
	PayAfterIntent  Point = "pay.after-intent"
	SettleBefore    Point = "settle.before"
	SettleAfter     Point = "settle.after"
	ProofBefore     Point = "proof.before"
	ProofAfter      Point = "proof.after"
	RecordBefore    Point = "record.before"
	RecordAfter     Point = "record.after"

	// Those at which a payment that was left open is resolved.
	ResolveLeased      Point = "resolve.leased"
	ResolveBeforeChain Point = "resolve.before-chain"
	ResolveAfterChain  Point = "resolve.after-chain"

	// Those of a ledger transaction, and between the statements in it.
	TransactionBefore       Point = "transaction.before"
	TransactionBegun        Point = "transaction.begun"
	TransactionIntent       Point = "transaction.intent"
	TransactionJoin         Point = "transaction.join"
	TransactionRow          Point = "transaction.row"
	TransactionTransition   Point = "transaction.transition"
	TransactionSums         Point = "transaction.sums"
	TransactionBeforeCommit Point = "transaction.before-commit"
	TransactionCommitted    Point = "transaction.committed"

	// Those of a buyer, which no server passes: the payment is signed, kept, sent,
	// answered, and the answer kept.
	BuySigned   Point = "buy.signed"
	BuyKept     Point = "buy.kept"
	BuySent     Point = "buy.sent"
	BuyAnswered Point = "buy.answered"
	BuyNoted    Point = "buy.noted"
)

// Variable is the environment variable that a build with the tag reads: the name
// of a point, or name:N for its N-th hit.
const Variable = "PAY_OFFER_FAILPOINT"

// Points lists every point.
func Points() []Point {
	return []Point{
		PayDecoded, PayVerified, PayBeforeIntent, PayAfterIntent, SettleBefore, SettleAfter, ProofBefore, ProofAfter,
		RecordBefore, RecordAfter, ResolveLeased, ResolveBeforeChain, ResolveAfterChain, TransactionBefore,
		TransactionBegun, TransactionIntent, TransactionJoin, TransactionRow, TransactionTransition, TransactionSums,
		TransactionBeforeCommit, TransactionCommitted, BuySigned, BuyKept, BuySent, BuyAnswered, BuyNoted,
	}
}
