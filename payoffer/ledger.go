package payoffer

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/pool"
)

const (
	driverSQLite   = "sqlite"
	driverPostgres = "postgres"
	defaultLedger  = "pay_offer.db"
)

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
	if err := checkLedgerPath(path); err != nil {
		return database{}, err
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(caddy.AppDataDir(), path)
	}
	return database{driverSQLite, filepath.Clean(path)}, nil
}

// NewLedger makes a handle, which is not open, to the ledger of words as they
// stand in the Caddyfile after the option's name; to that of the configuration
// where there are none. The commands ask for it.
func (app *App) NewLedger(words string) (*ledger.Ledger, error) {
	config := app.Ledger
	if words != "" {
		driver, where, _ := strings.Cut(words, " ")
		config = &LedgerConfig{Driver: driver, Path: where}
		if driver == driverPostgres {
			config = &LedgerConfig{Driver: driver, DSN: where}
			if where != "" && !hasPlaceholder(where) {
				return nil, errors.New("a DSN is a secret, and arguments can be read by others; write 'postgres {env.NAME}'")
			}
		}
	}
	database, err := config.database()
	if err != nil {
		return nil, err
	}
	return database.handle()
}

// check finds what is wrong whatever the placeholders hold.
func (c *LedgerConfig) check() error {
	switch c.Driver {
	case "", driverSQLite:
		if c.DSN != "" {
			return errors.New("ledger sqlite takes a path and no DSN")
		}
		return checkLedgerPath(c.Path)
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

// checkLedgerPath refuses what belongs to postgres: a path is told in errors.
func checkLedgerPath(path string) error {
	if err := checkNoSecret(path); err != nil {
		return fmt.Errorf("ledger sqlite: %w", err)
	}
	return nil
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

// key tells databases apart.
func (d database) key() pool.Key { return pool.KeyOf("ledger", d.driver, d.where) }

// handle makes a handle that is not open yet.
func (d database) handle() (*ledger.Ledger, error) {
	if d.driver == driverPostgres {
		return ledger.NewPostgres(d.where, time.Now)
	}
	return ledger.NewSQLite(d.where, time.Now), nil
}
