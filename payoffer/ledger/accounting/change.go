package accounting

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Facts are fields of a Receipt at one time.
type Facts struct {
	Classification
	Asset            string
	Amount, Refunded int64
	USDCents         *int64
	OccurredAt       int64
}

// format returns an amount for people, such as "42 USD".
func (f Facts) format(atomic int64) string { return offer.UnitOf(f.Asset).Format(atomic) }

// money returns an amount as sellers write it, such as "$42" or "42 USDC".
func (f Facts) money(atomic int64) string {
	if f.Asset == "USD" {
		return offer.USD(atomic).Dollars()
	}
	return f.format(atomic)
}

// paid returns what was paid, such as "$42" or "42 USDC ($42)".
func (f Facts) paid() string {
	if f.Asset == "USD" || f.USDCents == nil {
		return f.money(f.Amount)
	}
	return f.money(f.Amount) + " (" + offer.USD(*f.USDCents).Dollars() + ")"
}

func (f Facts) value() string {
	if f.USDCents == nil {
		return "unknown"
	}
	return offer.USD(*f.USDCents).Decimal() + " USD"
}

// valued reports whether the value differs from the amount.
func (f Facts) valued() bool {
	return f.Asset != "USD" || f.USDCents == nil || *f.USDCents != f.Amount
}

// Change describes the step of a receipt from one version to the next for people.
type Change struct {
	Before, After Facts  // Before has no Status if the receipt is new
	Cause         string // of the observation
	ReturnKind    ReturnKind
}

// New reports whether the receipt is new.
func (c Change) New() bool { return c.Before.Status == "" }

// Description says what changed, such as "amount from 42 USD to 43 USD" or "new".
func (c Change) Description() string {
	if c.New() {
		return "new"
	}
	b, a := c.Before, c.After
	var changes []string
	add := func(changed bool, name, from, to string) {
		if changed {
			changes = append(changes, name+" from "+from+" to "+to)
		}
	}
	add(a.Status != b.Status, "status", string(b.Status), string(a.Status))
	add(c.corrected(), "amount", b.format(b.Amount), a.format(a.Amount))
	add(a.Refunded != b.Refunded, c.returnName(), a.format(b.Refunded), a.format(a.Refunded))
	add(a.value() != b.value() && (a.valued() || b.valued()), "value", b.value(), a.value())
	add(c.redated(), "date", Timestamp(b.OccurredAt), Timestamp(a.OccurredAt))
	add(a.EvidenceLevel != b.EvidenceLevel, "evidence", string(b.EvidenceLevel), string(a.EvidenceLevel))
	add(a.Own != b.Own, "payer", payer(b), payer(a))
	add(a.Testnet != b.Testnet, "money", network(b), network(a))
	if c.Cause == CauseRedacted {
		changes = append(changes, "another reference")
	}
	return cmp.Or(strings.Join(changes, "; "), "entered again without a change")
}

func (c Change) corrected() bool {
	return c.After.Asset != c.Before.Asset || c.After.Amount != c.Before.Amount
}

func (c Change) correction(also string) string {
	return fmt.Sprintf("Corrected: %s instead of %s", c.After.paid(), c.Before.money(c.Before.Amount)) + also + c.rest()
}

// redated reports whether money that had arrived has another date.
func (c Change) redated() bool {
	return c.Before.Arrived() && c.After.OccurredAt != c.Before.OccurredAt
}

func (c Change) returnName() string {
	if c.ReturnKind == ReturnReversal {
		return "disputed or voided"
	}
	return "refunded"
}

func payer(f Facts) string {
	if f.Own {
		return "yourself"
	}
	return "another payer"
}

func network(f Facts) string {
	if f.Testnet {
		return "a test network's"
	}
	return "real"
}

// Headline describes the change in one line. It says "received" only for new money.
func (c Change) Headline() string {
	b, a := c.Before, c.After
	paid, back := a.paid(), a.Refunded-b.Refunded
	switch {
	case c.New() || b.Status != a.Status:
		return c.statusHeadline(paid)
	case c.corrected():
		return c.correction("")
	case back != 0:
		return c.returnHeadline(back, paid)
	case a.value() != b.value():
		return fmt.Sprintf("%s: value %s instead of %s", a.money(a.Amount), a.value(), b.value())
	case c.redated():
		return fmt.Sprintf("Corrected: %s, dated %s instead of %s", paid, Timestamp(a.OccurredAt), Timestamp(b.OccurredAt))
	default:
		return paid + ": " + c.Description()
	}
}

// statusHeadline returns the headline of a change of the status.
func (c Change) statusHeadline(paid string) string {
	arrived, from, after := c.Before.Arrived(), c.Before.Status, ""
	if from == StatusDropped || from == StatusMoved {
		after = " after all"
	}
	switch c.After.Status {
	case StatusReversed:
		if refunded := c.Before.Refunded; arrived && refunded > 0 {
			return fmt.Sprintf("%s of %s %s", c.After.money(c.After.Amount-refunded), paid, c.reversalWord())
		}
		return paid + " " + c.reversalWord()
	case StatusMoved:
		return paid + " is not a payment: it moved within your account"
	case StatusDropped:
		if arrived {
			return paid + " did not arrive after all"
		}
		return paid + " did not arrive"
	case StatusSeen:
		if arrived {
			return paid + " is no longer confirmed, and on its way again"
		}
		return paid + " on its way" + after
	}
	switch {
	case from == StatusReversed && c.corrected():
		return c.correction(", no longer " + c.reversalWord())
	case arrived && c.corrected():
		return c.correction("")
	case from == StatusReversed:
		return paid + " no longer " + c.reversalWord() + c.rest()
	case arrived:
		return c.returnHeadline(c.After.Refunded-c.Before.Refunded, paid)
	default:
		return paid + " received" + after + c.rest()
	}
}

// reversalWord returns "voided" for the operator and for every entry, and "disputed" for a provider.
func (c Change) reversalWord() string {
	if c.After.EvidenceLevel == LevelManual || c.Cause == "entered" || strings.HasSuffix(c.Cause, "_by_operator") {
		return "voided"
	}
	return "disputed"
}

// Disputed reports whether the payment, or more of it, is disputed now.
func (c Change) Disputed() bool {
	b, a := c.Before, c.After
	more := a.Status == StatusReversed && b.Status != StatusReversed || c.ReturnKind == ReturnReversal && a.Refunded > b.Refunded
	return more && c.reversalWord() == "disputed"
}

// returnHeadline returns the headline of a refund or dispute, or of its end.
func (c Change) returnHeadline(back int64, paid string) string {
	a := c.After
	kind, undone := "refunded", "refund of %s undone"
	if c.ReturnKind == ReturnReversal {
		kind, undone = c.reversalWord(), "%s no longer "+c.reversalWord()
	}
	switch {
	case back < 0:
		return fmt.Sprintf("%s: "+undone, paid, a.money(-back)) + c.rest()
	case back == a.Amount:
		return paid + " " + kind
	case c.Before.Refunded > 0:
		return fmt.Sprintf("%s of %s %s, %s in all", a.money(back), paid, kind, a.money(a.Refunded))
	}
	return fmt.Sprintf("%s of %s %s", a.money(back), paid, kind)
}

// rest reports how much of the payment stays refunded.
func (c Change) rest() string {
	if c.After.Refunded == 0 {
		return ""
	}
	return fmt.Sprintf(", %s of it refunded", c.After.money(c.After.Refunded))
}

var causes = map[string]string{
	"entered": "you entered it", "value_stated": "you stated its value", "marked_own": "you marked it as yours",
	"voided_by_operator": "you voided it", "restored_by_operator": "you restored it", "refunded_by_operator": "you entered a refund",
	CauseRedacted: "you replaced its reference",

	"webhook": "the provider reported it", "reconcile": "it was read from the provider", "provider": "it was read from the provider",
	"unknown_sale": "the shop does not know this sale", CauseBackfilled: "it is from before the first start, and was read later",

	"chain": "it was read from the chain", "poll": "it was read from the chain", "mempool": "it was seen on its way to the chain",
	"reorg": "the chain was reorganized", "unproven": "the chain does not show it any more",
	"replaced": "another transaction spent the same money", "evicted": "the network dropped it",
}

// Why returns the reason for the operator, such as "you entered it".
func (c Change) Why() string { return cmp.Or(causes[c.Cause], c.Cause) }

// Summary returns the description and the reason, such as "new; you entered it".
func (c Change) Summary() string {
	if why := c.Why(); why != "" {
		return c.Description() + "; " + why
	}
	return c.Description()
}
