package ledger

import (
	"context"
	"database/sql"
	"fmt"
)

// collect reads all rows of a query with scan, beside the writer.
func collect[T any](ctx context.Context, l *Ledger, scan func(scanner) (T, error), statement string, args ...any) ([]T, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.db == nil {
		return nil, ErrNotOpen
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	all, err := query(ctx, l.db, scan, statement, args...)
	if err != nil {
		return nil, fmt.Errorf("reading the ledger: %w", l.dialect.conceal(err))
	}
	return all, nil
}

func query[T any](ctx context.Context, db *database, scan func(scanner) (T, error), text string, args ...any) ([]T, error) {
	rows, err := db.rows(ctx, text, args...)
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

func (db *database) rows(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	if db.reads.get(text) == nil {
		db.reads.prepare(ctx)
	}
	if statement := db.reads.get(text); statement != nil {
		return statement.QueryContext(ctx, args...)
	}
	return db.read.QueryContext(ctx, text, args...)
}

// first returns the only row of a query that gives at most one.
func first[T any](rows []T, err error) (row T, found bool, _ error) {
	if err != nil || len(rows) == 0 {
		return row, false, err
	}
	return rows[0], true, nil
}

// scanner is a *sql.Row or *sql.Rows.
type scanner interface {
	Scan(dest ...any) error
}
