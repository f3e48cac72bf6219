package manual

import (
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// Entered is money that arrived. Of stored, what the entry leaves open is kept.
func (e Entry) Entered(stored ledger.Receipt, now time.Time) ledger.Sighting {
	return e.payment(stored, "entered", now)
}

// Corrected is another amount or time in place of what stands. It undoes a
// reversal by the operator.
func (e Entry) Corrected(stored ledger.Receipt, now time.Time) ledger.Sighting {
	s := e.payment(stored, "corrected", now)
	s.Revision = stored.Revision + 1
	if stored.Status == ledger.StatusReversed {
		s.Returns = takesBack(stored, false, now)
	}
	return s
}

// Reversed takes a receipt back.
func (e Entry) Reversed(stored ledger.Receipt, now time.Time) ledger.Sighting {
	s := e.sighting(stored, "reversed_by_operator")
	s.Addendum, s.Returns = true, takesBack(stored, true, now)
	return s
}

// Restored undoes a reversal by the operator.
func (e Entry) Restored(stored ledger.Receipt, now time.Time) ledger.Sighting {
	s := e.sighting(stored, "restored_by_operator")
	s.Addendum, s.Returns = true, takesBack(stored, false, now)
	return s
}

// payment is what an entry says of the money itself, in US cents.
func (e Entry) payment(stored ledger.Receipt, cause string, now time.Time) ledger.Sighting {
	amount, occurred := stored.Amount, stored.OccurredAt
	if e.Amount != 0 {
		amount = int64(e.Amount)
	}
	if !e.OccurredAt.IsZero() {
		occurred = e.OccurredAt.Unix()
	}
	s := e.sighting(stored, cause)
	s.Asset, s.Amount, s.USDCents, s.State, s.OccurredAt = "USD", amount, &amount, ledger.StatusConfirmed, occurred
	s.Evidence = observe.Evidence(map[string]string{"enteredAt": now.UTC().Format(time.RFC3339)})
	return s
}

func (e Entry) sighting(stored ledger.Receipt, cause string) ledger.Sighting {
	return ledger.Sighting{
		Offer: stored.Offer, Account: stored.Account, Rail: stored.Rail, ExternalID: stored.ExternalID,
		EvidenceLevel: ledger.LevelManual, Cause: cause, Note: e.Reason,
	}
}

// takesBack is the operator's word on the whole payment. It is later than the
// one before, also within one second and after the clock was set back: what
// took effect has moved the receipt's version, and of two words on one version
// the one that gives the money back comes second.
func takesBack(stored ledger.Receipt, gone bool, now time.Time) []ledger.Return {
	word := ledger.Return{
		ID: "operator", Kind: ledger.ReturnReversal, Gone: gone,
		At: max(now.Unix(), stored.UpdatedAt), Rank: 2 * int(stored.Version),
	}
	if !gone {
		word.Rank++
	}
	return []ledger.Return{word}
}
