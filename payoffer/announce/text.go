package announce

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// What people are told: nothing about the payer, and no reference, for that of a
// bank transfer may be a name.

// amount is an amount of the receipt's asset, as in "42 USDC".
func (e event) amount(atomic int64) string { return offer.UnitOf(e.of.Asset).Format(atomic) }

// headline is one line: how much, by which rail, and what became of it.
func (e event) headline() string {
	paid, rail := e.amount(e.of.Amount), e.of.Rail
	switch e.kind {
	case "payment_seen":
		return fmt.Sprintf("%s on its way by %s", paid, rail)
	case "payment_confirmed":
		return fmt.Sprintf("%s received by %s", paid, rail)
	case "payment_refunded":
		return fmt.Sprintf("%s refunded of %s by %s", e.amount(e.of.Refunded), paid, rail)
	case "payment_reversed":
		return fmt.Sprintf("%s taken back by %s", paid, rail)
	default:
		return fmt.Sprintf("%s did not arrive by %s", paid, rail)
	}
}

// subject is the headline with the offer.
func (e event) subject() string { return e.of.Offer + ": " + e.headline() }

// text says beside the headline what the receipt amounts to, what it counts, and by which number its
// operator finds it.
func (e event) text() string {
	var says strings.Builder
	switch usd := e.data["amountUsdDecimal"]; {
	case usd == nil:
		fmt.Fprint(&says, "What the payment is worth in US dollars is not known.\n")
	case e.of.Asset != "USD":
		fmt.Fprintf(&says, "The payment is of %s USD.\n", usd)
	}
	fmt.Fprintf(&says, "Status %s, evidence %s.\n", e.of.To, e.of.EvidenceLevel)
	switch {
	case !e.counted:
		fmt.Fprint(&says, "It does not count as received.\n")
	case e.of.Refunded > 0:
		fmt.Fprint(&says, "It counts as received, less what was refunded.\n")
	default:
		fmt.Fprint(&says, "It counts as received.\n")
	}
	if e.of.Own {
		fmt.Fprint(&says, "It came from you.\n")
	}
	if e.of.Testnet {
		fmt.Fprint(&says, "It is money of a test network.\n")
	}
	if e.data["outOfOrder"] != nil {
		fmt.Fprint(&says, "This comes late: other changes were announced before it.\n")
	}
	fmt.Fprintf(&says, "Receipt %d of %s, version %d.\n", e.of.ReceiptID, e.of.Offer, e.of.Version)
	return says.String()
}

// sum names the transition for good, as its id does, in 32 hexadecimal digits: the
// id holds the reference.
func (e event) sum() string {
	sum := sha256.Sum256([]byte(e.of.Offer + "\n" + e.id))
	return hex.EncodeToString(sum[:16])
}
