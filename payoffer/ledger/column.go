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

// columnNames lists the columns for a SELECT or an INSERT.
func columnNames(columns []column) string {
	names := make([]string, len(columns))
	for n, c := range columns {
		names[n] = c.name
	}
	return strings.Join(names, ", ")
}

// addresses returns the destinations of a scan, which are also the arguments of an INSERT.
func addresses(columns []column) []any {
	all := make([]any, len(columns))
	for n, c := range columns {
		all[n] = c.address
	}
	return all
}

// insertRow inserts a row and sets its ID, which is the first of the columns.
func insertRow(ctx context.Context, tx *sql.Tx, table string, columns []column) error {
	id, columns := columns[0].address, columns[1:]
	err := tx.QueryRowContext(ctx, `INSERT INTO `+table+` (`+columnNames(columns)+`) VALUES `+placeholders(1, len(columns))+` RETURNING id`,
		addresses(columns)...).Scan(id)
	if err != nil {
		return fmt.Errorf("inserting into %s: %w", table, err)
	}
	return nil
}

// maxValues is the most values in one statement. SQLite takes 32,766, and its driver searches all
// of them for each.
const maxValues = 4_000

// rowValues are rows to insert, each with as many values.
type rowValues [][]any

func (r *rowValues) add(row ...any) { *r = append(*r, row) }

// insert inserts the rows, in one statement unless they are very many. end follows them, such as ON CONFLICT.
func (r rowValues) insert(ctx context.Context, tx *sql.Tx, into, end string) error {
	if len(r) == 0 {
		return nil
	}
	for part := range slices.Chunk(r, maxValues/len(r[0])) {
		var rows []string
		var values []any
		for _, row := range part {
			rows = append(rows, placeholders(len(values)+1, len(row)))
			values = append(values, row...)
		}
		if _, err := execute(ctx, tx, "storing "+into, `INSERT INTO `+into+` VALUES `+strings.Join(rows, ", ")+end, values...); err != nil {
			return err
		}
	}
	return nil
}

// placeholders returns one row of n values from $first on.
func placeholders(first, n int) string {
	row := make([]string, n)
	for i := range row {
		row[i] = "$" + strconv.Itoa(first+i)
	}
	return "(" + strings.Join(row, ", ") + ")"
}

// updateRow stores the columns of a row that have changed.
func updateRow(ctx context.Context, tx *sql.Tx, table string, id int64, before, after []column) error {
	var set []string
	args := []any{id}
	for n, c := range after {
		if !reflect.DeepEqual(before[n].address, c.address) {
			args = append(args, c.address)
			set = append(set, fmt.Sprintf("%s = $%d", c.name, len(args)))
		}
	}
	if len(set) == 0 {
		return nil
	}
	_, err := execute(ctx, tx, "updating "+table, "UPDATE "+table+" SET "+strings.Join(set, ", ")+" WHERE id = $1", args...)
	return err
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
