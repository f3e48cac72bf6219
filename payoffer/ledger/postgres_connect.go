package ledger

import (
	"cmp"
	"context"
	"crypto/tls"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// connector opens connections with durable commits. Its errors do not contain the DSN.
type connector struct{ driver.Connector }

func newConnector(d *postgresDialect) driver.Connector {
	return connector{stdlib.GetConnector(*d.config, stdlib.OptionAfterConnect(d.prepareSession))}
}

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	switch unfit := new(sessionError); {
	case err == nil:
		return conn, nil
	case errors.As(err, unfit):
		return nil, *unfit
	case errors.Is(err, errMoved):
		return nil, errMoved
	case ctx.Err() != nil:
		return nil, fmt.Errorf("connecting: %w", ctx.Err())
	}
	text, temporary := explain(err)
	if temporary {
		return nil, unreachableError("connecting: " + text)
	}
	return nil, errors.New("connecting: " + text)
}

// unreachableError says why a database is unreachable now, without secrets.
type unreachableError string

func (u unreachableError) Error() string { return string(u) }

// IsUnreachable reports whether the database is unreachable or too slow now, so that a retry may
// succeed. The operator must fix other errors.
func IsUnreachable(err error) bool {
	_, temporary := explain(err)
	return temporary || errors.As(err, new(unreachableError)) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, pgconn.ErrConnClosed)
}

// sessionError says why a connection must not be used.
type sessionError string

func (s sessionError) Error() string { return string(s) }

const (
	errCopied sessionError = "the ledger is being restored or moved; start again when that is done"
	errPooled sessionError = "PgBouncer, or another pooler, is between in transaction or statement mode, " +
		"and the ledger holds a lock for its session: connect directly, or set pool_mode = session"
	errInstances sessionError = errInUseText + "; stop all instances first"
)

// sessionEnd is the time in which the server ends the session of a client that has gone.
const sessionEnd = "1s"

// prepareSession checks and fixes the settings of every new connection, because they may
// differ by role and database, and after a restart of the server.
func (p *postgresDialect) prepareSession(ctx context.Context, conn *pgx.Conn) (err error) {
	defer func() {
		if err != nil {
			_ = conn.Close(ctx)
		}
	}()
	if err = p.requireSession(ctx, conn.PgConn()); err != nil {
		return err
	}
	var commit, fsync, readOnly, schema string
	err = conn.QueryRow(ctx, `
		SELECT current_setting('synchronous_commit'), current_setting('fsync'), current_setting('transaction_read_only'),
			coalesce((SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = to_regclass('pay_offer_schema')),
				quote_ident(current_schema()), '')`).Scan(&commit, &fsync, &readOnly, &schema)
	switch {
	case err != nil:
		return err
	case commit != "on" && commit != "remote_apply":
		return sessionError(fmt.Sprintf("synchronous_commit is %q for this role and database: a payment could be lost; set it to on",
			commit))
	case fsync != "on":
		return sessionError("the server runs with fsync=off: a payment could be lost; turn it on")
	case readOnly != "off":
		return sessionError("the server is read-only: it is a standby, or default_transaction_read_only is on; name the primary")
	case schema == "":
		return sessionError("no schema of the search_path exists; create one for the ledger")
	}
	// Each statement must see what was committed before it, and an instance that hangs in
	// a transaction must not block the others. A ledger is copied without other instances.
	lock, busy := "pg_advisory_lock_shared", errCopied
	if p.single {
		lock, busy = "pg_advisory_lock", errInstances
	}
	if _, err = conn.Exec(ctx, `
		SELECT set_config('synchronous_commit', $1, false), set_config('search_path', $2, false),
			set_config('default_transaction_isolation', 'read committed', false),
			set_config('idle_in_transaction_session_timeout', '10s', false), set_config('lock_timeout', $3, false)`, commit, schema, sessionEnd); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, `SELECT `+lock+`(`+sessionSpace+`, hashtext('in use: ' || $1))`, schema)
	if sqlState(err) == lockNotAvailable {
		return busy
	}
	if err == nil {
		_, err = conn.Exec(ctx, `RESET lock_timeout`)
	}
	if err != nil {
		return err
	}
	var version int // the lock prevents a move from now on
	switch err = conn.QueryRow(ctx, `SELECT version FROM pay_offer_schema`).Scan(&version); {
	case sqlState(err) == undefinedTable:
		return nil
	case err == nil && version == movedVersion:
		return errMoved
	}
	return err
}

// requireSession refuses a pooler that gives another server session to each transaction. A pooler
// makes up the process ID that it greets with (PostgreSQL, "BackendKeyData"); one that keeps
// sessions never gives the same one to two clients at a time.
func (p *postgresDialect) requireSession(ctx context.Context, conn *pgconn.PgConn) error {
	before, err := backend(ctx, conn)
	if err != nil || before == fmt.Sprint(conn.PID()) {
		return err
	}
	second, err := pgconn.ConnectConfig(ctx, p.config.Config.Copy())
	if err != nil {
		return err
	}
	defer second.Close(context.WithoutCancel(ctx))
	other, err := backend(ctx, second)
	if err != nil {
		return err
	}
	after, err := backend(ctx, conn)
	if err == nil && (other == before || after != before) {
		err = errPooled
	}
	return err
}

// backend is the process ID of the server session. A simple query needs no prepared statement,
// which such poolers refuse.
func backend(ctx context.Context, conn *pgconn.PgConn) (pid string, err error) {
	results, err := conn.Exec(ctx, `SELECT pg_backend_pid()`).ReadAll()
	if err == nil {
		pid = string(results[0].Rows[0][0])
	}
	return pid, err
}

// sqlState returns the SQLSTATE of an error of the server, or an empty text.
func sqlState(err error) string {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return ""
	}
	return refused.Code
}

// explain says why a connection failed, without names of hosts and accounts, and whether this may
// end without the operator.
func explain(err error) (text string, temporary bool) {
	var (
		dns     *net.DNSError
		network *net.OpError
		cert    *tls.CertificateVerificationError
	)
	code := sqlState(err)
	switch {
	case errors.As(err, &cert):
		return "the server's TLS certificate is not trusted for its name; see sslmode and sslrootcert", false
	case strings.HasPrefix(code, "28"):
		return "the role does not exist, its password is wrong, or pg_hba.conf rejects it (SQLSTATE " + code +
			"); correct the DSN or that file", false
	case code != "":
		// connection failures, insufficient resources, operator intervention
		temporary = slices.ContainsFunc([]string{"08", "53", "57P"}, func(class string) bool { return strings.HasPrefix(code, class) })
		return "the server refused with SQLSTATE " + code + "; " + cmp.Or(remedies[code], "read its log"), temporary
	case errors.As(err, &dns):
		return "the server's name cannot be resolved; correct the host of the DSN", true
	case errors.As(err, &network): // its own text contains the address
		return fmt.Sprintf("the server cannot be reached: %v; check host, port and firewall", whyLost(network)), true
	}
	return "the server does not respond like PostgreSQL with the TLS of sslmode; correct sslmode or the port",
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, driver.ErrBadConn)
}

// whyLost is the error of the system, such as "connection refused", without the address.
func whyLost(err *net.OpError) error {
	if failed := new(os.SyscallError); errors.As(err, &failed) {
		return failed.Err
	}
	return err.Err
}

// conceal removes the address from the error of a broken connection.
func (p *postgresDialect) conceal(err error) error {
	var network *net.OpError
	remedy := remedies[sqlState(err)]
	switch broken := errors.As(err, &network); {
	case broken && errors.Is(err, context.Canceled):
		return fmt.Errorf("the connection to PostgreSQL was canceled: %w", context.Canceled)
	case broken && errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the connection to PostgreSQL was canceled: %w", context.DeadlineExceeded)
	case broken:
		return unreachableError(fmt.Sprintf("the connection to PostgreSQL was lost (%v); check that the database runs", whyLost(network)))
	case errors.Is(err, driver.ErrBadConn):
		return unreachableError("the connection to PostgreSQL was lost; check that the database runs")
	case remedy != "":
		return fmt.Errorf("%w; %s", err, remedy)
	}
	return err
}

// remedies are what the operator can do about an error of the server, by SQLSTATE.
var remedies = map[string]string{
	duplicateTable: "give the ledger a schema of its own: CREATE SCHEMA pay_offer, and search_path=pay_offer in the DSN",
	"25006":        "the database is read-only: end default_transaction_read_only, or name the primary in the DSN",
	"3D000":        "the database does not exist; create it, or correct the DSN",
	"42501":        "GRANT the role of the DSN all privileges on the tables and sequences of the ledger",
	"53100":        "free space on the disk of the database server",
	"53300":        "the server has no free connection; raise max_connections",
	"57P03":        "the server is starting or stopping; wait until it is ready",
	"XX001":        "the database is damaged; restore a backup of it",
}
