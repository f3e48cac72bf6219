package ledger

import (
	"context"
	"database/sql"
	"sync"
)

// prepared keeps the statements of one pool: SQLite takes longer to read a
// statement than to run it. The texts are constants, or differ in a small number
// of rows, so they are few. A nil *prepared keeps nothing, which is for a driver
// that does so itself.
type prepared struct {
	db *sql.DB
	// statements are *sql.Stmt by text; one that is nil is still to be prepared.
	statements sync.Map
}

// get returns the prepared statement, or nil for one that is to be sent as
// text this time.
func (p *prepared) get(text string) *sql.Stmt {
	if p == nil {
		return nil
	}
	statement, _ := p.statements.LoadOrStore(text, (*sql.Stmt)(nil))
	return statement.(*sql.Stmt)
}

// prepare prepares what was asked for and not there. It waits for a connection
// of the pool, so its caller must hold none. What fails is sent as text again.
func (p *prepared) prepare(ctx context.Context) {
	if p == nil {
		return
	}
	p.statements.Range(func(text, known any) bool {
		if known != (*sql.Stmt)(nil) {
			return true
		}
		statement, err := p.db.PrepareContext(ctx, text.(string))
		if err == nil && !p.statements.CompareAndSwap(text, known, statement) {
			_ = statement.Close() // somebody else was quicker
		}
		return err == nil
	})
}

// QueryContext runs a query beside the writer.
func (db *database) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	if db.reads.get(text) == nil {
		db.reads.prepare(ctx)
	}
	if statement := db.reads.get(text); statement != nil {
		return statement.QueryContext(ctx, args...)
	}
	return db.read.QueryContext(ctx, text, args...)
}

// collect reads all rows of a query with scan, beside the writer.
func collect[T any](ctx context.Context, l *Ledger, scan func(scanner) (T, error), text string, args ...any) ([]T, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.db == nil {
		return nil, ErrNotOpen
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	all, err := query(ctx, l.db, scan, text, args...)
	if err != nil {
		return nil, l.failedReading(err)
	}
	return all, nil
}

// query reads all rows of a query of database/sql.
func query[T any](ctx context.Context, from interface {
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
}, scan func(scanner) (T, error), text string, args ...any) ([]T, error) {
	rows, err := from.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// first returns the only row of a query that gives at most one.
func first[T any](rows []T, err error) (row T, found bool, _ error) {
	if err != nil || len(rows) == 0 {
		return row, false, err
	}
	return rows[0], true, nil
}

// scanner is a row that query reads.
type scanner interface {
	Scan(dest ...any) error
}

// scanValue reads a row of one value.
func scanValue[T any](row scanner) (value T, err error) {
	err = row.Scan(&value)
	return value, err
}
