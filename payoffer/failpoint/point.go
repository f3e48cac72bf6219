// Package failpoint names the moments at which a crash must not cost money. A build with
// the tag failpoints kills the process at the point that PAY_OFFER_FAILPOINT names; in
// other builds Hit is empty. Every package below payoffer may import it.
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

	// The resolution of an open payment.
	ResolveLeased      Point = "resolve.leased"
	ResolveBeforeChain Point = "resolve.before-chain"
	ResolveAfterChain  Point = "resolve.after-chain"

	// A ledger transaction.
	TransactionBefore       Point = "transaction.before"
	TransactionBegun        Point = "transaction.begun"
	TransactionIntent       Point = "transaction.intent"
	TransactionJoin         Point = "transaction.join"
	TransactionRow          Point = "transaction.row"
	TransactionTransition   Point = "transaction.transition"
	TransactionSums         Point = "transaction.sums"
	TransactionBeforeCommit Point = "transaction.before-commit"
	TransactionCommitted    Point = "transaction.committed"

	// A purchase of package buyer.
	BuySigned   Point = "buy.signed"
	BuyKept     Point = "buy.kept"
	BuySent     Point = "buy.sent"
	BuyAnswered Point = "buy.answered"
	BuyNoted    Point = "buy.noted"
)

// Variable is the environment variable: the name of a point, or name:N for its N-th hit.
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
