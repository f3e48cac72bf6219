package operator

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/manual"
)

// redact gives a receipt a random reference in place of the published one, for
// good. Its history shows the reasons as they read then.
func (d *Desk) redact(ctx context.Context, e manual.Entry) (Receipt, error) {
	stored, err := d.known(ctx, e)
	if err != nil {
		return Receipt{}, err
	}
	if stored.EvidenceLevel != ledger.LevelManual {
		return Receipt{}, refuse(Conflict, "%q is the name that its own source gave it (%s), by which the receipt is checked; only what you named yourself can be redacted",
			e.Reference, stored.EvidenceLevel)
	}
	if d.tells(stored.Rail) {
		return Receipt{}, refuse(Conflict, "the rail %s has a provider that tells of its payments by their ids: %q could come back under its own, and be counted twice; ask the provider to remove it",
			stored.Rail, e.Reference)
	}
	redacted, err := d.Ledger.Redact(ctx, stored.Offer, stored.Account, stored.ExternalID,
		"redacted-"+strings.ToLower(rand.Text()[:16]), e.Reason)
	if errors.Is(err, ledger.ErrRedaction) {
		err = refuse(Conflict, "%q was changed elsewhere at the same moment; look at what stands", e.Reference)
	}
	if err != nil {
		return Receipt{}, err
	}
	row := d.newReceipt(redacted)
	row.Said = []string{
		"the reference was taken out of the ledger for good; backups, logs, and what was announced or read before, still hold it",
		"nothing knows the payment by its old reference any more: entered under that again, it would be counted twice",
	}
	history, err := d.Ledger.History(ctx, d.Offer.ID, stored.ID, stored.ID)
	row.History = histories(history)[stored.ID]
	return row, err
}

// tells reports whether a provider tells of the payments of a rail by itself.
func (d *Desk) tells(rail string) bool {
	for _, h := range d.Health() {
		if h.Rail == rail {
			return h.Source == "webhook" || h.Source == "provider"
		}
	}
	return false
}
