package ledger

import (
	"context"
	"database/sql"
	"sync"
)

// prepared keeps the prepared statements of one pool, because SQLite takes longer to
// parse a statement than to run it. There are few different texts. A nil *prepared keeps
// none, for a driver that does so itself.
type prepared struct {
	db         *sql.DB
	statements sync.Map // *sql.Stmt by text; nil until it is prepared
}

// get returns the prepared statement, or nil if it is not prepared yet.
func (p *prepared) get(text string) *sql.Stmt {
	if p == nil {
		return nil
	}
	statement, _ := p.statements.LoadOrStore(text, (*sql.Stmt)(nil))
	return statement.(*sql.Stmt)
}

// prepare prepares the texts that get did not find. It waits for a connection of the
// pool, so its caller must not hold one.
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
			_ = statement.Close()
		}
		return err == nil
	})
}

// QueryContext runs a query on a connection that only reads.
func (db *database) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	if db.reads.get(text) == nil {
		db.reads.prepare(ctx)
	}
	if statement := db.reads.get(text); statement != nil {
		return statement.QueryContext(ctx, args...)
	}
	return db.read.QueryContext(ctx, text, args...)
}

// collect reads all rows of a query on a connection that only reads.
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
		return nil, l.wrapReadError(err)
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

// first returns the row of a query with at most one.
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

func scanValue[T any](row scanner) (value T, err error) {
	err = row.Scan(&value)
	return value, err
}
