package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
	"github.com/payoffer/caddy-pay-offer/payoffer/signature"
)

// qrName is the name of the key of QR addresses in the ledger. The name of the signing
// keys of a domain is its DID.
const qrName = "qr"

const (
	// keysTimeout bounds one attempt to load the keys of an offer.
	keysTimeout = 30 * time.Second
	// maxLoads bounds how many offers load their keys at the same time.
	maxLoads = 16
)

// storageError is a failure of the storage, which may end by itself.
type storageError struct{ error }

// loadKeys loads and publishes the keys of offers, unless another configuration has loaded
// them. The error is of one offer.
func loadKeys(ctx context.Context, offers []*Service) error {
	var loading errgroup.Group
	loading.SetLimit(maxLoads)
	for _, svc := range offers {
		loading.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, keysTimeout)
			defer cancel()
			err := svc.qrKey.Load(ctx)
			if err == nil && svc.keys.IDs() == nil {
				err = svc.keys.Load(ctx)
			}
			switch {
			case err == nil:
				svc.publish()
			case !errors.As(err, new(*signature.DamagedError)):
				err = &storageError{err}
			}
			return err
		})
	}
	return loading.Wait()
}

// rememberKeys stores the ids of loaded keys in the ledger. It fails if another instance
// on this ledger uses keys of another storage: each would refuse what the other signed.
func rememberKeys(ctx context.Context, l *ledger.Ledger, offers ...*Service) error {
	err := storeKeyIDs(ctx, l, offers...)
	if errors.As(err, new(*ledger.KeysError)) {
		for _, svc := range offers { // another instance may have made a key since
			if err := svc.keys.Load(ctx); err != nil {
				return err
			}
		}
		err = storeKeyIDs(ctx, l, offers...)
	}
	return explainKeys(err)
}

func storeKeyIDs(ctx context.Context, l *ledger.Ledger, offers ...*Service) error {
	keys := make(map[string][]string)
	for _, svc := range offers {
		keys[svc.keys.DID] = svc.keys.IDs()
		keys[qrName] = []string{svc.qrKey.ID()}
	}
	return l.RememberKeys(ctx, keys)
}

// explainKeys says what to do if the storage does not have the keys of the ledger.
func explainKeys(err error) error {
	var other *ledger.KeysError
	if !errors.As(err, &other) {
		return err
	}
	what, lost := "other signing keys of "+other.Name, "verify the receipts that they signed"
	if other.Name == qrName {
		what, lost = "another key of QR addresses", "draw the images of addresses that it made"
	}
	return fmt.Errorf("this ledger was used with %s than Caddy's storage has. If the disk is new, run 'caddy storage import' with a copy of the "+
		"storage that contains no pay_offer.db, which would replace this ledger (guide: backup). If the storage was moved, set the option 'storage' "+
		"or the data directory to it. The last resort, after which it is no longer possible to %s, is to stop all instances and run "+
		"'caddy pay-offer ledger forget-keys'", what, lost)
}

// rotateKey makes a new signing key, also if the ledger cannot store its id now, because
// the old key may be stolen; the next start stores it. It makes no key next to foreign
// ones, because no instance would start any more.
func (s *Service) rotateKey(ctx context.Context, revoke bool) (keyID string, from time.Time, err error) {
	var unstored error
	next, err := s.keys.Rotate(ctx, revoke, func(ids []string) error {
		unstored = s.Ledger.RememberKeys(ctx, map[string][]string{s.keys.DID: ids})
		if errors.As(unstored, new(*ledger.KeysError)) {
			return &operator.Error{Kind: operator.Conflict, Sentence: explainKeys(unstored).Error()}
		}
		return nil
	})
	if err == nil && unstored == nil {
		unstored = rememberKeys(ctx, s.Ledger, s)
	}
	if err == nil && unstored != nil {
		s.logger.Warn("the ledger did not store the new key", "error", unstored.Error(), "hint", "the next start stores it")
	}
	return s.keys.DID + "#" + next.ID, next.From, err
}
