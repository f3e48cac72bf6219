package announce

import (
	"context"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// refused sets a transition aside that can never be sent, or that the receiver
// has refused for three days. The first refusal stands in the ledger, so that a
// restart does not begin the count again.
func (s *sink) refused(ctx context.Context, t ledger.Transition, f failure) (aside bool, err error) {
	now := s.config.Now().Unix()
	if !f.ofEvent() {
		return false, nil
	}
	if f.code != codeUnwritable {
		since, err := s.config.Ledger.RefuseTransition(ctx, s.config.OfferID, s.name, t.Seq, now)
		waits := now-since < asideAfter && since-now <= asideAfter // later by more was noted while the clock was ahead
		if err != nil || waits {
			return false, err
		}
	}
	err = s.passed(ctx, t.Seq, func(ctx context.Context) error {
		return s.config.Ledger.SetAside(ctx, s.config.OfferID, s.name, s.config.Owner, t.Seq, f.reason(), now)
	})
	if err != nil || s.after < t.Seq {
		return false, err // another instance has the receiver now
	}
	s.log.Warn("an announcement was refused for too long and is set aside, the later ones go on; see 'caddy pay-offer announcements'",
		"id", t.EventID(), "seq", t.Seq, "reason", f.code, "status", f.status)
	s.failures, s.retryAt = 0, time.Time{}
	s.reached(s.health.Load().Behind, "")
	return true, nil
}

// Aside is an announcement that a receiver did not take and that holds up no
// other any more.
type Aside struct {
	ledger.Aside
	// Host is as in SinkHealth; empty for a receiver that is not configured any
	// more.
	Host string
	// Kind is the event's, as in "payment_confirmed".
	Kind string
}

// Asides lists what is set aside, in the order of transitions.
func (a *Announcer) Asides(ctx context.Context) ([]Aside, error) {
	rows, err := a.config.Ledger.Asides(ctx, a.config.OfferID)
	if err != nil {
		return nil, err
	}
	all := make([]Aside, len(rows))
	for i, row := range rows {
		all[i] = Aside{Aside: row, Kind: kindOf(row.Transition)}
		if s := a.sink(row.Sink); s != nil {
			all[i].Host = s.health.Load().Host
		}
	}
	return all, nil
}

// Retry sends once what was set aside, now and out of its order, which the data of
// the events say. Of each it returns why its receiver did not take it, as a code of
// SinkHealth with the status of the answer, or "not_configured", and empty where it
// did: then it is not set aside any more. A receiver that is in trouble is not asked
// again for the rest. An error is the ledger's, or that ctx ended.
func (a *Announcer) Retry(ctx context.Context, asides ...Aside) (reasons []string, err error) {
	testCounts, err := a.config.testCounts(ctx)
	if err != nil {
		return nil, err
	}
	trouble := make(map[string]string) // of receivers, by their names
	for _, aside := range asides {
		s, reason := a.sink(aside.Sink), trouble[aside.Sink]
		switch {
		case ctx.Err() != nil:
			return reasons, ctx.Err()
		case s == nil:
			reason = "not_configured"
		case reason == "":
			e := newEvent(a.config, aside.Transition, testCounts)
			e.data["outOfOrder"] = true
			f := s.deliver(ctx, e)
			if reason = f.reason(); reason == "" {
				err = a.Skip(ctx, aside)
			} else if !f.ofEvent() {
				trouble[aside.Sink] = reason
			}
		}
		if err != nil {
			return reasons, err
		}
		reasons = append(reasons, reason)
	}
	return reasons, nil
}

// Skip forgets what was set aside: its receiver will not be told. An error is the
// ledger's.
func (a *Announcer) Skip(ctx context.Context, aside Aside) error {
	return a.config.Ledger.ForgetAside(ctx, a.config.OfferID, aside.Sink, aside.Seq)
}

func (a *Announcer) sink(name string) *sink {
	for _, s := range a.sinks {
		if s.name == name {
			return s
		}
	}
	return nil
}
