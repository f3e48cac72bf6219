package ledger

import (
	"context"
	"database/sql"
)

// queryer is a pool or a transaction.
type queryer interface {
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
}

// scanner is a row that query reads.
type scanner interface {
	Scan(dest ...any) error
}

// whileReading runs use with the pool that only reads.
func (l *Ledger) whileReading(ctx context.Context, use func(ctx context.Context, read *sql.DB) error) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.db == nil {
		return ErrNotOpen
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return l.wrapReadError(use(ctx, l.db.read))
}

// collect reads all rows of a query on a connection that only reads.
func collect[T any](ctx context.Context, l *Ledger, scan func(scanner) (T, error), text string, args ...any) (all []T, err error) {
	err = l.whileReading(ctx, func(ctx context.Context, read *sql.DB) error {
		all, err = query(ctx, read, scan, text, args...)
		return err
	})
	return all, err
}

// query reads all rows of a query.
func query[T any](ctx context.Context, from queryer, scan func(scanner) (T, error), text string, args ...any) ([]T, error) {
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

// atMostOne returns the row of a query with at most one.
func atMostOne[T any](rows []T, err error) (row T, found bool, _ error) {
	if err != nil || len(rows) == 0 {
		return row, false, err
	}
	return rows[0], true, nil
}

func scanValue[T any](row scanner) (value T, err error) {
	err = row.Scan(&value)
	return value, err
}
