package bitcoin

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// position is how far the account was read: the cursor's Position in the
// ledger, as JSON. The cursor's Anchor is the hash of the block at Height.
type position struct {
	// Height is the last final block that was read.
	Height int64 `json:"height"`
	// Index is that of the current address of an extended key; nil before the
	// chain was searched for used ones.
	Index *uint32 `json:"index,omitempty"`

	anchor string
}

func parsePosition(c ledger.Cursor) (position, error) {
	d := json.NewDecoder(bytes.NewReader([]byte(c.Position)))
	d.DisallowUnknownFields()
	p := position{anchor: c.Anchor}
	if d.Decode(&p) != nil || ended(d) != nil || !within(p.Height, maxHeight) || p.Index != nil && *p.Index > maxIndex {
		return position{}, errMalformed
	}
	if !hash256.MatchString(c.Anchor) {
		return position{}, errMalformed
	}
	return p, nil
}

// later joins what two instances have read of one account: neither moves the
// other back.
func (p position) later(q position) position {
	if q.Height > p.Height {
		p.Height, p.anchor = q.Height, q.anchor
	}
	if p.Index == nil || q.Index != nil && *q.Index > *p.Index {
		p.Index = q.Index
	}
	return p
}

// position reads the account's position from the ledger.
func (o *Observer) position(ctx context.Context) (p position, found bool, err error) {
	c, found, err := observe.Cursor(ctx, o.config.Ledger, o.config.OfferID, o.config.Rail.Account())
	if err != nil || !found {
		return position{}, false, err
	}
	if p, err = parsePosition(c); err != nil {
		return position{}, false, observe.ErrNoLedger
	}
	return p, true, nil
}

func (o *Observer) cursor(p position) ledger.Cursor {
	text, _ := json.Marshal(p) // it is two numbers
	return ledger.Cursor{
		Offer: o.config.OfferID, Account: o.config.Rail.Account(), Position: string(text), Anchor: p.anchor, OKAt: o.config.Now().Unix(),
	}
}
