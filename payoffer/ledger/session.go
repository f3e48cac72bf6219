package ledger

import (
	"context"
	"database/sql"
	"fmt"
)

// session is a connection that is in a transaction, or will be with its first
// statement.
type session interface {
	// send runs statements one after the other. Where one fails, those behind it
	// do not run, and the transaction can only be ended.
	send(ctx context.Context, statements []*statement) error
	// commit runs the last statements and commits, all or nothing.
	commit(ctx context.Context, last []*statement) error
	// end undoes what was not committed, and gives the connection back.
	end()
}

// statement is one of a transaction.
type statement struct {
	// doing begins its error; "" for none.
	doing, text string
	args        []any
	// row reads one row of its answer; nil for a statement that gives none.
	row func(scanner) error
	// changed is, once it ran, the number of rows that it changed.
	changed int64
}

// failed is the error of the statement.
func (s *statement) failed(err error) error {
	if s.doing == "" {
		return err
	}
	return fmt.Errorf("%s: %w", s.doing, err)
}

// transaction is one attempt at a durable change. What it asks for together, or
// needs no answer to, costs one way to the server and back, or none of its own.
type transaction struct {
	session
	dialect dialect
	// waiting go along with the next statements whose answer is needed, or with
	// the commit.
	waiting []*statement
	// reported says that it touches a receipt or a sum, and hurried that its commit waits
	// for no disk.
	reported, hurried bool
}

// put has a statement run, whose answer nobody needs, before whatever comes
// after it. What fails in it is an error of that, or of the commit. doing begins it.
func (tx *transaction) put(doing, text string, args ...any) *statement {
	one := &statement{doing: doing, text: text, args: args}
	tx.waiting = append(tx.waiting, one)
	return one
}

// flush runs all that waits.
func (tx *transaction) flush(ctx context.Context) error {
	waiting := tx.waiting
	tx.waiting = nil
	if len(waiting) == 0 {
		return nil
	}
	return tx.send(ctx, waiting)
}

// exec runs a statement and returns the number of rows that it changed. doing
// begins its error.
func (tx *transaction) exec(ctx context.Context, doing, text string, args ...any) (changed int64, err error) {
	one := tx.put(doing, text, args...)
	err = tx.flush(ctx)
	return one.changed, err
}

// rows are those of a query, once it was sent.
type rows[T any] struct{ all []T }

// queued has a query run with the next flush, which fills what it returns.
func queued[T any](tx *transaction, scan func(scanner) (T, error), text string, args ...any) *rows[T] {
	found := new(rows[T])
	tx.waiting = append(tx.waiting, &statement{text: text, args: args, row: func(row scanner) error {
		one, err := scan(row)
		found.all = append(found.all, one)
		return err
	}})
	return found
}

// only is the row of a query that gives at most one.
func (r *rows[T]) only() (row T, found bool) {
	row, found, _ = first(r.all, nil)
	return row, found
}

// ask runs a query of a transaction and reads all its rows.
func ask[T any](ctx context.Context, tx *transaction, scan func(scanner) (T, error), text string, args ...any) ([]T, error) {
	found := queued(tx, scan, text, args...)
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
	statement := s.prepared.get(one.text)
	if one.row == nil {
		done, err := s.exec(ctx, statement, one)
		if err == nil {
			one.changed, err = done.RowsAffected()
		}
		return err
	}
	var rows *sql.Rows
	var err error
	if statement != nil {
		rows, err = s.tx.StmtContext(ctx, statement).QueryContext(ctx, one.args...)
	} else {
		rows, err = s.tx.QueryContext(ctx, one.text, one.args...)
	}
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

func (s sqlSession) exec(ctx context.Context, prepared *sql.Stmt, one *statement) (sql.Result, error) {
	if prepared != nil {
		return s.tx.StmtContext(ctx, prepared).ExecContext(ctx, one.args...)
	}
	return s.tx.ExecContext(ctx, one.text, one.args...)
}

func (s sqlSession) commit(ctx context.Context, last []*statement) error {
	if err := s.send(ctx, last); err != nil {
		return err
	}
	return s.tx.Commit()
}

// end: after a commit a rollback does nothing; its error would hide the first one.
func (s sqlSession) end() { _ = s.tx.Rollback() }
