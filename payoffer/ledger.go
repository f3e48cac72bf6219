package payoffer

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	driverSQLite   = "sqlite"
	driverPostgres = "postgres"
	defaultLedger  = "pay_offer.db"

	noPostgres = "ledger postgres does not exist in this version; use 'ledger sqlite [<path>]'"
)

// ledgers holds the open databases, so that two generations share one while
// the configuration is reloaded.
var ledgers = caddy.NewUsagePool()

// pooledLedger is a ledger that is closed when its last user is gone.
type pooledLedger struct{ *ledger.Ledger }

// Destruct closes the ledger.
func (l *pooledLedger) Destruct() error { return l.Close() }

// path is the database file.
func (c *LedgerConfig) path() (string, error) {
	path := ""
	if c != nil {
		switch c.Driver {
		case "", driverSQLite:
		case driverPostgres:
			return "", errors.New(noPostgres)
		default:
			return "", errors.New("unknown ledger driver; this version has sqlite")
		}
		path = caddy.NewReplacer().ReplaceKnown(c.Path, "")
	}
	if path == "" {
		path = defaultLedger
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(caddy.AppDataDir(), path)
	}
	return filepath.Clean(path), nil
}

// ledgerReference is one use of a pooled ledger.
type ledgerReference struct {
	*pooledLedger
	key string
}

// referLedger takes a reference to the ledger at path, which may be unopened.
func referLedger(path string) (*ledgerReference, error) {
	key := driverSQLite + " " + path
	value, _, err := ledgers.LoadOrNew(key, func() (caddy.Destructor, error) {
		return &pooledLedger{ledger.NewSQLite(path, time.Now)}, nil
	})
	if err != nil {
		return nil, err
	}
	return &ledgerReference{value.(*pooledLedger), key}, nil
}

// release gives the reference back; the last one closes the ledger. It does
// nothing for a nil reference.
func (r *ledgerReference) release() error {
	if r == nil {
		return nil
	}
	_, err := ledgers.Delete(r.key)
	return err
}

// accounts are where the money of an offer's chain rails arrives.
func accounts(o *offer.Offer) []ledger.Account {
	var found []ledger.Account
	for _, u := range o.USDC() {
		found = append(found, ledger.Account{Offer: o.ID, ID: u.Account(), Rail: u.Name(), Testnet: u.Network.Test})
	}
	if b := o.Bitcoin(); b != nil {
		found = append(found, ledger.Account{Offer: o.ID, ID: b.Account(), Rail: b.Name(), Testnet: b.Test()})
	}
	return found
}
