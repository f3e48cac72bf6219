package ledger

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// compareEvery is the minimum time between two comparisons of the path with the open file.
const compareEvery = time.Second

// ErrLost is returned by every change after the file of an open ledger was deleted, moved
// or replaced, until the ledger is opened again: the -wal file with the newest payments
// may be gone even if the file is put back.
var ErrLost = errors.New("was deleted or replaced while the ledger was open")

// ErrDamaged is returned for a damaged file. After Examine found the damage, every change returns it until the ledger
// is opened again.
var ErrDamaged = errors.New("the file is damaged; restore an intact backup (docs/guides/backup)")

// examineEvery is the interval of Examine in a server. The first one is at the start, which may follow a power cut.
const examineEvery = 24 * time.Hour

// Examine reads the whole file of an open SQLite ledger, by a connection of its own, because it may take minutes.
func (l *Ledger) Examine(ctx context.Context) error {
	l.mu.RLock()
	db := l.db
	l.mu.RUnlock()
	if db == nil || !l.dialect.oneWriter() {
		return nil
	}
	file, err := l.dialect.peek()
	if err != nil {
		return err
	}
	defer file.Close()
	verdict, _, err := atMostOne(query(ctx, file, scanValue[string], "PRAGMA quick_check(1)"))
	if err = l.dialect.conceal(err); err == nil && verdict != "ok" {
		err = fmt.Errorf("%s: %w", verdict, ErrDamaged)
	}
	if errors.Is(err, ErrDamaged) {
		db.present.mu.Lock()
		defer db.present.mu.Unlock()
		db.present.lost = cmp.Or(db.present.lost, err)
		l.logger().Error("ledger file is damaged; no payment is accepted", "error", err.Error(),
			"hint", "stop the server, keep the file and its -wal, restore the newest backup (docs/guides/backup) and start it again")
	}
	return err
}

// presence remembers whether the file of an open ledger is still at its path, and intact.
type presence struct {
	mu       sync.Mutex
	compared time.Time
	lost     error
}

// Lost returns an error that wraps ErrLost if the file of the open ledger was deleted, moved or replaced.
func (l *Ledger) Lost() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.db == nil {
		return nil
	}
	return l.requirePresent(l.db, compareEvery)
}

// requirePresent returns an error that wraps ErrLost if the file at the path is not the
// open one. It compares them at most once within the given time. The first caller that finds a
// difference saves the open database in a new file; others get ErrLost meanwhile.
func (l *Ledger) requirePresent(db *database, within time.Duration) error {
	p := &db.present
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost != nil || time.Since(p.compared) < within {
		return p.lost
	}
	p.compared, p.lost = time.Now(), l.dialect.moved()
	if p.lost == nil {
		return nil
	}
	lost := p.lost
	p.mu.Unlock()
	rescued := l.dialect.name() + ".rescued-" + time.Now().UTC().Format("20060102T150405Z")
	if err := rescue(db, rescued); err != nil {
		lost = fmt.Errorf("%w; its payments could not be saved (%w); stop the server and restore a backup", lost, err)
	} else {
		lost = fmt.Errorf("%w; its payments were saved in %s", lost, rescued)
	}
	l.logger().Error("ledger file was deleted or replaced", "error", lost.Error(),
		"hint", "stop the server, restore the saved file or a backup (docs/guides/backup) and start it again")
	p.mu.Lock()
	p.lost = lost
	return lost
}

// rescue writes the open database into a new file, which appears complete or not at all.
func rescue(db *database, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	unfinished := path + ".part"
	if err := createFile(unfinished); err != nil { // SQLite would give it another mode
		return err
	}
	// The writer's connection has the file and its -wal open.
	_, err := db.write.ExecContext(context.Background(), "VACUUM INTO $1", unfinished)
	if err == nil {
		err = publish(unfinished, path)
	}
	if err != nil {
		_ = os.Remove(unfinished)
	}
	return err
}

// moved compares the file at the path with the locked one. An unreadable folder is no
// difference.
func (s *sqliteDialect) moved() error {
	if s.locked == nil { // a file that was not locked
		return nil
	}
	info, err := os.Stat(s.path)
	if err == nil && !os.SameFile(s.locked, info) || errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s %w", s.path, ErrLost)
	}
	return nil
}

// presentConnector opens connections only to the locked file.
type presentConnector struct {
	driver.Connector
	dialect *sqliteDialect
}

func (p presentConnector) Connect(ctx context.Context) (driver.Conn, error) {
	if err := p.dialect.moved(); err != nil {
		return nil, err
	}
	return p.Connector.Connect(ctx)
}
