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

func (c Change) correction(paid, rail, also string) string {
	return fmt.Sprintf("Corrected: %s instead of %s by %s", paid, c.Before.format(c.Before.Amount), rail) + also + c.rest()
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
func (c Change) Headline(rail string) string {
	b, a := c.Before, c.After
	paid := a.format(a.Amount)
	from, to, back := b.Status, a.Status, a.Refunded-b.Refunded
	switch {
	case c.New() || from != to:
		return c.statusHeadline(from, to, paid, rail)
	case c.corrected():
		return c.correction(paid, rail, "")
	case back != 0:
		return c.returnHeadline(back, paid, rail)
	case a.value() != b.value():
		return fmt.Sprintf("%s by %s: value %s instead of %s", paid, rail, a.value(), b.value())
	case c.redated():
		return fmt.Sprintf("Corrected: %s by %s, dated %s instead of %s", paid, rail, Timestamp(a.OccurredAt), Timestamp(b.OccurredAt))
	default:
		return fmt.Sprintf("%s by %s: %s", paid, rail, c.Description())
	}
}

// statusHeadline returns the headline of a change of the status.
func (c Change) statusHeadline(from, to Status, paid, rail string) string {
	arrived := c.Before.Arrived()
	after := ""
	if from == StatusDropped || from == StatusMoved {
		after = " after all"
	}
	switch to {
	case StatusReversed:
		if refunded := c.Before.Refunded; arrived && refunded > 0 {
			return fmt.Sprintf("%s disputed or voided of %s by %s", c.After.format(c.After.Amount-refunded), paid, rail)
		}
		return fmt.Sprintf("%s by %s disputed or voided", paid, rail)
	case StatusMoved:
		return fmt.Sprintf("%s by %s is not a payment: it moved within your account", paid, rail)
	case StatusDropped:
		if arrived {
			return fmt.Sprintf("%s by %s did not arrive after all", paid, rail)
		}
		return fmt.Sprintf("%s did not arrive by %s", paid, rail)
	case StatusSeen:
		if arrived {
			return fmt.Sprintf("%s by %s is no longer confirmed, and on its way again", paid, rail)
		}
		return fmt.Sprintf("%s on its way by %s%s", paid, rail, after)
	}
	switch {
	case from == StatusReversed && c.corrected():
		return c.correction(paid, rail, ", no longer disputed or voided")
	case arrived && c.corrected():
		return c.correction(paid, rail, "")
	case from == StatusReversed:
		return fmt.Sprintf("%s by %s no longer disputed or voided", paid, rail) + c.rest()
	case arrived:
		return c.returnHeadline(c.After.Refunded-c.Before.Refunded, paid, rail)
	default:
		return fmt.Sprintf("%s received by %s%s", paid, rail, after) + c.rest()
	}
}

// returnHeadline returns the headline of a refund or dispute, or of its end.
func (c Change) returnHeadline(back int64, paid, rail string) string {
	a := c.After
	kind, undone := "refunded", "refund of %s undone"
	if c.ReturnKind == ReturnReversal {
		kind, undone = "disputed or voided", "%s no longer disputed or voided"
	}
	if back < 0 {
		return fmt.Sprintf("%s by %s: "+undone, paid, rail, a.format(-back)) + c.rest()
	}
	line := fmt.Sprintf("%s %s of %s by %s", a.format(back), kind, paid, rail)
	if c.Before.Refunded > 0 {
		line += fmt.Sprintf(", %s in all", a.format(a.Refunded))
	}
	return line
}

// rest reports how much of the payment stays refunded.
func (c Change) rest() string {
	if c.After.Refunded == 0 {
		return ""
	}
	return fmt.Sprintf(", %s of it refunded", c.After.format(c.After.Refunded))
}

var causes = map[string]string{
	"entered": "you entered it", "value_stated": "you stated its value",
	"reversed_by_operator": "you reversed it", "restored_by_operator": "you restored it", "refunded_by_operator": "you entered a refund",
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
