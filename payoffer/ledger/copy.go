package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// tables are the tables of a ledger. Each comes after those that it refers to.
var tables = []string{
	"accounts", "intents", "receipts", "transitions", "totals", "cursors", "returns", "subscribers", "quotes", "invoices", "prices",
	"instance_keys", "entries", "passes",
}

// booleanColumns are numbers on SQLite and true or false on PostgreSQL.
var booleanColumns = []string{"own", "testnet", "final", "gone", "reopened", "unacknowledged", "ended"}

// batchValues is the number of values at which a batch is stored. Larger ones take longer, see maxValues.
const batchValues = 400

// Contents is what a copy of a ledger contains.
type Contents struct {
	Rows   map[string]int64 // by table
	Newest time.Time        // of the last change of a receipt or a payment; zero without one
}

// Copy copies a snapshot of from into to, which must be open and empty. It commits only if Check succeeds. Numbers and tags of transitions stay,
// so that readers of the history can continue. Leases end.
func Copy(ctx context.Context, to, from *Ledger) (copied Contents, err error) {
	err = from.snapshot(ctx, func(source *sql.Tx) error {
		var last int64
		err := requireCurrent(ctx, from.dialect, schemas, source)
		if err == nil {
			err = source.QueryRowContext(ctx, from.dialect.lastNumber()).Scan(&last)
		}
		if err != nil {
			return fmt.Errorf("reading the ledger %s: %w", from.dialect.name(), err)
		}
		copied, err = to.fill(ctx, source, last)
		return err
	})
	return copied, err
}

// movedVersion is the schema version of a ledger that was moved. No program opens it,
// not even an instance that was cut off from the database meanwhile.
const movedVersion = math.MaxInt32

// Retire marks a ledger as moved after Copy: no program opens it again.
func (l *Ledger) Retire(ctx context.Context) error {
	return l.write(ctx, func(ctx context.Context, tx *sql.Tx) error { return l.dialect.setVersion(ctx, tx, movedVersion) })
}

// snapshot reads the ledger in one transaction. If the ledger is not open here, another
// process may have it open.
func (l *Ledger) snapshot(ctx context.Context, read func(*sql.Tx) error) (err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	defer func() { err = l.dialect.conceal(err) }()
	db := l.db
	if db == nil {
		pool, err := l.dialect.peek()
		if err != nil {
			return fmt.Errorf("reading the ledger %s: %w", l.dialect.name(), err)
		}
		defer pool.Close()
		db = &database{read: pool}
	}
	tx, err := db.read.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return fmt.Errorf("reading the ledger %s: %w", l.dialect.name(), err)
	}
	defer func() { _ = tx.Rollback() }()
	return read(tx)
}

// newestChange returns the Unix seconds of the newest change, 0 without one.
const newestChange = `SELECT COALESCE(MAX(at), 0) FROM (
	SELECT MAX(at) AS at FROM transitions UNION ALL SELECT MAX(updated_at) FROM intents) AS changes`

// fill stores all rows of source in the ledger, in one transaction. New receipts get numbers above after, too.
func (l *Ledger) fill(ctx context.Context, source *sql.Tx, after int64) (filled Contents, err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.db == nil {
		return filled, ErrNotOpen
	}
	filled.Rows = make(map[string]int64, len(tables))
	err = inTransaction(ctx, l.db.write, func(tx *sql.Tx) error {
		for _, table := range tables {
			var occupied bool
			if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM `+table+`)`).Scan(&occupied); err != nil {
				return err
			}
			if occupied {
				return fmt.Errorf("the ledger %s already contains %s and is never overwritten; move it away first, and restore into an empty one", l.dialect.name(), table)
			}
			if filled.Rows[table], err = copyTable(ctx, tx, source, table); err != nil {
				return fmt.Errorf("copying %s: %w", table, err)
			}
		}
		for _, text := range []string{l.dialect.advanceNumbers(after), endLeases} {
			if _, err := tx.ExecContext(ctx, text); err != nil {
				return err
			}
		}
		var newest int64
		if err := tx.QueryRowContext(ctx, newestChange).Scan(&newest); err != nil {
			return err
		} else if newest != 0 {
			filled.Newest = time.Unix(newest, 0)
		}
		return check(ctx, tx)
	})
	return filled, l.dialect.conceal(err)
}

// copyTable copies the rows of a table and counts them. Its memory does not grow with them.
func copyTable(ctx context.Context, to, from *sql.Tx, table string) (count int64, err error) {
	rows, err := from.QueryContext(ctx, `SELECT * FROM `+table)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return 0, err
	}
	var batch [][]any
	for more := true; more; {
		if more = rows.Next(); more {
			row, addresses := make([]any, len(columns)), make([]any, len(columns))
			for i := range row {
				addresses[i] = &row[i]
			}
			if err := rows.Scan(addresses...); err != nil {
				return 0, err
			}
			for i, column := range columns {
				if number, ok := row[i].(int64); ok && slices.Contains(booleanColumns, column) {
					row[i] = number != 0
				}
			}
			batch = append(batch, row)
			count++
		}
		if len(batch)*len(columns) >= batchValues || !more {
			if _, err := insertRows(ctx, to, table, strings.Join(columns, ", "), batch, ""); err != nil {
				return 0, err
			}
			batch = nil
		}
	}
	return count, rows.Err()
}
