package payoffer

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

const (
	driverSQLite   = "sqlite"
	driverPostgres = "postgres"
	defaultLedger  = "pay_offer.db"
)

// ledgers holds the open databases, so that two generations share one while
// the configuration is reloaded.
var ledgers = caddy.NewUsagePool()

// pooledLedger is a ledger that is closed when its last user is gone.
type pooledLedger struct{ *ledger.Ledger }

// Destruct closes the ledger.
func (l *pooledLedger) Destruct() error { return l.Close() }

// database is where receipts are kept, with its placeholders replaced.
type database struct {
	driver string
	// where is the absolute path of a file, or a DSN, which is a secret.
	where string
}

// database resolves the configuration.
func (c *LedgerConfig) database() (database, error) {
	if c == nil {
		c = new(LedgerConfig)
	}
	if err := c.check(); err != nil {
		return database{}, err
	}
	replacer := caddy.NewReplacer()
	if c.Driver == driverPostgres {
		dsn := replacer.ReplaceKnown(c.DSN, "")
		if dsn == "" {
			return database{}, errors.New("ledger postgres: the DSN is empty; is its variable set?")
		}
		return database{driverPostgres, dsn}, nil
	}
	path := cmp.Or(replacer.ReplaceKnown(c.Path, ""), defaultLedger)
	if !filepath.IsAbs(path) {
		path = filepath.Join(caddy.AppDataDir(), path)
	}
	return database{driverSQLite, filepath.Clean(path)}, nil
}

// check finds what is wrong whatever the placeholders hold.
func (c *LedgerConfig) check() error {
	switch c.Driver {
	case "", driverSQLite:
		if c.DSN != "" {
			return errors.New("ledger sqlite takes a path and no DSN")
		}
		return nil
	case driverPostgres:
		if c.DSN == "" || c.Path != "" {
			return errors.New("ledger postgres needs a DSN and no path; write 'ledger postgres {env.NAME}'")
		}
		if hasPlaceholder(c.DSN) {
			return nil
		}
		_, err := ledger.NewPostgres(c.DSN, time.Now)
		return err
	default:
		return errors.New("unknown ledger driver; known are: " + driverPostgres + ", " + driverSQLite)
	}
}

// literalSecret reports whether the configuration itself holds a password.
func (c *LedgerConfig) literalSecret() bool {
	if c == nil || hasPlaceholder(c.DSN) {
		return false
	}
	if u, err := url.Parse(c.DSN); err == nil && u.User != nil {
		_, has := u.User.Password()
		return has
	}
	return strings.Contains(c.DSN, "password")
}

// key names the database in the pool of ledgers. Caddy may log it.
func (d database) key() string {
	if d.driver == driverPostgres {
		return fmt.Sprintf("%s %x", d.driver, sha256.Sum256([]byte(d.where)))
	}
	return d.driver + " " + d.where
}

func (d database) handle() (*ledger.Ledger, error) {
	if d.driver == driverPostgres {
		return ledger.NewPostgres(d.where, time.Now)
	}
	return ledger.NewSQLite(d.where, time.Now), nil
}

// ledgerReference is one use of a pooled ledger.
type ledgerReference struct {
	*pooledLedger
	key string
}

// referLedger takes a reference to the ledger in d, which may be unopened.
func referLedger(d database) (*ledgerReference, error) {
	key := d.key()
	value, _, err := ledgers.LoadOrNew(key, func() (caddy.Destructor, error) {
		book, err := d.handle()
		return &pooledLedger{book}, err
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
