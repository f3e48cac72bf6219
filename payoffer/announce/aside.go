package announce

import (
	"context"
	"errors"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// refused sets a transition aside that can never be sent, or that the receiver
// has refused for three days. The first refusal stands in the ledger, so that a
// restart does not begin the count again.
func (s *sink) refused(ctx context.Context, t ledger.Transition, f failure) (aside bool, err error) {
	now := s.config.Now().Unix()
	if f.code != codeUnwritable {
		if !f.ofEvent() {
			return false, nil
		}
		since, err := s.config.Ledger.RefuseTransition(ctx, s.config.OfferID, s.name, t.Seq, now)
		if err != nil || now-since < asideAfter {
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

// ErrNoReceiver is returned for an announcement to a receiver that is not
// configured any more.
var ErrNoReceiver = errors.New("the receiver is not in the configuration")

// Retry sends once what was set aside, now and out of its order, which the data
// of the event say. It returns why the receiver did not take it, as a code of
// SinkHealth, and empty where it did: then it is not set aside any more. Error:
// ErrNoReceiver, or the ledger's.
func (a *Announcer) Retry(ctx context.Context, aside Aside) (reason string, err error) {
	s := a.sink(aside.Sink)
	if s == nil {
		return "", ErrNoReceiver
	}
	e := newEvent(a.config, aside.Transition)
	e.data["outOfOrder"] = true
	if f := s.deliver(ctx, e); f.code != "" {
		return f.reason(), nil
	}
	return "", a.Skip(ctx, aside)
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
