package ledger

import (
	"context"
	"database/sql"
	"errors"
	"hash/fnv"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// postgresSession sends the statements of a transaction in batches: BEGIN goes with
// the first, COMMIT with the last, and each batch is one way to the server and back. What
// is one batch in all is a transaction without either (PostgreSQL, "Pipelining").
type postgresSession struct {
	conn  *sql.Conn
	begun bool
}

func (d *postgresDialect) session(ctx context.Context, db *database) (session, error) {
	conn, err := db.write.Conn(ctx)
	return &postgresSession{conn: conn}, err
}

func (d *postgresDialect) oneWriter() bool { return false }

// endTimeout bounds how long it may take to undo a transaction. A connection that
// does not answer by then is closed, by which the server undoes it.
const endTimeout = 5 * time.Second

func (s *postgresSession) send(ctx context.Context, statements []*statement) error {
	return s.batch(ctx, statements, false)
}

// commit: the server runs nothing behind a statement that failed, so that COMMIT may
// stand behind all of them.
func (s *postgresSession) commit(ctx context.Context, last []*statement) error {
	if !s.begun && len(last) == 0 {
		return nil
	}
	return s.batch(ctx, last, true)
}

func (s *postgresSession) batch(ctx context.Context, statements []*statement, last bool) error {
	return s.raw(func(conn *pgx.Conn) error {
		if conn.IsClosed() {
			return errors.New("the connection to PostgreSQL was lost")
		}
		var batch pgx.Batch
		first := !s.begun
		s.begun = true
		if first && !last {
			batch.Queue(`BEGIN`)
		}
		for _, one := range statements {
			batch.Queue(one.text, one.args...)
		}
		if last && !first {
			batch.Queue(`COMMIT`)
		}
		results := conn.SendBatch(ctx, &batch)
		err := s.read(results, first, statements, last)
		return errors.Join(err, closing(err, results.Close()))
	})
}

// closing is the error of closing the results where reading them gave none: it is the
// same one otherwise.
func closing(read, closed error) error {
	if read != nil {
		return nil
	}
	return closed
}

func (s *postgresSession) read(results pgx.BatchResults, first bool, statements []*statement, last bool) error {
	if first && !last {
		if _, err := results.Exec(); err != nil {
			return err
		}
	}
	for _, one := range statements {
		if err := one.read(results); err != nil {
			return one.failed(err)
		}
	}
	if last && !first {
		tag, err := results.Exec()
		if err == nil && tag.String() != "COMMIT" {
			err = errors.New("the transaction was undone")
		}
		return err
	}
	return nil
}

// read reads the answer to the statement.
func (s *statement) read(results pgx.BatchResults) error {
	if s.row == nil {
		tag, err := results.Exec()
		s.changed = tag.RowsAffected()
		return err
	}
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := s.row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// end undoes what was not committed.
func (s *postgresSession) end() {
	_ = s.raw(func(conn *pgx.Conn) error {
		if conn.IsClosed() || conn.PgConn().TxStatus() == 'I' {
			return nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
		defer cancel()
		_, err := conn.Exec(ctx, `ROLLBACK`)
		if err != nil {
			err = errors.Join(err, conn.Close(ctx))
		}
		return err
	})
	_ = s.conn.Close()
}

func (s *postgresSession) raw(use func(*pgx.Conn) error) error {
	return s.conn.Raw(func(driver any) error { return use(driver.(*stdlib.Conn).Conn()) })
}

// lockBuckets bounds the locks that one transaction holds by name. Two names share
// one at times, and wait for each other then.
const lockBuckets = 1024

// lock takes all locks with one statement, in an order that is the same for
// everybody.
func (d *postgresDialect) lock(tx *transaction, names ...string) {
	var buckets []int32
	for _, name := range names {
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(name)) // never fails
		buckets = append(buckets, int32(hash.Sum32()%lockBuckets))
	}
	slices.Sort(buckets)
	tx.put("waiting for others who change the same", `
		SELECT pg_advisory_xact_lock(`+nameSpace+`, bucket) FROM unnest($1::int[]) WITH ORDINALITY AS sorted (bucket, n)`,
		slices.Compact(buckets))
}

func (d *postgresDialect) hurry(tx *transaction) {
	if !tx.hurried {
		tx.hurried = true
		tx.put("", `SELECT set_config('synchronous_commit', 'off', true)`)
	}
}

// require: see transient.
func (d *postgresDialect) require(tx *transaction, condition string, args ...any) {
	tx.put("looking again", `SELECT 1 / (`+condition+`)::int`, args...)
}
