package card

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

const (
	// interval is the mean time between two readings of the API.
	interval = 5 * time.Minute
	// firstRetry is the mean time after which a failed one is repeated. It
	// doubles with every failure, up to maxRetry.
	firstRetry, maxRetry = 15 * time.Second, 10 * time.Minute
)

// Run notes in the ledger since when the account is watched and, with a key,
// reads the API again and again until ctx ends. An API that does not answer is
// logged once.
func (o *Observer) Run(ctx context.Context) {
	failures := 0
	for {
		err := o.round(ctx)
		if ctx.Err() != nil {
			return
		}
		o.note(err, failures == 0)
		wait := interval
		switch {
		case err != nil:
			wait = min(firstRetry<<min(failures, 10), maxRetry)
			failures++
		case o.provider == nil:
			<-ctx.Done()
			return
		default:
			failures = 0
		}
		timer := time.NewTimer(jitter(wait))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// jitter spreads a wait over a quarter of it to either side, so that many
// servers do not call at the same moment.
func jitter(wait time.Duration) time.Duration {
	return wait*3/4 + rand.N(wait/2)
}

// round brings what is known up to date once.
func (o *Observer) round(ctx context.Context) error {
	money, err := o.scoped(ctx)
	if err != nil {
		return err
	}
	cursor, _, err := o.ledger.Cursor(ctx, money.offer, money.account)
	if err != nil {
		return errLedger
	}
	if o.provider == nil {
		o.update(func(s *state) { s.heardAt = max(s.heardAt, cursor.OKAt) })
		return nil
	}
	through, err := strconv.ParseInt(cursor.Position, 10, 64)
	if err != nil { // there is none yet: that of webhooks alone is empty
		return o.reconcile(ctx, money, money.origin, false)
	}
	o.update(func(s *state) { s.readAt, s.through = cursor.OKAt, through })
	return o.reconcile(ctx, money, through-overlap, true)
}

// note keeps the outcome of a round, and logs when it differs from the one
// before.
func (o *Observer) note(err error, wasWell bool) {
	code := ""
	if err != nil {
		code = observe.ErrBadAnswer
		var known *observe.Error
		if errors.As(err, &known) {
			code = known.Code
		}
	}
	o.update(func(s *state) {
		s.current, s.failure = err == nil, code
		if err == nil {
			s.ledgerDown = false
		}
	})
	switch {
	case err != nil && wasWell:
		o.log.Warn("card payments cannot be brought up to date; nothing is lost, it is tried again", "error", err.Error())
	case err == nil && !wasWell:
		o.log.Info("card payments are up to date again")
	}
}

// storedOrigin is since when payments count, in Unix seconds: the first start
// of the account's first observer.
func (o *Observer) storedOrigin(ctx context.Context) (int64, error) {
	now := strconv.FormatInt(o.started.Unix(), 10)
	stored, err := o.ledger.SetOrigin(ctx, o.money.offer, o.money.account, now)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(stored, 10, 64)
}
