package desk

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
	if stored.EvidenceLevel != ledger.LevelManual && stored.EvidenceLevel != ledger.LevelAsserted {
		return Receipt{}, refuse(Conflict, "%q is the name that its own source gave it (%s), by which the receipt is checked; what you named yourself can be redacted, and asserted sales",
			e.Reference, stored.EvidenceLevel)
	}
	history, err := d.Ledger.History(ctx, d.Offer.ID, stored.ID, stored.ID)
	if err != nil {
		return Receipt{}, err
	}
	told := history[0].Cause != manual.CauseEntered // by a shop, before anything was entered
	if told && d.reads(stored.Rail) {
		return Receipt{}, refuse(Conflict, "%q is a sale that is read back from the shop by this id, and would come back under it; ask the shop to remove it", e.Reference)
	}
	redacted, err := d.Ledger.Redact(ctx, stored.Offer, stored.Account, stored.ExternalID,
		"redacted-"+strings.ToLower(rand.Text()[:16]), e.Reason)
	if errors.Is(err, ledger.ErrRedaction) {
		err = refuse(Conflict, "%q was changed elsewhere at the same moment; look at what stands", e.Reference)
	}
	if err != nil {
		return Receipt{}, err
	}
	row := newReceipt(redacted)
	row.Said = []string{"the reference was taken out of the ledger for good; backups, and what was announced or read before, still hold it"}
	if told {
		row.Said = append(row.Said, "should the shop tell of this sale again, it is listed again under its own id, asserted and not counted: do not enter it a second time")
	}
	history, err = d.Ledger.History(ctx, d.Offer.ID, stored.ID, stored.ID)
	row.History = histories(history)[stored.ID]
	return row, err
}

// reads reports whether the payments of a rail are read back from its provider.
func (d *Desk) reads(rail string) bool {
	for _, h := range d.Health() {
		if h.Rail == rail {
			return h.Source == "provider"
		}
	}
	return false
}
