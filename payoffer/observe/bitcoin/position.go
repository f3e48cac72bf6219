package bitcoin

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	// rowsAtOnce bounds the receipts that one cycle follows. Dropped ones are the last of them.
	rowsAtOnce = 2000
	// maxUnconfirmed bounds the unconfirmed payments of a day, because they cost almost nothing to invent. Further
	// ones are recorded when they are mined.
	maxUnconfirmed = 500
	// droppedFor is how long a dropped payment still counts towards maxUnconfirmed.
	droppedFor = 24 * time.Hour
	// slowClock is how far a miner's clock can be behind: a block with an earlier time than the first start can be later.
	slowClock = time.Hour
)

// position is how far the account was read: the cursor's Position, as JSON. The cursor's Anchor is the hash of the
// block at Height.
type position struct {
	// Height is the last final block that was read.
	Height int64 `json:"height"`
	// Index is the index of an extended key's current address; nil before the chain was searched for used ones.
	Index *uint32 `json:"index,omitempty"`

	stored string // the cursor's Position
	anchor string
	// witnessed is the last block up to which a second endpoint was read, too; -1 for none.
	witnessed int64
}

func parsePosition(c ledger.Cursor) (p position, err error) {
	if p, err = decodeJSON[position](strings.NewReader(c.Position)); err != nil {
		return p, err
	}
	if p.stored, p.anchor = c.Position, c.Anchor; c.Anchor == "" { // the origin was lowered
		p.Height, p.witnessed = 0, -1
		return p, nil
	}
	p.witnessed, err = observe.Position(c.Witnessed)
	return p, cmp.Or(err, malformedUnless(within(p.Height, maxHeight) && hash256.MatchString(c.Anchor)))
}

// position reads the cursor. Without an anchor the account must be read from its origin.
func (o *Observer) position(ctx context.Context) (position, error) {
	c, found, err := observe.Cursor(ctx, o.config.Ledger, o.config.OfferID, o.config.Rail.Account())
	if err != nil || !found {
		return position{witnessed: -1}, err
	}
	p, err := parsePosition(c)
	if err != nil {
		err = observe.ErrNoLedger
	}
	return p, err
}

// cursor is the cursor after a cycle. It stays if another instance has moved it meanwhile.
func (c *cycle) cursor() *ledger.Cursor {
	next := &ledger.Cursor{
		Offer: c.config.OfferID, Account: c.config.Rail.Account(), Position: string(offer.JSON(c.next)), Anchor: c.next.anchor,
		OKAt: c.config.Now().Unix(), Origin: strconv.FormatInt(c.origin, 10), ExpectedPosition: &c.stored,
	}
	if c.next.witnessed >= 0 {
		next.Witnessed = strconv.FormatInt(c.next.witnessed, 10)
	}
	return next
}

// state is what the ledger contains when a cycle begins.
type state struct {
	position
	// origin is the block time from which payments count, and first is when the account was first watched, in Unix seconds.
	origin, first int64
	// reached is the highest block that contains a payment.
	reached int64
	// rows are the receipts that are not final, by external id, and byTransaction the same.
	rows          map[string]ledger.Receipt
	byTransaction map[string][]ledger.Receipt
	// unconfirmed counts the unconfirmed payments of a day.
	unconfirmed int
}

func (o *Observer) loadState(ctx context.Context) (s state, err error) {
	offset := func() time.Duration { return slowClock + max(0, o.config.ClockOffset()) }
	begun, err := observe.Begin(ctx, o.config.Ledger, o.config.OfferID, o.config.Rail.Account(), o.config.Since, offset, o.config.Now())
	if err != nil {
		return s, err
	}
	if s.origin, s.first = begun.Origin, begun.First; begun.Before > 0 {
		o.config.Logger.Info("bitcoin payments are read again", "since", time.Unix(s.origin, 0).UTC(), "before", time.Unix(begun.Before, 0).UTC())
	}
	// This is read after the origin. Otherwise it could be from before the origin was lowered.
	if s.position, err = o.position(ctx); err != nil {
		return s, err
	}
	if err := o.loadWallets(ctx); err != nil {
		return s, err
	}
	rows, err := o.config.Ledger.Unfinal(ctx, o.config.OfferID, o.config.Rail.Account(), rowsAtOnce)
	if err != nil {
		return s, observe.ErrNoLedger
	}
	s.rows, s.byTransaction = make(map[string]ledger.Receipt, len(rows)), make(map[string][]ledger.Receipt)
	for _, row := range rows {
		s.add(row)
		block, dropped := evidenceOf(row).Block, row.Status == ledger.StatusDropped
		if dropped && o.config.Now().Unix()-row.UpdatedAt <= seconds(droppedFor) || !dropped && block == 0 {
			s.unconfirmed++
		}
		if !dropped {
			s.reached = max(s.reached, block)
		}
	}
	return s, nil
}

// add adds a receipt that is not final.
func (s *state) add(row ledger.Receipt) {
	s.rows[row.ExternalID] = row
	s.byTransaction[row.Transaction] = append(s.byTransaction[row.Transaction], row)
}
