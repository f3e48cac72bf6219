package observe

import (
	"context"
	"errors"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// Recorder is what observers write to; *ledger.Ledger is one.
type Recorder interface {
	Record(ctx context.Context, cursor *ledger.Cursor, sightings ...ledger.Sighting) ([]ledger.Receipt, error)
}

// Record commits sightings and the cursor that covers them. Sightings that the
// ledger refuses for good (ledger.ErrSighting), as one with an absurd amount,
// are returned and do not keep the others out.
func Record(ctx context.Context, r Recorder, cursor *ledger.Cursor, sightings ...ledger.Sighting) (refused []ledger.Sighting, err error) {
	if len(sightings) == 0 && cursor == nil {
		return nil, nil
	}
	_, err = r.Record(ctx, cursor, sightings...)
	if !errors.Is(err, ledger.ErrSighting) {
		return nil, err
	}
	for _, s := range sightings {
		_, err := r.Record(ctx, nil, s)
		switch {
		case errors.Is(err, ledger.ErrSighting):
			refused = append(refused, s)
		case err != nil:
			return refused, err
		}
	}
	if cursor != nil {
		_, err = r.Record(ctx, cursor)
		return refused, err
	}
	return refused, nil
}
