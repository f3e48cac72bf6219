package service

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
	"github.com/payoffer/caddy-pay-offer/payoffer/signature"
)

// qrName is what the key of QR addresses goes by in the ledger. The signing keys of
// a domain go by its DID.
const qrName = "qr"

const (
	// keysTimeout bounds one try to load the keys of an offer, and keysAtOnce how many
	// offers try at once.
	keysTimeout = 30 * time.Second
	keysAtOnce  = 16
)

// loadKeys loads the keys of all offers, and gives each on that has its own. None waits
// for another that takes long.
func (o *opening) loadKeys(ctx context.Context, loaded chan<- *Service) {
	var work sync.WaitGroup
	defer work.Wait()
	slots := make(chan struct{}, keysAtOnce)
	for _, svc := range o.left {
		work.Go(func() {
			if !o.loadKeysOf(ctx, svc, slots) {
				return
			}
			svc.publish()
			select {
			case loaded <- svc:
			case <-ctx.Done():
			}
		})
	}
}

func (o *opening) loadKeysOf(ctx context.Context, svc *Service, slots chan struct{}) bool {
	for failures := 1; ; failures++ {
		slots <- struct{}{}
		err := svc.loadKeys(ctx)
		<-slots
		switch {
		case err == nil:
			return true
		case ctx.Err() != nil:
			return false
		case errors.As(err, new(*signature.DamagedError)):
			o.refuses(err, svc)
			return false
		case !o.lags(err, svc) || !pause(ctx, failures):
			return false
		}
	}
}

// loadKeys loads the keys that another configuration has not loaded.
func (svc *Service) loadKeys(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, keysTimeout)
	defer cancel()
	if err := svc.qrKey.Load(ctx); err != nil || svc.keys.IDs() != nil {
		return err
	}
	return svc.keys.Load(ctx)
}

// rememberKeys has the ledger remember the keys of offers, which are loaded, and
// refuses those of another storage than that of the other instances: half of what
// they sign or give out would be foreign to each. Error: *foreignError.
func (share *Share) rememberKeys(ctx context.Context, offers ...*Service) error {
	again := make(map[string]bool) // what was loaded again, for another instance may have made a key since
	for {
		err := rememberKeys(ctx, share.Ledger, offers...)
		var other *ledger.KeysError
		switch {
		case !errors.As(err, &other):
			return err
		case again[other.Name]:
			return &foreignError{other}
		}
		again[other.Name] = true
		for _, svc := range offers {
			if svc.keys.DID == other.Name {
				if err := svc.keys.Load(ctx); err != nil {
					return err
				}
			}
		}
	}
}

// foreignError is returned where the ledger remembers keys that the storage does not
// have.
type foreignError struct{ *ledger.KeysError }

// Error says what is wrong, and what to do.
func (e *foreignError) Error() string {
	what, lost := "other signing keys of "+e.Name, "verify the receipts that they signed"
	if e.Name == qrName {
		what, lost = "another key of QR addresses", "draw the images of addresses that it made"
	}
	return fmt.Sprintf("this ledger was used with %s than Caddy's storage has here: all instances of a ledger share one storage. "+
		"Give this one the option 'storage', or the data directory, that the others have; if the ledger was moved here, bring the storage, too. "+
		"Where it is lost for good, nobody can %s any more: stop all instances and run 'caddy pay-offer ledger forget-keys'", what, lost)
}

// concerns reports whether an offer uses the keys.
func (e *foreignError) concerns(svc *Service) bool { return e.Name == qrName || e.Name == svc.keys.DID }

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
			return &operator.Error{Kind: operator.Conflict, Sentence: (&foreignError{other}).Error()}
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
