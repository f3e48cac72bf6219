package card

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

const (
	// interval is the time between two readings of the API.
	interval = 5 * time.Minute
	// firstRetry is the time after which a failed one is repeated. It doubles
	// with every failure, up to maxRetry.
	firstRetry, maxRetry = 15 * time.Second, 10 * time.Minute
	// forever is the wait of who has nothing left to do.
	forever time.Duration = math.MaxInt64
)

// Run notes in the ledger since when the account is watched and, with a key,
// reads the API again and again until ctx ends. It may be called again
// afterwards.
func (o *Observer) Run(ctx context.Context) { o.loop.Run(ctx) }

// round brings what is known up to date once.
func (o *Observer) round(ctx context.Context) (time.Duration, error) {
	money, err := o.scoped(ctx)
	if err != nil {
		return 0, err
	}
	cursor, _, err := observe.Cursor(ctx, o.ledger, money.offer, money.account)
	if err != nil {
		return 0, err
	}
	if o.provider == nil {
		o.update(func(s *state) { s.heardAt, s.ledgerDown = max(s.heardAt, cursor.OKAt), false })
		return forever, nil
	}
	through, err := strconv.ParseInt(cursor.Position, 10, 64)
	if err != nil { // there is none yet: that of webhooks alone is empty
		err = o.reconcile(ctx, money, money.origin, false)
	} else {
		o.update(func(s *state) { s.readAt, s.through = cursor.OKAt, through })
		err = o.reconcile(ctx, money, through-overlap, true)
	}
	if err == nil {
		o.update(func(s *state) { s.ledgerDown = false })
	}
	return source.Spread(interval, o.random()), err
}
