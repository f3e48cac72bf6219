package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"hash/fnv"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// postgresSession sends the statements of a transaction in batches, each in one round
// trip: BEGIN with the first, COMMIT with the last. A single batch is a transaction without
// either (PostgreSQL, "Pipelining").
type postgresSession struct {
	conn  *sql.Conn
	begun bool
}

func (d *postgresDialect) session(ctx context.Context, db *database) (session, error) {
	conn, err := db.write.Conn(ctx)
	return &postgresSession{conn: conn}, err
}

func (d *postgresDialect) oneWriter() bool { return false }

// endTimeout is the maximum time of a rollback. Then the connection is closed, and the
// server rolls back.
const endTimeout = 5 * time.Second

func (s *postgresSession) send(ctx context.Context, statements []*statement) error {
	return s.batch(ctx, statements, false)
}

// commit sends COMMIT with the last statements: the server skips it if one of them fails.
func (s *postgresSession) commit(ctx context.Context, last []*statement) error {
	if !s.begun && len(last) == 0 {
		return nil
	}
	return s.batch(ctx, last, true)
}

func (s *postgresSession) batch(ctx context.Context, statements []*statement, last bool) error {
	return s.raw(func(conn *pgx.Conn) error {
		if conn.IsClosed() {
			return errors.New("the connection to PostgreSQL was lost; check that the database runs")
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
		return cmp.Or(err, results.Close()) // they are the same error if both fail
	})
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
			err = errors.New("the transaction was rolled back; try again")
		}
		return err
	}
	return nil
}

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

// lockBuckets is the number of locks. Two names may share one.
const lockBuckets = 1024

// lock takes all locks with one statement, in the same order everywhere.
func (d *postgresDialect) lock(tx *transaction, names ...string) {
	var buckets []int32
	for _, name := range names {
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(name)) // never fails
		buckets = append(buckets, int32(hash.Sum32()%lockBuckets))
	}
	slices.Sort(buckets)
	tx.queue("waiting for other transactions on the same payments", `
		SELECT pg_advisory_xact_lock(`+nameSpace+`, bucket) FROM unnest($1::int[]) WITH ORDINALITY AS sorted (bucket, n)`,
		slices.Compact(buckets))
}

func (d *postgresDialect) commitAsync(tx *transaction) {
	if !tx.asynchronous {
		tx.asynchronous = true
		tx.queue("", `SELECT set_config('synchronous_commit', 'off', true)`)
	}
}

// abortUnless divides by zero if the condition is false: SQL has no statement that only fails. transient retries it.
func (d *postgresDialect) abortUnless(tx *transaction, condition string, args ...any) {
	tx.queue("checking the condition again", `SELECT 1 / (`+condition+`)::int`, args...)
}
