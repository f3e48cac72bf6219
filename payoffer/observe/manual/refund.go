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

// refundPrefix begins the ids of refunds without a transaction.
const refundPrefix = "operator:refund:"

var transactionDigits = regexp.MustCompile(`^[0-9a-f]{64}$`)

// ParseTransaction checks the hash of a transaction and writes it as receipts of the asset do: in lower case, with
// 0x except for Bitcoin.
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
		return "", errors.New("only a payment on a chain has a transaction; leave it out, and write in the reason how the money was returned")
	}
	if prefix+bare != hash || !transactionDigits.MatchString(bare) || strings.Trim(bare, "0") == "" {
		return "", fmt.Errorf("%.80q is not the hash of a transaction on this chain; write %s", hash, form)
	}
	return hash, nil
}

// ParseRefund reads the amount of a refund: a plain decimal number in the unit of the payment, more than 0.
func ParseRefund(s string, unit offer.Unit) (atomic int64, err error) {
	atomic, cut, ok := offer.ParseDecimal(s, unit.Digits)
	switch {
	case s == "":
		return 0, fmt.Errorf("the amount is missing; write the refund in %s, the unit of this payment, such as 42.5", unit.Symbol)
	case !ok:
		return 0, fmt.Errorf("%.40q is not an amount; write the refund in %s, such as 42 or 42.50", s, unit.Symbol)
	case cut:
		return 0, fmt.Errorf("%.40q has more than the %d decimals of %s; write an amount such as 42.5", s, unit.Digits, unit.Symbol)
	case atomic == 0:
		return 0, errors.New("the amount of a refund must be more than 0, such as 42.50")
	}
	return atomic, nil
}

// RefundID is the id of the refund: of its transaction, or of its amount (atomic units), date and reason, so that
// the same entry again is the same refund.
func (e Entry) RefundID(amount int64) string {
	if e.Transaction != "" {
		return ledger.RefundTransactionID(e.Transaction)
	}
	date := ""
	if !e.OccurredAt.IsZero() {
		date = strconv.FormatInt(e.OccurredAt.Unix(), 10)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\n%s\n%s", amount, date, e.Reason))
	return refundPrefix + hex.EncodeToString(sum[:8])
}

// EnteredRefund reports whether an operator entered a refund, and its transaction, if any.
func EnteredRefund(r ledger.Return) (transaction string, entered bool) {
	transaction, named := strings.CutPrefix(r.ID, ledger.RefundTransactionID(""))
	if !named {
		transaction = ""
	}
	return transaction, r.Kind == ledger.ReturnRefund && (named || strings.HasPrefix(r.ID, refundPrefix))
}

// Refund is a refund of an amount in atomic units. known is the recorded refund with the same id, or nil.
func (e Entry) Refund(stored ledger.Receipt, amount int64, known *ledger.Return, now time.Time) ledger.Observation {
	refund := ledger.Return{ID: e.RefundID(amount), Kind: ledger.ReturnRefund, Amount: amount, Gone: true, At: now.Unix()}
	if !e.OccurredAt.IsZero() {
		refund.At = e.OccurredAt.Unix()
	}
	if known != nil {
		refund.At, refund.Rank = known.At, known.Rank+1
	}
	return e.addendum(stored, "refunded_by_operator", refund)
}

// UndoRefunds undoes refunds that an operator entered. It keeps their times; the higher rank holds.
func (e Entry) UndoRefunds(stored ledger.Receipt, refunds []ledger.Return) ledger.Observation {
	for i := range refunds {
		refunds[i].Gone = false
		refunds[i].Rank++
	}
	return e.addendum(stored, CauseRestored, refunds...)
}

// StateValue states the value of a payment that no source knows. It replaces the statement before, also within a second.
func (e Entry) StateValue(stored ledger.Receipt, now time.Time) ledger.Observation {
	s := e.addendum(stored, "value_stated")
	s.Stated = &ledger.StatedValue{USDCents: int64(e.USD), At: now.Unix()}
	if stored.Stated != nil {
		s.Stated.At = max(s.Stated.At, stored.Stated.At+1)
	}
	return s
}
