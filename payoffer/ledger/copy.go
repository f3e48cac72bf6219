package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Copy copies everything that from holds at one moment into to, which must hold
// nothing, and returns the number of rows by table. Both are open. Numbers and
// tags stay as they are, so that every reader of the history finds its place;
// leases end. All of it is committed at once, after Check agreed; memory does not
// grow with the rows. A newer ledger, of which some would be left out, is refused.
func Copy(ctx context.Context, to, from *Ledger) (rows map[string]int64, err error) {
	from.order(ctx)
	err = from.snapshot(ctx, func(source *sql.Tx) error {
		if err := requireCurrent(ctx, from.dialect, source); err != nil {
			return fmt.Errorf("reading the ledger %s: %w", from.dialect.name(), err)
		}
		rows, err = to.fill(ctx, source)
		return err
	})
	return rows, err
}

// movedVersion is the version of the schema of a ledger that was moved, which no
// program opens. An instance that was cut off from the database meanwhile is refused
// when it connects again.
const movedVersion = math.MaxInt32

// Retire ends the ledger, which was copied into another one: no program opens it,
// or changes anything in it, from now on.
func (l *Ledger) Retire(ctx context.Context) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.db == nil {
		return ErrNotOpen
	}
	tx, err := l.db.write.BeginTx(ctx, nil)
	if err != nil {
		return l.dialect.conceal(err)
	}
	defer func() { _ = tx.Rollback() }()        // after a commit this does nothing
	for _, text := range l.dialect.ordering() { // nobody does any more
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return l.dialect.conceal(err)
		}
	}
	if err := l.dialect.setVersion(ctx, tx, movedVersion); err != nil {
		return l.dialect.conceal(err)
	}
	return l.dialect.conceal(tx.Commit())
}

// snapshot reads the ledger as it is at one moment. One that is not open is read
// beside whoever has it open.
func (l *Ledger) snapshot(ctx context.Context, look func(*sql.Tx) error) (err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	defer func() { err = l.dialect.conceal(err) }()
	db := l.db
	if db == nil {
		read, err := l.dialect.peek()
		if err != nil {
			return fmt.Errorf("reading the ledger %s: %w", l.dialect.name(), err)
		}
		defer read.Close()
		db = &database{read: read}
	}
	tx, err := db.read.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return fmt.Errorf("reading the ledger %s: %w", l.dialect.name(), err)
	}
	defer func() { _ = tx.Rollback() }()
	return look(tx)
}

// fill stores what source holds in the ledger.
func (l *Ledger) fill(ctx context.Context, source *sql.Tx) (rows map[string]int64, err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.db == nil {
		return nil, ErrNotOpen
	}
	defer func() { err = l.dialect.conceal(err) }()
	tables, err := schemaTables(ctx)
	if err != nil {
		return nil, err
	}
	tx, err := l.db.write.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	booleans, err := l.dialect.booleans(ctx, tx)
	if err != nil {
		return nil, err
	}
	rows = make(map[string]int64, len(tables))
	for _, t := range tables {
		if err := t.requireEmpty(ctx, tx, l.dialect); err != nil {
			return nil, err
		}
		if rows[t.name], err = t.copy(ctx, tx, source, l.dialect.overriding(), booleans); err != nil {
			return nil, fmt.Errorf("copying %s: %w", t.name, err)
		}
	}
	if err := l.dialect.advanceNumbers(ctx, tx); err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, endLeases); err != nil {
		return nil, err
	}
	for _, t := range tables {
		stored, _, err := first(query(ctx, tx, scanValue[int64], `SELECT count(*) FROM `+t.name))
		if err != nil {
			return nil, err
		}
		if stored != rows[t.name] {
			return nil, fmt.Errorf("%d of %d rows of %s were stored", stored, rows[t.name], t.name)
		}
	}
	for _, text := range l.dialect.ordering() {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return nil, err
		}
	}
	if err := check(ctx, tx); err != nil {
		return nil, err
	}
	return rows, tx.Commit()
}

// table is one of a ledger.
type table struct {
	name     string
	columns  []string
	refersTo []string
}

// schemaTables reads the tables of the newest schema from the schema itself, in
// an order in which each comes after those that it refers to. The tables of both
// kinds of database are the same.
func schemaTables(ctx context.Context) (tables []table, err error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // each has a memory of its own
	if err := migrate(ctx, new(sqliteDialect), db); err != nil {
		return nil, err
	}
	all, err := query(ctx, db, scanTable, `
		SELECT name, (SELECT group_concat(name, ' ') FROM pragma_table_info(s.name)),
			coalesce((SELECT group_concat("table", ' ') FROM pragma_foreign_key_list(s.name)), '')
		FROM sqlite_schema s WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~' ORDER BY name`)
	if err != nil {
		return nil, err
	}
	var place func(t table)
	placed := map[string]bool{}
	place = func(t table) {
		if placed[t.name] {
			return
		}
		placed[t.name] = true
		for _, other := range all {
			if slices.Contains(t.refersTo, other.name) {
				place(other)
			}
		}
		tables = append(tables, t)
	}
	for _, t := range all {
		place(t)
	}
	return tables, nil
}

func scanTable(row scanner) (t table, err error) {
	var columns, refersTo string
	err = row.Scan(&t.name, &columns, &refersTo)
	t.columns, t.refersTo = strings.Fields(columns), strings.Fields(refersTo)
	return t, err
}

func (t table) requireEmpty(ctx context.Context, tx *sql.Tx, d dialect) error {
	var filled bool
	if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM `+t.name+`)`).Scan(&filled); err != nil {
		return err
	}
	if filled {
		return fmt.Errorf("the ledger %s holds %s already; nothing is ever copied over what is there, name an empty one", d.name(), t.name)
	}
	return nil
}

// copy copies the rows and counts them.
func (t table) copy(ctx context.Context, to, from *sql.Tx, overriding string, booleans map[string]bool) (count int64, err error) {
	rows, err := from.QueryContext(ctx, `SELECT `+strings.Join(t.columns, ", ")+` FROM `+t.name)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	b := batch{to: to, into: `INSERT INTO ` + t.name + ` (` + strings.Join(t.columns, ", ") + `)` + overriding + ` VALUES `}
	for rows.Next() {
		row, into := make([]any, len(t.columns)), make([]any, len(t.columns))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return 0, err
		}
		for i, name := range t.columns {
			if number, ok := row[i].(int64); ok && booleans[t.name+"."+name] {
				row[i] = number != 0
			}
		}
		count++
		if err := b.add(ctx, row); err != nil {
			return 0, err
		}
	}
	return count, errors.Join(rows.Err(), b.store(ctx))
}

// batch stores rows together, which saves the way to the server and back.
type batch struct {
	to   *sql.Tx
	into string
	rows totalRows
	full *sql.Stmt // for as many rows as a batch has
}

// batchValues is when a batch is full. The driver of SQLite looks for each value
// among all of them, so that more would take longer.
const batchValues = 400

func (b *batch) add(ctx context.Context, row []any) (err error) {
	b.rows.add(row)
	if len(b.rows.values) < batchValues {
		return nil
	}
	if b.full == nil {
		if b.full, err = b.to.PrepareContext(ctx, b.into+strings.Join(b.rows.rows, ", ")); err != nil {
			return err
		}
	}
	_, err = b.full.ExecContext(ctx, b.rows.values...)
	b.rows = totalRows{}
	return err
}

// store stores the rows of the last batch.
func (b *batch) store(ctx context.Context) (err error) {
	if b.full != nil {
		err = b.full.Close()
	}
	if len(b.rows.rows) > 0 {
		_, last := b.to.ExecContext(ctx, b.into+strings.Join(b.rows.rows, ", "), b.rows.values...)
		err = errors.Join(err, last)
	}
	return err
}
