package announce

import (
	"context"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// Load reads the position of each receiver of announcers, all on one ledger, in one
// statement. A new receiver begins after the newest transition of its offer. Load comes
// before anything is observed, so that Run announces all that is recorded from then on.
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
