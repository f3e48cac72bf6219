package announce

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

const (
	// pollEvery is how often the outbox is looked at while something waits in it.
	pollEvery = 2 * time.Second
	// batch is how many transitions are read at once.
	batch = 100
	// leaseFor is how long a receiver belongs to the instance that announces
	// to it, and leaseLeast when that is renewed; both in seconds. A try takes
	// less than leaseLeast.
	leaseFor, leaseLeast = 60, 30
	// writeTimeout bounds a write after an announcement was taken, which is
	// tried also while Run ends.
	writeTimeout = 5 * time.Second
	// pauseFirst and pauseMost bound the pause after a failure, which doubles
	// each time.
	pauseFirst, pauseMost = 5 * time.Second, 5 * time.Minute
	// skipAfter is how long a receiver refuses an event before it is skipped, in
	// seconds.
	skipAfter = 3 * 24 * 60 * 60
)

// sink is a receiver, and how far it has got. All but its health belongs to the
// goroutine of its rounds.
type sink struct {
	config *Config
	name   string // in the ledger
	// news says which transitions the receiver is told of, and deliver tries once to
	// make it take one.
	news    func(ledger.Transition) bool
	deliver func(context.Context, event) failure
	loop    source.Loop
	log     *slog.Logger
	health  atomic.Pointer[SinkHealth] // but for trouble with the ledger

	after      int64 // the ledger's position when it was last read
	known      bool  // it was
	leaseUntil int64 // when the lease ends, in Unix seconds; 0 without one
	// sent is the last transition that was taken. It may be ahead of the
	// position while the ledger cannot be written.
	sent     int64
	failures int       // in a row
	retryAt  time.Time // when the next try is due
}

func newSink(c *Config, name, host string, news func(ledger.Transition) bool, deliver func(context.Context, event) failure) *sink {
	s := &sink{config: c, name: name, news: news, deliver: deliver, log: c.Logger.With("host", host)}
	s.health.Store(&SinkHealth{Host: host})
	s.loop = source.Loop{
		Round: s.round,
		Turned: source.Log(s.log, "the ledger cannot be used; announcements wait",
			"announcements go on, the ledger can be used again"),
	}
	return s
}

// round announces what is due and returns the time to the next round. The
// lease lasts for as long as something waits: an idle round writes nothing,
// and other instances learn the position. An error is the ledger's.
func (s *sink) round(ctx context.Context) (time.Duration, error) {
	if !s.known {
		if held, err := s.lease(ctx, leaseFor); err != nil || !held {
			return pollEvery, err
		}
	}
	waiting, err := s.config.Ledger.Transitions(ctx, s.config.OfferID, s.after, batch)
	if err != nil {
		return pollEvery, err
	}
	testCounts := false
	if len(waiting) > 0 {
		if testCounts, err = s.config.testCounts(ctx); err != nil {
			return pollEvery, err
		}
	}
	for i, t := range waiting {
		if held, err := s.hold(ctx); err != nil || !held {
			return pollEvery, err
		}
		if t.Seq <= s.after {
			continue // another instance has announced it since
		}
		s.reached(int64(len(waiting)-i), s.health.Load().LastError)
		if due := s.retryAt.Sub(s.config.Now()); due > 0 {
			return min(due, pollEvery), nil
		}
		if done, err := s.send(ctx, t, testCounts); err != nil {
			return pollEvery, err
		} else if !done {
			return 0, nil
		}
	}
	if len(waiting) == batch {
		return 0, nil
	}
	s.reached(0, s.health.Load().LastError)
	s.release(ctx)
	return s.config.PollEvery, nil
}

// send announces a transition, unless that has been done or it is no news to the receiver,
// and reports whether the sink is done with it. An error is the ledger's.
func (s *sink) send(ctx context.Context, t ledger.Transition, testCounts bool) (done bool, err error) {
	if t.Seq <= s.sent || !s.news(t) {
		return true, s.advance(ctx, t.Seq)
	}
	if ctx.Err() != nil {
		return false, nil
	}
	f := s.deliver(ctx, newEvent(s.config, t, testCounts))
	switch {
	case f.code == "":
		s.sent = t.Seq
		s.taken()
		return true, s.advance(ctx, t.Seq)
	case ctx.Err() != nil:
		return false, nil
	}
	s.failures++
	s.retryAt = s.config.Now().Add(pause(s.failures, f, s.config.Random()))
	s.failed(f)
	return s.skip(ctx, t, f)
}

// skip gives up an event that the receiver has refused for three days, and reports
// whether it did. The ledger stores the first refusal, so that a restart does not
// begin the count again. An error is the ledger's.
func (s *sink) skip(ctx context.Context, t ledger.Transition, f failure) (bool, error) {
	if !f.ofEvent() {
		return false, nil
	}
	now := s.config.Now().Unix()
	since, err := s.config.Ledger.RefuseTransition(ctx, s.config.OfferID, s.name, s.config.Owner, now)
	switch {
	case errors.Is(err, ledger.ErrSinkTaken):
		s.leaseUntil = 0
		return false, nil
	case err != nil || now-since < skipAfter:
		return false, err
	}
	if err := s.advance(ctx, t.Seq); err != nil || s.after < t.Seq {
		return false, err // another instance has the receiver now
	}
	s.log.Warn("notification skipped after three days of refusals", "id", t.EventID(), "seq", t.Seq, "reason", f.code, "status", f.status,
		"hint", "the change stays in the feed; read it with 'caddy pay-offer watch'")
	s.failures, s.retryAt = 0, time.Time{}
	s.reached(s.health.Load().Behind, "")
	return true, nil
}

// taken notes that the receiver takes what it is sent.
func (s *sink) taken() {
	s.failures, s.retryAt = 0, time.Time{}
	if s.health.Load().LastError != "" {
		s.log.Info("receipts are announced again")
	}
	s.reached(s.health.Load().Behind, "")
}

// failed notes that a try failed. It logs the first failure in a row.
func (s *sink) failed(f failure) {
	before := s.health.Load()
	if before.LastError == "" {
		s.log.Warn("receipts cannot be announced; announcements wait and are tried again", "reason", f.code, "status", f.status)
	}
	s.reached(before.Behind, f.code)
}

// reached notes how well the receiver is reached, for others to read.
func (s *sink) reached(behind int64, lastError string) {
	s.health.Store(&SinkHealth{s.health.Load().Host, behind, lastError})
}

// pause is the time to the next try after so many failures in a row, up to a fifth
// less by random, in [0, 1); it is never less than the receiver asked for.
func pause(failures int, f failure, random float64) time.Duration {
	return max(source.Backoff(failures, pauseFirst, pauseMost, random), f.wait)
}

// hold makes sure that the receiver belongs to this instance for as long as a
// try takes. A clock that was set back is no longer lease.
func (s *sink) hold(ctx context.Context) (bool, error) {
	if left := s.leaseUntil - s.config.Now().Unix(); left >= leaseLeast && left <= leaseFor {
		return true, nil
	}
	return s.lease(ctx, leaseFor)
}

// lease asks for the receiver, for so many seconds, and reads its position.
func (s *sink) lease(ctx context.Context, seconds int64) (held bool, err error) {
	now := s.config.Now().Unix()
	after, held, err := s.config.Ledger.LeaseSink(ctx, s.config.OfferID, s.name, s.config.Owner, now, now+seconds)
	if err != nil {
		return false, err
	}
	s.leased(after, held, now+seconds)
	return held, nil
}

// leased notes a lease until the Unix second until, or that somebody else has one.
func (s *sink) leased(after int64, held bool, until int64) {
	if held {
		s.after, s.known, s.leaseUntil = after, true, until
		return
	}
	// Whoever holds it knows how it fares.
	s.leaseUntil, s.failures, s.retryAt = 0, 0, time.Time{}
	s.reached(0, "")
}

// advance moves the position, also while Run ends.
func (s *sink) advance(ctx context.Context, seq int64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	err := s.config.Ledger.AdvanceSink(ctx, s.config.OfferID, s.name, s.config.Owner, seq)
	switch {
	case err == nil:
		s.after = seq
	case errors.Is(err, ledger.ErrSinkTaken):
		s.leaseUntil = 0
		return nil
	}
	return err
}

// release lets another instance go on at once.
func (s *sink) release(ctx context.Context) {
	now := s.config.Now().Unix()
	if s.leaseUntil <= now {
		return
	}
	s.leaseUntil = 0
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	// If that fails, the lease ends by itself.
	_, _, _ = s.config.Ledger.LeaseSink(ctx, s.config.OfferID, s.name, s.config.Owner, now, now)
}
