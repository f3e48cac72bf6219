package ledger

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

// A child of this test binary writes to the ledger that these name until it is
// killed, or plays the role of the first.
const (
	childDialect = "PAY_OFFER_LEDGER_TEST_DIALECT"
	childWhere   = "PAY_OFFER_LEDGER_TEST_WHERE"
)

func TestMain(m *testing.M) {
	if dialect := os.Getenv(childDialect); dialect != "" {
		where := os.Getenv(childWhere)
		run := func() error { return writeForever(dialect, where, os.Stdout) }
		if role, ok := roles[dialect]; ok {
			run = func() error { return role(where) }
		}
		if err := run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// writeForever pays again and again, and says each number after its commit.
func writeForever(dialect, where string, acknowledged io.Writer) error {
	l := NewSQLite(where, time.Now)
	if dialect == postgresTests.name {
		var err error
		if l, err = NewPostgres(where, time.Now); err != nil {
			return err
		}
	}
	if err := l.Open(context.Background()); err != nil {
		return err
	}
	receipts, err := l.Receipts(context.Background(), testOffer, 0, 1)
	if err != nil {
		return err
	}
	n := 1
	if len(receipts) > 0 {
		last, err := strconv.Atoi(receipts[0].Transaction)
		if err != nil {
			return err
		}
		n = last + 1
	}
	for ; ; n++ {
		if err := pay(l, n); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(acknowledged, n); err != nil {
			return err
		}
	}
}

// pay is a whole x402 payment: three commits.
func pay(l *Ledger, n int) error {
	ctx, tx := context.Background(), strconv.Itoa(n)
	intent := testIntent("0x"+tx, "0x01")
	// A crash may have left this one half way.
	if _, found, err := l.Intent(ctx, intent.IntentKey); err != nil || !found {
		if err != nil {
			return err
		}
		if err := l.InsertIntent(ctx, intent); err != nil {
			return err
		}
	}
	if err := l.SettleIntent(ctx, intent.IntentKey, tx, []byte(`{"success":true}`), EvidenceFacilitator); err != nil {
		return err
	}
	s := chainObservation(tx, StatusConfirmed)
	s.Intent = &intent.IntentKey
	_, err := l.Record(ctx, &Cursor{Offer: testOffer, Account: testAccount, Position: tx}, s)
	return err
}

// requireSound opens what a crash left and checks that it is whole, and that
// rows, intents and cursor of the payments 1 to n are there.
func requireSound(t *testing.T, d testDialect, where string, n int) {
	t.Helper()
	l, _ := d.ledgerAt(t, where)
	defer func() { require.NoError(t, l.Close()) }()
	if d.name == sqliteTests.name {
		var verdict string
		require.NoError(t, l.db.write.QueryRow("PRAGMA integrity_check").Scan(&verdict))
		require.Equal(t, "ok", verdict)
	}
	requireConsistent(t, l)

	receipts := must(l.Receipts(t.Context(), testOffer, 0, 1_000_000))(t)
	require.GreaterOrEqual(t, len(receipts), n, "a commit was lost")
	for i, r := range receipts {
		require.Equal(t, strconv.Itoa(len(receipts)-i), r.Transaction)
	}
	if len(receipts) == 0 {
		return
	}
	cursor, _ := find(l.Cursor(t.Context(), testOffer, testAccount))(t)
	require.Equal(t, receipts[0].Transaction, cursor.Position)
	unproven := must(l.TakeDueClaims(t.Context(), testOffer, testAccount, 10))(t)
	require.LessOrEqual(t, len(unproven), 1, "only the payment in hand may be without its row")
}

func TestKilledProcessLosesNoCommit(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		where := d.create(t)
		l, _ := d.ledgerAt(t, where)
		require.NoError(t, l.Close())
		rng := rand.New(rand.NewPCG(42, 4))
		acknowledged := 0
		for range cases.Of(3, 8, 40) {
			acknowledged = killAfter(t, d, where, 1+rng.IntN(30), acknowledged)
			requireSound(t, d, where, acknowledged)
		}
	})
}

// killAfter kills a child that pays after some payments, and returns the
// number of the last one that it said to be committed.
func killAfter(t *testing.T, d testDialect, where string, payments, last int) int {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childDialect+"="+d.name, childWhere+"="+where)
	child.Stderr = os.Stderr
	out := must(child.StdoutPipe())(t)
	require.NoError(t, child.Start())
	lines := bufio.NewScanner(out)
	for range payments {
		require.True(t, lines.Scan(), "the child ended by itself")
	}
	if d.name == sqliteTests.name {
		require.ErrorIs(t, NewSQLite(where, time.Now).Open(t.Context()), errInUse)
	}
	require.NoError(t, child.Process.Kill())
	for more := true; more; more = lines.Scan() {
		last = must(strconv.Atoi(lines.Text()))(t)
	}
	_ = child.Wait()
	return last
}

// TestSQLiteOpensAfterPowerCut is a power cut at a random moment: the
// copied log may end in the middle of a commit. Checkpoints are off, for no
// copy of two files can be a moment across one.
func TestSQLiteOpensAfterPowerCut(t *testing.T) {
	t.Parallel()
	l, _ := sqliteTests.ledger(t)
	must(l.db.write.Exec("PRAGMA wal_checkpoint(TRUNCATE)"))(t)
	must(l.db.write.Exec("PRAGMA wal_autocheckpoint = 0"))(t)
	path := l.dialect.(*sqliteDialect).real

	copies := cases.Of(4, 10, 100)
	payments := 20 * copies
	done := make(chan int, payments)
	failed := make(chan error, 1)
	go func() {
		defer close(done)
		for n := 1; n <= payments; n++ {
			if err := pay(l, n); err != nil {
				failed <- err
				return
			}
			done <- n
		}
		failed <- nil
	}()
	for range copies {
		var paid int
		for range payments / copies {
			paid = <-done
		}
		copied := filepath.Join(t.TempDir(), "copy.db")
		copyFile(t, path, copied)
		copyFile(t, path+"-wal", copied+"-wal")
		requireSound(t, sqliteTests, copied, paid)
	}
	require.NoError(t, <-failed)
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content := must(os.ReadFile(from))(t)
	require.NoError(t, os.WriteFile(to, content, 0o600))
}
