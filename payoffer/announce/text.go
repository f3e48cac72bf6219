package announce

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

// Messages for people contain nothing about the payer. Of a manual entry only the link to the receipt has the
// reference, encoded, because the seller wrote it and it may be a name.

// headline is one line, such as "$42 received", whatever a provider reports as the currency.
func (e event) headline() string {
	if e.text != "" {
		return "Message from your server"
	} else if e.kind == kindTest {
		return "Test: notifications arrive"
	}
	line := strings.Join(strings.Fields(e.change.Headline()), " ")
	if e.transition.Testnet {
		line += " (test)"
	}
	return line
}

// message is the text below the headline: the method, the offer, the total and the link, then the change.
func (c *Config) message(ctx context.Context, e event, link string) string {
	if e.text != "" {
		return e.text + "\nOffer: " + c.Offer.Name + "\n"
	} else if e.kind == kindTest {
		return "This is a test of the notifications of " + c.Offer.Name + ". It is about no payment.\n"
	}
	method := e.transition.Rail // a removed rail has only its name
	if rail, offered := c.Offer.Rail(method); offered {
		method = text.Languages[0].Say(rail.Face().Way)
	}
	var says strings.Builder
	fmt.Fprintf(&says, "Payment method: %s\nOffer: %s\n%s", method, c.Offer.Name, c.total(ctx))
	if link != "" {
		fmt.Fprintf(&says, "Receipt: %s\n", link)
	}
	fmt.Fprintf(&says, "\nChange: %s.\nStatus %s, evidence %s",
		e.change.Summary(), e.change.After.Word(), e.transition.EvidenceLevel)
	if e.usd() == nil {
		says.WriteString(", value in US dollars unknown")
	}
	if e.counted {
		says.WriteString(".\nIt counts as received, less refunds.")
	} else {
		says.WriteString(".\nIt does not count as received.")
	}
	if e.transition.Own {
		says.WriteString(" It is your own payment.")
	}
	if c.Closed != nil {
		if why := c.Closed(ctx, e.transition); why != "" {
			says.WriteString("\n" + why + " To let the payer in, send a pass ('caddy pay-offer pass'). " +
				"For prices in other currencies, 'caddy pay-offer check --live' says what is missing.")
		}
	}
	if e.transition.EvidenceLevel != ledger.LevelManual {
		fmt.Fprintf(&says, "\nReference: %.200s", strings.Join(strings.Fields(e.transition.ExternalID), " "))
	}
	fmt.Fprintf(&says, "\nReceipt %d of %s, version %d.\n", e.transition.ReceiptID, e.transition.Offer, e.transition.Version)
	return says.String()
}

// total is a line with the customer payments, as the report counts them, and the goal; empty if they cannot be read soon.
func (c *Config) total(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	totals, err := c.Ledger.Totals(ctx, c.Offer.ID)
	if err != nil {
		return ""
	}
	counted := accounting.Count(totals, accounting.TestCounts(totals, c.Offer.Test()))
	total := offer.USD(counted.External).Dollars()
	if counted.Partial {
		total = "at least " + total
	}
	if c.Offer.Goal > 0 {
		total += " of " + c.Offer.Goal.Dollars()
	}
	return "Total: " + total + "\n"
}

// sum identifies the transition as its id does, in 32 hexadecimal digits, but without the reference.
func (e event) sum() string {
	sum := sha256.Sum256([]byte(e.transition.Offer + "\n" + e.id))
	return hex.EncodeToString(sum[:16])
}
