package ledger

import (
	"context"
	"database/sql"
	"fmt"
)

// session is a connection in a transaction.
type session interface {
	// send runs statements in order. After one fails, the transaction can only be ended.
	send(ctx context.Context, statements []*statement) error
	// commit runs the last statements and commits.
	commit(ctx context.Context, last []*statement) error
	// end rolls back unless the transaction was committed, and releases the connection.
	end()
}

// statement is one of a transaction.
type statement struct {
	doing   string // the prefix of its error, or empty
	text    string
	args    []any
	row     func(scanner) error // reads one row; nil for a statement without rows
	changed int64               // the number of rows that it changed
}

func (s *statement) failed(err error) error {
	if s.doing == "" {
		return err
	}
	return fmt.Errorf("%s: %w", s.doing, err)
}

// transaction is one attempt of a change. It sends statements as late as possible, so
// that many of them need one round trip to the server.
type transaction struct {
	session
	dialect dialect
	// waiting are sent with the next query or with the commit.
	waiting      []*statement
	reported     bool // it changes a receipt or a sum
	asynchronous bool // its commit does not wait for the disk
}

// queue queues a statement whose result is not needed. It is sent with the next flush or
// with the commit, which returns its error. doing is the prefix of the error.
func (tx *transaction) queue(doing, text string, args ...any) *statement {
	one := &statement{doing: doing, text: text, args: args}
	tx.waiting = append(tx.waiting, one)
	return one
}

// flush sends all queued statements.
func (tx *transaction) flush(ctx context.Context) error {
	waiting := tx.waiting
	tx.waiting = nil
	if len(waiting) == 0 {
		return nil
	}
	return tx.send(ctx, waiting)
}

// exec runs a statement and returns the number of rows that it changed.
func (tx *transaction) exec(ctx context.Context, doing, text string, args ...any) (changed int64, err error) {
	one := tx.queue(doing, text, args...)
	err = tx.flush(ctx)
	return one.changed, err
}

// rows are the result of a queued query, filled by the next flush.
type rows[T any] struct{ all []T }

// queueQuery queues a query.
func queueQuery[T any](tx *transaction, scan func(scanner) (T, error), text string, args ...any) *rows[T] {
	found := new(rows[T])
	tx.waiting = append(tx.waiting, &statement{text: text, args: args, row: func(row scanner) error {
		one, err := scan(row)
		found.all = append(found.all, one)
		return err
	}})
	return found
}

// one returns the row of a query with at most one.
func (r *rows[T]) one() (row T, found bool) {
	row, found, _ = first(r.all, nil)
	return row, found
}

// queryTx runs a query in a transaction and reads all its rows.
func queryTx[T any](ctx context.Context, tx *transaction, scan func(scanner) (T, error), text string, args ...any) ([]T, error) {
	found := queueQuery(tx, scan, text, args...)
	err := tx.flush(ctx)
	return found.all, err
}

// sqlSession is a transaction of database/sql.
type sqlSession struct {
	tx       *sql.Tx
	prepared *prepared
}

func (s sqlSession) send(ctx context.Context, statements []*statement) error {
	for _, one := range statements {
		if err := s.run(ctx, one); err != nil {
			return one.failed(err)
		}
	}
	return nil
}

func (s sqlSession) run(ctx context.Context, one *statement) error {
	exec, query := s.tx.ExecContext, s.tx.QueryContext
	if known := s.prepared.get(one.text); known != nil {
		prepared := s.tx.StmtContext(ctx, known)
		exec = func(ctx context.Context, _ string, args ...any) (sql.Result, error) {
			return prepared.ExecContext(ctx, args...)
		}
		query = func(ctx context.Context, _ string, args ...any) (*sql.Rows, error) {
			return prepared.QueryContext(ctx, args...)
		}
	}
	if one.row == nil {
		done, err := exec(ctx, one.text, one.args...)
		if err == nil {
			one.changed, err = done.RowsAffected()
		}
		return err
	}
	rows, err := query(ctx, one.text, one.args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := one.row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (s sqlSession) commit(ctx context.Context, last []*statement) error {
	if err := s.send(ctx, last); err != nil {
		return err
	}
	return s.tx.Commit()
}

func (s sqlSession) end() { _ = s.tx.Rollback() } // after a commit this does nothing
