package ledger

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// A power cut or a failing disk damages pages that no payment reads for months.
func TestADamagedFileIsFoundAtTheStartAndEndsAcknowledgements(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, _ := sqliteTests.ledgerAt(t, path)
	var log strings.Builder
	l.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	for n := range 50 {
		mustRecord(t, l, chainObservation("0x"+strings.Repeat("a", n+1), StatusConfirmed))
	}
	require.NoError(t, l.Examine(t.Context()))
	must(l.db.write.Exec("PRAGMA wal_checkpoint(TRUNCATE)"))(t)
	damage(t, l, path)
	require.NoError(t, l.StoreQuote(t.Context(), testOffer, 2, 4200, 10_000_000))

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		NewDuePoller(l).Run(ctx)
	}()
	require.Eventually(t, func() bool {
		return errors.Is(l.StoreQuote(t.Context(), testOffer, 3, 4200, 10_000_000), ErrDamaged)
	}, 30*time.Second, time.Millisecond)
	cancel()
	<-ended
	require.ErrorIs(t, l.CheckWritable(t.Context()), ErrDamaged)
	require.Equal(t, 1, strings.Count(log.String(), "restore the newest backup"), log.String())
	require.ErrorIs(t, l.Close(), ErrDamaged)
}

// damage overwrites the index of the transitions.
func damage(t *testing.T, l *Ledger, path string) {
	t.Helper()
	var page, size int64
	require.NoError(t, l.db.read.QueryRow("SELECT rootpage FROM sqlite_schema WHERE name = 'transitions_offer'").Scan(&page))
	require.NoError(t, l.db.read.QueryRow("PRAGMA page_size").Scan(&size))
	file := must(os.OpenFile(path, os.O_RDWR, 0))(t)
	defer file.Close()
	_, err := io.Copy(io.NewOffsetWriter(file, (page-1)*size+size/2), strings.NewReader(strings.Repeat("x", int(size/2))))
	require.NoError(t, err)
}

func TestErrorsOfPostgresSayWhatTheOperatorCanDo(t *testing.T) {
	for code, remedy := range map[string]string{
		"53100": "free space on the disk of the database server", "42501": "GRANT", "25006": "the database is read-only", "XX001": "restore",
	} {
		require.ErrorContains(t, new(postgresDialect).conceal(&pgconn.PgError{Code: code}), "; "+remedy)
	}
}
