package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/desk"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// qrName is what the key of QR addresses goes by in the ledger. The signing keys of
// a domain go by its DID.
const qrName = "qr"

// RememberKeys has the ledger remember the keys of its offers, which are open, and
// refuses those of another storage than that of the other instances: half of what
// they sign or give out would be foreign to each.
func (share *Share) RememberKeys(ctx context.Context, offers ...*Service) error {
	err := rememberKeys(ctx, share.Ledger, offers...)
	var other *ledger.KeysError
	if !errors.As(err, &other) {
		return err
	}
	// Another instance may have made a key since they were loaded.
	for _, svc := range offers {
		if svc.keys.DID == other.Name {
			if err := svc.keys.Load(ctx); err != nil {
				return err
			}
		}
	}
	if err = rememberKeys(ctx, share.Ledger, offers...); errors.As(err, &other) {
		return foreign(other)
	}
	return err
}

// foreign says what is wrong where the ledger remembers keys that the storage does
// not have, and what to do.
func foreign(other *ledger.KeysError) error {
	what, lost := "other signing keys of "+other.Name, "verify the receipts that they signed"
	if other.Name == qrName {
		what, lost = "another key of QR addresses", "draw the images of addresses that it made"
	}
	return fmt.Errorf("this ledger was used with %s than Caddy's storage has here: all instances of a ledger share one storage. "+
		"Give this one the option 'storage', or the data directory, that the others have; if the ledger was moved here, bring the storage, too. "+
		"Where it is lost for good, nobody can %s any more: stop all instances and run 'caddy pay-offer ledger forget-keys'", what, lost)
}

func rememberKeys(ctx context.Context, book *ledger.Ledger, offers ...*Service) error {
	keys := make(map[string][]string)
	for _, svc := range offers {
		keys[svc.keys.DID] = svc.keys.IDs()
		keys[qrName] = []string{svc.qrKey.ID()}
	}
	return book.RememberKeys(ctx, keys)
}

// rotate makes a new signing key. It is made even where the ledger cannot remember
// it now, for a key may have been stolen: the next start does. It is not made beside
// keys that are not those of the ledger: then no instance would start any more.
func (svc *Service) rotate(ctx context.Context, revoke bool) (keyID string, from time.Time, err error) {
	var away error
	next, err := svc.keys.Rotate(ctx, revoke, func(ids []string) error {
		var other *ledger.KeysError
		if away = svc.ledger.RememberKeys(ctx, map[string][]string{svc.keys.DID: ids}); errors.As(away, &other) {
			return &desk.Error{Kind: desk.Conflict, Sentence: foreign(other).Error()}
		}
		return nil
	})
	if err == nil {
		if away == nil {
			away = rememberKeys(ctx, svc.ledger, svc)
		}
		if away != nil {
			svc.logger.Warn("the ledger does not remember the new signing key before the next start", "error", away.Error())
		}
	}
	return svc.keys.DID + "#" + next.ID, next.From, err
}
