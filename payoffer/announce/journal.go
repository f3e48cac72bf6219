package announce

import (
	"context"
	"fmt"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// write writes a line of the server's log. It has what an operator looks a payment
// up by, here or at the provider. The address of the receipt's page is a secret of
// the payer and stands in no log: the line has the command that prints it.
func (c *Config) write(ctx context.Context, e event) failure {
	t, says, unit := e.of, "a receipt has changed", offer.UnitOf(e.of.Asset)
	if e.change.New() {
		says = "a receipt is new"
	}
	fields := []any{
		"change", e.change.Told(), "rail", t.Rail, "amount", unit.Format(t.Amount), "usd", e.usd(), "refunded", unit.Format(t.Refunded),
		"before", string(t.From), "status", string(t.To), "evidence", string(t.EvidenceLevel), "counted", e.counted,
		"own", t.Own, "testnet", t.Testnet, "reference", t.ExternalID, "number", t.ReceiptID, "version", t.Version,
		"cause", t.Cause, "cursor", t.Bookmark().String(), "id", e.id, "page", e.pageCommand(),
	}
	c.Journal.InfoContext(ctx, says, fields...)
	return failure{}
}

// pageCommand is what prints the address of the receipt's page.
func (e event) pageCommand() string {
	return fmt.Sprintf("caddy pay-offer received --receipts --before %d --offer %s", e.of.ReceiptID+1, e.of.Offer)
}
