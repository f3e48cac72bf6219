package announce

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Messages for people contain nothing about the payer, and no reference: that of a bank transfer may be a name.

// headline is one line: how much, by which rail, and what happened.
func (e event) headline() string { return e.change.Headline(e.of.Rail) }

// subject is the headline with the offer.
func (e event) subject() string { return e.of.Offer + ": " + e.headline() }

// text is the message below the headline: what changed and why, the state of the receipt, whether it counts, and its
// number.
func (e event) text() string {
	var says strings.Builder
	if !e.change.New() {
		fmt.Fprintf(&says, "Changed: %s.\n", e.change.Description())
	}
	if why := e.change.Why(); why != "" {
		fmt.Fprintf(&says, "Recorded because %s.\n", why)
	}
	switch usd := e.usd(); {
	case usd == nil:
		fmt.Fprint(&says, "The value in US dollars is not known.\n")
	case e.of.Asset != "USD":
		fmt.Fprintf(&says, "The value is %s USD.\n", usd)
	}
	fmt.Fprintf(&says, "Status %s, evidence %s.\n", e.of.To, e.of.EvidenceLevel)
	switch {
	case !e.counted:
		fmt.Fprint(&says, "It does not count as received.\n")
	case e.of.Refunded > 0:
		fmt.Fprint(&says, "The amount after refunds counts as received.\n")
	default:
		fmt.Fprint(&says, "It counts as received.\n")
	}
	if e.of.Own {
		fmt.Fprint(&says, "It is your own payment.\n")
	}
	if e.of.Testnet {
		fmt.Fprint(&says, "It is test money.\n")
	}
	fmt.Fprintf(&says, "Receipt %d of %s, version %d.\n", e.of.ReceiptID, e.of.Offer, e.of.Version)
	return says.String()
}

// sum identifies the transition as its id does, in 32 hexadecimal digits, but without the reference.
func (e event) sum() string {
	sum := sha256.Sum256([]byte(e.of.Offer + "\n" + e.id))
	return hex.EncodeToString(sum[:16])
}
