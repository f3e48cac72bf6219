package ledger

import (
	"context"
	"database/sql"
	"sync"
)

// prepared keeps the statements of one pool: SQLite takes longer to read a
// statement than to run it. The texts are constants, or differ in a small number
// of rows, so they are few. A nil *prepared keeps nothing, which is for a driver
// that does so itself.
type prepared struct {
	db *sql.DB
	mu sync.Mutex
	// statements are by text; one that is nil is still to be prepared.
	statements map[string]*sql.Stmt
}

func newPrepared(db *sql.DB) *prepared {
	return &prepared{db: db, statements: make(map[string]*sql.Stmt)}
}

// get returns the prepared statement, or nil for one that is to be sent as
// text this time.
func (p *prepared) get(text string) *sql.Stmt {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	statement, known := p.statements[text]
	if !known {
		p.statements[text] = nil
	}
	return statement
}

// prepare prepares what was asked for and not there. It waits for a connection
// of the pool, so its caller must hold none, and nothing is locked meanwhile:
// who holds the connection may be waiting for get. What fails is sent as text
// again.
func (p *prepared) prepare(ctx context.Context) {
	for _, text := range p.wanted() {
		statement, err := p.db.PrepareContext(ctx, text)
		if err != nil {
			return
		}
		p.put(text, statement)
	}
}

func (p *prepared) wanted() []string {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var texts []string
	for text, statement := range p.statements {
		if statement == nil {
			texts = append(texts, text)
		}
	}
	return texts
}

// put keeps a statement, unless somebody else was quicker.
func (p *prepared) put(text string, statement *sql.Stmt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.statements[text] != nil {
		_ = statement.Close() // nobody has used it
		return
	}
	p.statements[text] = statement
}

// ExecContext runs a statement in the transaction.
func (tx *transaction) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	if statement := tx.prepared.get(text); statement != nil {
		return tx.Tx.StmtContext(ctx, statement).ExecContext(ctx, args...)
	}
	return tx.Tx.ExecContext(ctx, text, args...)
}

// QueryRowContext runs a query of at most one row in the transaction.
func (tx *transaction) QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row {
	if statement := tx.prepared.get(text); statement != nil {
		return tx.Tx.StmtContext(ctx, statement).QueryRowContext(ctx, args...)
	}
	return tx.Tx.QueryRowContext(ctx, text, args...)
}

// QueryContext runs a query in the transaction.
func (tx *transaction) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	if statement := tx.prepared.get(text); statement != nil {
		return tx.Tx.StmtContext(ctx, statement).QueryContext(ctx, args...)
	}
	return tx.Tx.QueryContext(ctx, text, args...)
}
