package operator

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	// feedPatience is how long a reader of the feed waits for a change, and feedLook
	// how often the ledger is looked at meanwhile: another instance may record.
	feedPatience = 25 * time.Second
	feedLook     = time.Second
)

// Feed is what has changed since a place in the history, in the order of commits.
type Feed struct {
	Offer   string   `json:"offer"`
	Cursor  string   `json:"cursor"` // the place after the last change, to go on from
	Changes []Change `json:"changes"`
}

// Change is one change of a receipt, as it was recorded. The amounts are those after
// it.
type Change struct {
	Cursor     string       `json:"cursor"` // the place after it
	ID         string       `json:"id"`     // names it for good, as announcements do
	Number     int64        `json:"number"` // the receipt's
	Version    int64        `json:"version"`
	Rail       string       `json:"rail"`
	Reference  string       `json:"reference"`
	Before     string       `json:"before,omitempty"` // the status; none of a new receipt
	Status     string       `json:"status"`
	Evidence   string       `json:"evidence"`
	Unit       string       `json:"unit"`
	Paid       string       `json:"paid"`
	Returned   string       `json:"refunded"`
	AmountUSD  *json.Number `json:"amount_usd"`
	Counted    bool         `json:"counted"` // whether it is money received now, less what was refunded
	Own        bool         `json:"own"`
	Testnet    bool         `json:"testnet"`
	OccurredAt string       `json:"occurred_at"`
	Change     string       `json:"change"` // what changed, from what to what, and why
	Cause      string       `json:"cause"`
	Reason     string       `json:"reason,omitempty"` // the operator's
	At         string       `json:"at"`
}

// Feed lists what has changed after a cursor; without one it tells the newest and
// lists nothing. Where nothing has changed yet it waits a while for something to,
// and until ctx ends.
func (d *Desk) Feed(ctx context.Context, cursor string) (Feed, error) {
	if cursor == "" {
		last, err := d.Ledger.Last(ctx, d.Offer.ID)
		if err != nil {
			return Feed{}, noLedger(err)
		}
		return Feed{Offer: d.Offer.ID, Cursor: last.String(), Changes: []Change{}}, nil
	}
	after, ok := ledger.ParseBookmark(cursor)
	if !ok {
		return Feed{}, refuse(Invalid, "this is no cursor; write one that a change has, as in 12.00c0ffee00c0ffee, or leave it out to begin with now")
	}
	ctx, cancel := context.WithTimeout(ctx, feedPatience)
	defer cancel()
	look := time.NewTicker(feedLook)
	defer look.Stop()
	for {
		rows, err := d.Ledger.Feed(ctx, d.Offer.ID, after, MaxPage)
		switch {
		case errors.Is(err, ledger.ErrBookmark):
			return Feed{}, refuse(Conflict, "the ledger does not have this place in its history: an older copy was put back, or the cursor is another offer's; begin again without it, and read all receipts")
		case len(rows) > 0:
			return d.newFeed(ctx, rows)
		case err != nil && ctx.Err() == nil:
			return Feed{}, noLedger(err)
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return Feed{Offer: d.Offer.ID, Cursor: cursor, Changes: []Change{}}, nil
		}
	}
}

func (d *Desk) newFeed(ctx context.Context, rows []ledger.Transition) (Feed, error) {
	testCounts := false
	if d.Offer.Test() {
		totals, err := d.Ledger.Totals(ctx, d.Offer.ID)
		if err != nil {
			return Feed{}, noLedger(err)
		}
		testCounts = accounting.TestCounts(totals, true)
	}
	feed := Feed{Offer: d.Offer.ID, Cursor: rows[len(rows)-1].Bookmark().String()}
	for _, t := range rows {
		unit := offer.UnitOf(t.Asset)
		feed.Changes = append(feed.Changes, Change{
			Cursor: t.Bookmark().String(), ID: t.EventID(), Number: t.ReceiptID, Version: t.Version, Rail: t.Rail, Reference: t.ExternalID,
			Before: string(t.From), Status: string(t.To), Evidence: string(t.EvidenceLevel),
			Unit: unit.Symbol, Paid: unit.Decimal(t.Amount), Returned: unit.Decimal(t.Refunded), AmountUSD: dollars(t.USDCents),
			Counted: t.Standing().Counts(testCounts), Own: t.Own, Testnet: t.Testnet,
			OccurredAt: moment(t.OccurredAt), Change: t.Change().Told(), Cause: t.Cause, Reason: t.Note, At: moment(t.At),
		})
	}
	return feed, nil
}
