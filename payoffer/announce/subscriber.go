package announce

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
)

const (
	// pollEvery is the poll interval while deliveries are due.
	pollEvery = 2 * time.Second
	// batch is the number of transitions in one read.
	batch = 100
	// leaseFor is the length of an instance's lease of an endpoint. It is renewed below
	// minLease, which is longer than an attempt. Both in seconds.
	leaseFor, minLease = 60, 30
	// writeTimeout bounds a write to the ledger after a delivery, also at shutdown.
	writeTimeout = 5 * time.Second
	// minPause is the pause after the first failure. It doubles up to maxPause.
	minPause, maxPause = 5 * time.Second, 5 * time.Minute
	// skipAfter is how long an endpoint refuses an event before it is skipped, in seconds.
	skipAfter = 3 * 24 * 60 * 60
)

// subscriber delivers events to one endpoint. Its loop owns all fields except lastError.
type subscriber struct {
	config    *Config
	name      string // in the ledger
	host      string
	accepts   func(ledger.Transition) bool
	deliver   func(context.Context, event) failure
	loop      source.Loop
	log       *slog.Logger
	lastError atomic.Value // a string, without errors of the ledger

	position   int64 // in the ledger, when it was last read
	known      bool  // whether it was read
	leaseUntil int64 // Unix seconds; 0 without a lease
	// delivered is the last acknowledged transition. It is ahead of position while the ledger cannot be written.
	delivered int64
	failures  int // in a row
	retryAt   time.Time
}

func newSubscriber(c *Config, name, host string, wanted func(ledger.Transition) bool, deliver func(context.Context, event) failure) *subscriber {
	s := &subscriber{config: c, name: name, host: host, accepts: wanted, deliver: deliver, log: c.Logger.With("host", host)}
	s.lastError.Store("")
	s.loop = source.Loop{
		Poll:     s.poll,
		OnChange: source.Log(s.log, "ledger failed; notifications wait", "ledger works again; notifications continue", "check the disk or the database of the ledger"),
	}
	return s
}

func (s *subscriber) key() ledger.SubscriberKey {
	return ledger.SubscriberKey{Offer: s.config.Offer.ID, Name: s.name}
}

// poll delivers what is due and returns the time to the next poll. The lease is kept only
// while deliveries are due, so that an idle poll writes nothing. An error is the ledger's.
func (s *subscriber) poll(ctx context.Context) (time.Duration, error) {
	if !s.known {
		if held, err := s.hold(ctx); err != nil || !held {
			return pollEvery, err
		}
	}
	due, err := s.config.Ledger.Transitions(ctx, s.config.Offer.ID, s.position, batch)
	testCounts := false
	if err == nil && len(due) > 0 {
		testCounts, err = report.TestCounts(ctx, s.config.Ledger, &s.config.Offer)
	}
	if err != nil {
		return pollEvery, err
	}
	for _, t := range due {
		if held, err := s.hold(ctx); err != nil || !held {
			return pollEvery, err
		}
		if t.Seq <= s.position {
			continue // another instance has delivered it
		}
		if wait := s.retryAt.Sub(s.config.Now()); wait > 0 {
			return min(wait, pollEvery), nil
		}
		if done, err := s.send(ctx, t, testCounts); err != nil {
			return pollEvery, err
		} else if !done {
			return 0, nil
		}
	}
	if len(due) == batch {
		return 0, nil
	}
	s.release(ctx)
	return s.config.PollEvery, nil
}

// send attempts to deliver a transition. It reports whether the transition is done, that
// is delivered, not wanted or skipped.
func (s *subscriber) send(ctx context.Context, t ledger.Transition, testCounts bool) (done bool, err error) {
	if t.Seq <= s.delivered || !s.accepts(t) {
		return true, s.advance(ctx, t.Seq)
	}
	if ctx.Err() != nil {
		return false, nil
	}
	attempt, cancel := s.config.withGrace(ctx)
	f := s.deliver(attempt, newEvent(s.config, t, testCounts))
	cancel()
	failed := s.lastError.Load() != ""
	switch {
	case f.code == "":
		s.delivered, s.failures, s.retryAt = t.Seq, 0, time.Time{}
		if failed {
			s.log.Info("endpoint accepts notifications again")
		}
		s.lastError.Store("")
		return true, s.advance(ctx, t.Seq)
	case ctx.Err() != nil:
		return false, nil
	case !failed:
		s.log.Warn("notification failed; it is retried", "reason", f.code, "status", f.status, "hint", hints[f.code])
	}
	s.lastError.Store(f.code)
	s.failures++
	s.retryAt = s.config.Now().Add(max(source.Backoff(s.failures, minPause, maxPause, s.config.Random()), f.wait))
	return s.skip(ctx, t, f)
}

// skip skips an event that the endpoint has refused for three days, and reports whether
// it did. The ledger stores the time of the first refusal, also across restarts.
func (s *subscriber) skip(ctx context.Context, t ledger.Transition, f failure) (bool, error) {
	if !f.concernsEvent() {
		return false, nil
	}
	now := s.config.Now().Unix()
	since, err := s.config.Ledger.RefuseTransition(ctx, s.config.Offer.ID, s.name, s.config.Owner, now)
	switch {
	case errors.Is(err, ledger.ErrSubscriberTaken):
		s.leaseUntil = 0
		return false, nil
	case err != nil || now-since < skipAfter:
		return false, err
	}
	if err := s.advance(ctx, t.Seq); err != nil || s.position < t.Seq {
		return false, err // another instance has the lease
	}
	s.log.Warn("notification skipped after three days of refusals", "id", t.EventID(), "seq", t.Seq, "reason", f.code, "status", f.status,
		"hint", "correct the endpoint; read the change with 'caddy pay-offer watch'")
	s.failures, s.retryAt = 0, time.Time{}
	s.lastError.Store("")
	return true, nil
}

// failing returns the code of the last error, or empty. It never blocks.
func (s *subscriber) failing() string {
	if code, _ := s.loop.Last(); code != "" {
		return codeLedger
	}
	return s.lastError.Load().(string)
}

// hold renews the lease if it could end during an attempt. A remaining time above leaseFor
// means that the clock was set back, and that the lease cannot be relied on.
func (s *subscriber) hold(ctx context.Context) (bool, error) {
	if left := s.leaseUntil - s.config.Now().Unix(); left >= minLease && left <= leaseFor {
		return true, nil
	}
	return s.lease(ctx, leaseFor)
}

// lease requests the endpoint for a number of seconds and reads its position.
func (s *subscriber) lease(ctx context.Context, seconds int64) (held bool, err error) {
	now := s.config.Now().Unix()
	position, held, err := s.config.Ledger.LeaseSubscriber(ctx, s.config.Offer.ID, s.name, s.config.Owner, now, now+seconds)
	if err == nil {
		s.setLease(position, held, now+seconds)
	}
	return held, err
}

// setLease stores a lease, or that another instance has it and reports the health.
func (s *subscriber) setLease(position int64, held bool, until int64) {
	if held {
		s.position, s.known, s.leaseUntil = position, true, until
		return
	}
	s.leaseUntil, s.failures, s.retryAt = 0, 0, time.Time{}
	s.lastError.Store("")
}

// advance stores the position, also at shutdown.
func (s *subscriber) advance(ctx context.Context, seq int64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	err := s.config.Ledger.AdvanceSubscriber(ctx, s.config.Offer.ID, s.name, s.config.Owner, seq)
	switch {
	case err == nil:
		s.position = seq
	case errors.Is(err, ledger.ErrSubscriberTaken):
		s.leaseUntil = 0
		return nil
	}
	return err
}

// release ends the lease, so that another instance can continue at once. If that fails, the lease expires.
func (s *subscriber) release(ctx context.Context) {
	if s.leaseUntil <= s.config.Now().Unix() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	_, _ = s.lease(ctx, 0)
	s.leaseUntil = 0
}
