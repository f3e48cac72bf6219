package payoffer

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
)

const (
	driverSQLite   = "sqlite"
	driverPostgres = "postgres"
	defaultLedger  = "pay_offer.db"
)

// LedgerConfig says where receipts are stored.
type LedgerConfig struct {
	// The database: sqlite, for one instance, or postgres, which several instances share.
	// Default: sqlite.
	Driver string `json:"driver,omitempty"`

	// The file of sqlite. A relative path is below Caddy's data directory. Default:
	// pay_offer.db.
	Path string `json:"path,omitempty"`

	// The connection string of postgres: a URL or keywords (libpq), with sslmode.
	DSN string `json:"dsn,omitempty"`
}

// UnmarshalCaddyfile reads 'ledger sqlite [<path>]' or 'ledger postgres <dsn>'.
func (l *LedgerConfig) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	var where string
	values := []*string{&l.Driver, &where}
	if d.CountRemainingArgs() == 1 {
		values = values[:1]
	}
	if err := arguments(d, "ledger sqlite [<path>], or ledger postgres <dsn>", values...); err != nil {
		return err
	}
	if l.Driver == driverPostgres {
		l.DSN = where
	} else {
		l.Path = where
	}
	return nil
}

// database is a ledger's database, with its placeholders replaced.
type database struct {
	driver string
	// where is the absolute path of a file, or a DSN, which is a secret.
	where string
}

// database resolves and checks the configuration.
func (l *LedgerConfig) database() (database, error) {
	if l == nil {
		l = new(LedgerConfig)
	}
	replacer := caddy.NewReplacer()
	path, dsn := replacer.ReplaceKnown(l.Path, ""), replacer.ReplaceKnown(l.DSN, "")
	switch {
	case l.Driver == driverPostgres && (l.DSN == "" || path != ""):
		return database{}, errors.New("ledger postgres needs a DSN and no path; write for example 'ledger postgres {env.LEDGER_DSN}'")
	case l.Driver == driverPostgres && dsn == "":
		return database{}, fmt.Errorf("ledger postgres: %s is empty; set it to a DSN such as postgres://user:password@host:5432/database", l.DSN)
	case l.Driver == driverPostgres:
		_, err := ledger.NewPostgres(dsn, time.Now)
		return database{driverPostgres, dsn}, err
	case l.Driver != "" && l.Driver != driverSQLite:
		return database{}, errors.New("ledger: the driver is unknown; write sqlite or postgres first, such as 'sqlite /var/lib/caddy/pay_offer.db'")
	case l.DSN != "" || strings.Contains(path, "://"): // a DSN may contain a password, and errors repeat a path
		return database{}, errors.New("ledger sqlite needs a path and no DSN; write for PostgreSQL for example 'ledger postgres {env.LEDGER_DSN}'")
	}
	path = cmp.Or(path, defaultLedger)
	if !filepath.IsAbs(path) {
		path = filepath.Join(caddy.AppDataDir(), path)
	}
	return database{driverSQLite, filepath.Clean(path)}, nil
}

// NewLedger returns an unopened handle for the commands. words name the ledger as the
// option 'ledger' of the Caddyfile does; empty words name the configured ledger.
func (app *App) NewLedger(words string) (*ledger.Ledger, error) {
	config := app.Ledger
	if words != "" {
		driver, where, _ := strings.Cut(words, " ")
		config = &LedgerConfig{Driver: driver, Path: where}
		if driver == driverPostgres {
			config = &LedgerConfig{Driver: driver, DSN: where}
			if where != "" && !hasPlaceholder(where) {
				return nil, errors.New("--to contains a DSN, and other users of this machine can read arguments; put it into a variable and write 'postgres {env.LEDGER_DSN}'")
			}
		}
	}
	database, err := config.database()
	if err != nil {
		return nil, err
	}
	return database.handle()
}

// passwordInDSN matches a password in a DSN.
var passwordInDSN = regexp.MustCompile(`://[^/@]*:[^/@]+@|\bpassword\s*=`)

// hasPassword reports whether the configuration itself contains a password.
func (l *LedgerConfig) hasPassword() bool {
	return l != nil && !hasPlaceholder(l.DSN) && passwordInDSN.MatchString(l.DSN)
}

// key identifies a database.
func (d database) key() string { return service.KeyOf("ledger", d.driver, d.where) }

// handle returns a handle that is not open yet.
func (d database) handle() (*ledger.Ledger, error) {
	if d.driver == driverPostgres {
		return ledger.NewPostgres(d.where, time.Now)
	}
	return ledger.NewSQLite(d.where, time.Now), nil
}
