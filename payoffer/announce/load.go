package announce

import (
	"context"
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// Load gives each receiver of announcers, all on one ledger, that is new its place
// after the newest transition of its offer, in one statement. It comes before anything is
// observed, so that all that is recorded from then on is announced, however late Run
// gets to it.
func Load(ctx context.Context, all ...*Announcer) error {
	owners := make(map[ledger.SinkKey]string)
	for _, a := range all {
		for _, s := range a.sinks {
			owners[ledger.SinkKey{Offer: a.config.OfferID, Name: s.name}] = a.config.Owner
		}
	}
	if len(owners) == 0 {
		return nil
	}
	now := all[0].config.Now().Unix()
	places, err := all[0].config.Ledger.LeaseSinks(ctx, owners, now, now) // nothing is announced yet
	if err != nil {
		return err
	}
	for _, a := range all {
		for _, s := range a.sinks {
			after, held := places[ledger.SinkKey{Offer: a.config.OfferID, Name: s.name}]
			s.leased(after, held, now)
		}
	}
	return nil
}

// WarnOfLeft warns of receivers that are not configured any more and have not taken
// what was recorded while they were. Their place is kept: an address that is put back
// gets all of it. An announcer whose offer has none costs no statement of its own.
func WarnOfLeft(ctx context.Context, all ...*Announcer) error {
	if len(all) == 0 {
		return nil
	}
	of := make(map[string]*Announcer, len(all))
	for _, a := range all {
		of[a.config.OfferID] = a
	}
	c := all[0].config
	sinks, err := c.Ledger.Sinks(ctx, c.Now().Unix()-warnedFor)
	if err != nil {
		return err
	}
	for _, one := range sinks {
		if a := of[one.Offer]; a != nil {
			if err := a.warnOfLeft(ctx, one); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *Announcer) warnOfLeft(ctx context.Context, one ledger.Sink) error {
	form, _, addressed := strings.Cut(one.Name, ":")
	if !addressed || slices.ContainsFunc(a.sinks, func(s *sink) bool { return s.name == one.Name }) {
		return nil
	}
	c := a.config
	waiting, err := c.Ledger.Transitions(ctx, c.OfferID, one.After, batch)
	if err != nil {
		return err
	}
	waiting = slices.DeleteFunc(waiting, func(t ledger.Transition) bool { return !announced(t) || t.At > one.Until })
	if len(waiting) > 0 {
		c.Logger.Warn("an address of announcements was taken out or changed before it took all of them, and no other address gets these; "+
			"put it back, beside a new one, until 'caddy pay-offer announcements' shows nothing behind it", "form", form, "left_behind", len(waiting))
	}
	return nil
}
