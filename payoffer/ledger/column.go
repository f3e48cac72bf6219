package ledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// column is a column of a table and the address of its value in a row.
type column struct {
	name    string
	address any
}

// table is a table whose rows are values of T.
type table[T any] struct {
	name    string
	columns func(row *T) []column
}

// names lists the columns for a SELECT or an INSERT.
func (t table[T]) names() string {
	columns := t.columns(new(T))
	names := make([]string, len(columns))
	for n, c := range columns {
		names[n] = c.name
	}
	return strings.Join(names, ", ")
}

// addresses returns the destinations of a scan, which are also the arguments of an INSERT.
func (t table[T]) addresses(row *T) []any {
	columns := t.columns(row)
	all := make([]any, len(columns))
	for n, c := range columns {
		all[n] = c.address
	}
	return all
}

func (t table[T]) scan(from scanner) (row T, err error) {
	err = from.Scan(t.addresses(&row)...)
	return row, err
}

func (t table[T]) selecting(end string) string {
	return `SELECT ` + t.names() + ` FROM ` + t.name + ` WHERE ` + end
}

// query reads the rows that a condition selects. end begins with it.
func (t table[T]) query(ctx context.Context, from queryer, end string, args ...any) ([]T, error) {
	return query(ctx, from, t.scan, t.selecting(end), args...)
}

// read is query on a connection that only reads.
func (t table[T]) read(ctx context.Context, l *Ledger, end string, args ...any) ([]T, error) {
	return collect(ctx, l, t.scan, t.selecting(end), args...)
}

// insert inserts rows. end follows them, such as ON CONFLICT.
func (t table[T]) insert(ctx context.Context, tx *sql.Tx, end string, rows ...T) (inserted int64, err error) {
	values := make([][]any, len(rows))
	for n := range rows {
		values[n] = t.addresses(&rows[n])
	}
	return insertRows(ctx, tx, t.name, t.names(), values, end)
}

// upsert inserts rows, or replaces those with the same key, which is a list of columns.
func (t table[T]) upsert(ctx context.Context, tx *sql.Tx, key string, rows ...T) error {
	var set []string
	for _, c := range t.columns(new(T)) {
		if !slices.Contains(strings.Split(key, ", "), c.name) {
			set = append(set, c.name+" = excluded."+c.name)
		}
	}
	_, err := t.insert(ctx, tx, ` ON CONFLICT (`+key+`) DO UPDATE SET `+strings.Join(set, ", "), rows...)
	return err
}

// insertNew inserts a row and sets its ID, which is the first column.
func (t table[T]) insertNew(ctx context.Context, tx *sql.Tx, row *T) error {
	_, names, _ := strings.Cut(t.names(), ", ")
	values := t.addresses(row)
	text := `INSERT INTO ` + t.name + ` (` + names + `) VALUES ` + placeholders(1, len(values)-1) + ` RETURNING id`
	err := tx.QueryRowContext(ctx, text, values[1:]...).Scan(values[0])
	if err != nil {
		return fmt.Errorf("inserting into %s: %w", t.name, err)
	}
	return nil
}

// update stores the columns of a row that have changed.
func (t table[T]) update(ctx context.Context, tx *sql.Tx, id int64, before, after T) error {
	var set []string
	args, old := []any{id}, t.addresses(&before)
	for n, c := range t.columns(&after) {
		if !reflect.DeepEqual(old[n], c.address) {
			args = append(args, c.address)
			set = append(set, fmt.Sprintf("%s = $%d", c.name, len(args)))
		}
	}
	if len(set) == 0 {
		return nil
	}
	_, err := execute(ctx, tx, "updating "+t.name, "UPDATE "+t.name+" SET "+strings.Join(set, ", ")+" WHERE id = $1", args...)
	return err
}

// maxValues is the most values in one statement. SQLite takes 32,766, and its driver searches all
// of them for each.
const maxValues = 4_000

// insertRows inserts rows with as many values each, in one statement unless they are very many.
func insertRows(ctx context.Context, tx *sql.Tx, into, columns string, rows [][]any, end string) (inserted int64, err error) {
	if len(rows) == 0 {
		return 0, nil
	}
	for part := range slices.Chunk(rows, maxValues/len(rows[0])) {
		var texts []string
		var values []any
		for _, row := range part {
			texts = append(texts, placeholders(len(values)+1, len(row)))
			values = append(values, row...)
		}
		text := `INSERT INTO ` + into + ` (` + columns + `) VALUES ` + strings.Join(texts, ", ") + end
		n, err := execute(ctx, tx, "storing "+into, text, values...)
		if err != nil {
			return 0, err
		}
		inserted += n
	}
	return inserted, nil
}

// placeholders returns one row of n values from $first on.
func placeholders(first, n int) string {
	row := make([]string, n)
	for i := range row {
		row[i] = "$" + strconv.Itoa(first+i)
	}
	return "(" + strings.Join(row, ", ") + ")"
}

// evidenceColumn stores evidence as text, empty if there is none.
type evidenceColumn struct{ *json.RawMessage }

func (e evidenceColumn) Value() (driver.Value, error) { return string(*e.RawMessage), nil }

// Scan implements sql.Scanner.
func (e evidenceColumn) Scan(stored any) error {
	if text := stored.(string); text != "" {
		*e.RawMessage = json.RawMessage(text)
	}
	return nil
}

// statedColumn stores a stated value as "cents seconds", empty if there is none.
type statedColumn struct{ value **StatedValue }

func (s statedColumn) Value() (driver.Value, error) {
	if *s.value == nil {
		return "", nil
	}
	return fmt.Sprint((*s.value).USDCents, " ", (*s.value).At), nil
}

// Scan implements sql.Scanner.
func (s statedColumn) Scan(stored any) error {
	if stored == "" {
		return nil
	}
	*s.value = new(StatedValue)
	_, err := fmt.Sscan(stored.(string), &(*s.value).USDCents, &(*s.value).At)
	return err
}
