package manual

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// refundPrefix begins the ids of refunds that no transaction names.
const refundPrefix = "operator:refund:"

var transactionDigits = regexp.MustCompile(`^[0-9a-f]{64}$`)

// ParseTransaction checks the hash of a chain's transaction, and writes it as
// receipts of the asset name theirs: in lower case, with 0x but for Bitcoin.
func ParseTransaction(asset, hash string) (string, error) {
	const digits = "64 hexadecimal digits"
	hash = strings.ToLower(hash)
	bare, prefix, form := hash, "", digits
	switch offer.UnitOf(asset).Symbol {
	case "BTC":
	case "USDC":
		prefix, form = "0x", "0x and "+digits
		bare, _ = strings.CutPrefix(hash, prefix)
	default:
		return "", errors.New("a transaction belongs to a payment on a chain; leave it out, and say in the reason how the money went back")
	}
	if prefix+bare != hash || !transactionDigits.MatchString(bare) || strings.Trim(bare, "0") == "" {
		return "", fmt.Errorf("%.80q is not the hash of a transaction on this chain: %s", hash, form)
	}
	return hash, nil
}

// ParseRefund reads the amount of a refund: a plain decimal number in the unit of
// the payment, more than zero.
func ParseRefund(s string, unit offer.Unit) (atomic int64, err error) {
	atomic, cut, ok := offer.ParseDecimal(s, unit.Digits)
	switch {
	case !ok:
		return 0, fmt.Errorf("%.40q is not an amount; write what went back in %s, as in 42 or 42.50", s, unit.Symbol)
	case cut:
		return 0, fmt.Errorf("%.40q has more than %d digits after the point, and %s has no smaller parts", s, unit.Digits, unit.Symbol)
	case atomic == 0:
		return 0, errors.New("the amount of a refund must be more than 0")
	}
	return atomic, nil
}

// RefundID is the id of the return that an entry of a refund is: that of its
// transaction, or one of the entry's own amount (atomic units), date and reason, so
// that the same entry is the same refund, whenever it is repeated.
func (e Entry) RefundID(amount int64) string {
	if e.Transaction != "" {
		return ledger.RefundedBy(e.Transaction)
	}
	date := ""
	if !e.OccurredAt.IsZero() {
		date = strconv.FormatInt(e.OccurredAt.Unix(), 10)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\n%s\n%s", amount, date, e.Reason))
	return refundPrefix + hex.EncodeToString(sum[:8])
}

// EnteredRefund reports whether a return is a refund by an operator's entry, and
// the transaction that it names, if any.
func EnteredRefund(r ledger.Return) (transaction string, entered bool) {
	transaction, named := strings.CutPrefix(r.ID, ledger.RefundedBy(""))
	if !named {
		transaction = ""
	}
	return transaction, r.Kind == ledger.ReturnRefund && (named || strings.HasPrefix(r.ID, refundPrefix))
}

// Refunded is a refund of an amount in atomic units. known is what is recorded of
// the same refund already, or nil.
func (e Entry) Refunded(stored ledger.Receipt, amount int64, known *ledger.Return, now time.Time) ledger.Sighting {
	refund := ledger.Return{ID: e.RefundID(amount), Kind: ledger.ReturnRefund, Amount: amount, Gone: true, At: now.Unix()}
	if !e.OccurredAt.IsZero() {
		refund.At = e.OccurredAt.Unix()
	}
	if known != nil {
		refund.At, refund.Rank = known.At, known.Rank+1
	}
	return e.returns(stored, "refunded_by_operator", refund)
}

// TakenBack says that refunds which an operator entered did not happen. A word on a
// refund is as old as the refund; the one with the higher rank holds.
func (e Entry) TakenBack(stored ledger.Receipt, refunds []ledger.Return) ledger.Sighting {
	var words []ledger.Return
	for _, refund := range refunds {
		refund.Gone = false
		refund.Rank++
		words = append(words, refund)
	}
	return e.returns(stored, CauseRestored, words...)
}

func (e Entry) returns(stored ledger.Receipt, cause string, words ...ledger.Return) ledger.Sighting {
	s := e.sighting(stored, cause)
	s.Addendum, s.Returns = true, words
	return s
}

// Valued states what a payment is worth, of which no source knows it. It is later
// than the statement before, also within one second.
func (e Entry) Valued(stored ledger.Receipt, now time.Time) ledger.Sighting {
	s := e.sighting(stored, "value_stated")
	s.Addendum, s.Stated = true, &ledger.StatedValue{USDCents: int64(e.Amount), At: now.Unix()}
	if stored.Stated != nil {
		s.Stated.At = max(s.Stated.At, stored.Stated.At+1)
	}
	return s
}
