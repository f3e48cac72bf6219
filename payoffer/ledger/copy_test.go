package ledger

import (
	"database/sql"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

// eachPair runs a test for both kinds of database to copy to each kind.
func eachPair(t *testing.T, test func(t *testing.T, from, to testDialect)) {
	t.Helper()
	eachDialect(t, func(t *testing.T, from testDialect) {
		for _, to := range []testDialect{sqliteTests, postgresTests} {
			t.Run("to "+to.name, func(t *testing.T) {
				t.Parallel()
				test(t, from, to)
			})
		}
	})
}

// empty opens a ledger with nothing in it.
func (td testDialect) empty(t testing.TB) *Ledger {
	t.Helper()
	clock := &testClock{unix: 20_000_000}
	l := td.handle(t, td.create(t), clock.now)
	require.NoError(t, l.OpenExclusive(t.Context()))
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// filled is a ledger with a random history and rows in every table.
func filled(t *testing.T, d testDialect, seed uint64) *Ledger {
	t.Helper()
	l, clock := d.ledger(t)
	rng := rand.New(rand.NewPCG(seed, 11))
	for step := range int64(cases.Of(50, 300, 3_000)) {
		clock.set(1_000 + step)
		randomStep(t, l, rng)
	}
	for _, write := range writes(l) {
		_ = write.call() // as far as the history lets it
	}
	named := testIntent("0xnamed", "0x01")
	named.PaymentID, named.USDCents, named.Answer = "pid", nil, nil
	require.NoError(t, l.InsertIntent(t.Context(), named))
	require.NoError(t, l.StoreQuote(t.Context(), testOffer, 7, 4200, 1_000))
	require.NoError(t, l.RememberKeys(t.Context(), namedKeys("did:web:shop", "k1")))
	find(l.LeaseSubscriber(t.Context(), testOffer, "subscriber", "me", 0, 1<<40))(t)
	require.True(t, must(l.InsertInvoice(t.Context(), testInvoice("aa")))(t))
	require.NoError(t, l.InsertPass(t.Context(), Pass{ID: "p", Offer: testOffer, Note: "for a friend", ExpiresAt: 1 << 40}))
	require.NoError(t, l.Enter(t.Context(), testOffer, "pass:p", "signed-out"))
	require.NoError(t, l.EndBrowsers(t.Context(), testOffer, "pass:p"))
	require.NoError(t, l.Enter(t.Context(), testOffer, "pass:p", "signed-in"))
	yen := cardObservation("pi_yen", StatusConfirmed)
	yen.Asset, yen.USDCents = "JPY", nil
	mustRecord(t, l, yen)
	_, err := l.Record(t.Context(), nil, returned("pi_early", Return{ID: "re_1", Kind: ReturnRefund, Amount: 1, Gone: true}))
	require.NoError(t, err)
	require.NoError(t, l.Check(t.Context()))
	return l
}

// content is dump of a ledger with rows in every table.
func content(t *testing.T, l *Ledger) map[string][]string {
	t.Helper()
	all := dump(t, l)
	for _, table := range tables {
		require.NotEmpty(t, all[table], "%s has no rows to prove anything", table)
	}
	return all
}

func TestCopyContainsEveryRow(t *testing.T) {
	eachPair(t, func(t *testing.T, from, to testDialect) {
		for seed := range uint64(cases.Of(1, 3, 20)) {
			source, target := filled(t, from, seed), to.empty(t)
			copied := must(Copy(t.Context(), target, source))(t)
			must(source.db.write.Exec(endLeases))(t)
			want := content(t, source)
			require.Equal(t, want, content(t, target))
			for table, lines := range want {
				require.EqualValues(t, len(lines), copied.Rows[table], table)
			}

			last := must(source.Transitions(t.Context(), testOffer, 0, 1<<30))(t)
			none, err := target.Feed(t.Context(), testOffer, last[len(last)-1].Bookmark(), 10)
			require.NoError(t, err, "a reader goes on where it was")
			require.Empty(t, none)
			mustRecord(t, target, chainObservation("0xafter", StatusConfirmed))
			require.NoError(t, target.InsertIntent(t.Context(), testIntent("0xafter", "0x09")))
			next := must(target.Feed(t.Context(), testOffer, last[len(last)-1].Bookmark(), 10))(t)
			require.Len(t, next, 1)
			require.NoError(t, target.Check(t.Context()))
			requireBrowsers(t, target, "pass:p", "signed-in")
			require.ErrorIs(t, target.Enter(t.Context(), testOffer, "pass:p", "signed-out"), ErrEntered, "a code that was used stays used")
			require.NoError(t, target.Enter(t.Context(), testOffer, "pass:p", "next"))
			requireBrowsers(t, target, "pass:p", "next", "signed-in")
			require.NoError(t, source.Close())
			require.NoError(t, target.Close())
		}
	})
}

// Each number that PostgreSQL generates follows the highest one after a copy.
func TestCopyCoversAllTablesAndSequences(t *testing.T) {
	t.Parallel()
	small := sqliteTests.empty(t)
	names, err := collect(t.Context(), small, scanText, `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~'`)
	require.NoError(t, err)
	require.ElementsMatch(t, names, tables)
	l, target := filled(t, postgresTests, 0), postgresTests.empty(t)
	must(Copy(t.Context(), target, l))(t)
	numbered, err := collect(t.Context(), target, scanText, `
		SELECT table_name || '.' || column_name FROM information_schema.columns
		WHERE table_schema = current_schema() AND is_identity = 'YES'`)
	require.NoError(t, err)
	require.Len(t, numbered, 3)
	for _, one := range numbered {
		table, column, _ := strings.Cut(one, ".")
		var last, highest int64
		require.NoError(t, target.db.read.QueryRow(`SELECT last_value, (SELECT max(`+column+`) FROM `+table+`)
			FROM pg_sequences WHERE schemaname = current_schema() AND sequencename = $1`, table+"_"+column+"_seq").Scan(&last, &highest))
		require.Equal(t, highest, last, one)
	}
}

func TestCopyNeedsEmptyTarget(t *testing.T) {
	eachPair(t, func(t *testing.T, from, to testDialect) {
		source := filled(t, from, 1)
		target, _ := to.ledger(t)
		require.ErrorContains(t, errorOf(Copy(t.Context(), target, source)), "already contains accounts")
		accounts := must(target.Accounts(t.Context(), testOffer))(t)
		require.Len(t, accounts, 2)
		require.Error(t, errorOf(Copy(t.Context(), source, source)))
	})
}

// TestCopyRefusesInconsistentLedger breaks what Check compares, one after
// the other.
func TestCopyRefusesInconsistentLedger(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		source, target := filled(t, d, 2), sqliteTests.empty(t)
		for _, c := range []struct{ want, broken, mended string }{
			{"the sums of", `UPDATE totals SET usd_cents = usd_cents + 1`, `UPDATE totals SET usd_cents = usd_cents - 1`},
			{"the sums of", `UPDATE totals SET count = count + 1 WHERE currency <> ''`, `UPDATE totals SET count = count - 1 WHERE currency <> ''`},
			{"has a gap", `UPDATE receipts SET version = version + 1`, `UPDATE receipts SET version = version - 1`},
			{"does not follow", `UPDATE transitions SET from_status = 'seen' WHERE version = 1`,
				`UPDATE transitions SET from_status = '' WHERE version = 1`},
			{"is not with its row", `UPDATE returns SET receipt_id = (SELECT max(id) FROM receipts) WHERE external_id = 'pi_early'`,
				`UPDATE returns SET receipt_id = NULL WHERE external_id = 'pi_early'`},
		} {
			must(source.db.write.Exec(c.broken))(t)
			require.ErrorContains(t, source.Check(t.Context()), c.want, c.broken)
			require.ErrorContains(t, errorOf(Copy(t.Context(), target, source)), "is inconsistent")
			path := filepath.Join(t.TempDir(), "backup.db")
			require.ErrorContains(t, errorOf(source.Backup(t.Context(), path)), c.want, c.broken)
			left := must(os.ReadDir(filepath.Dir(path)))(t)
			require.Empty(t, left)
			must(source.db.write.Exec(c.mended))(t)
		}
		_, err := Copy(t.Context(), target, source)
		require.NoError(t, err, "nothing was stored before")
	})
}

func TestPostgresOpenAloneNeedsNoInstances(t *testing.T) {
	t.Parallel()
	where := postgresTests.create(t)
	instance, _ := postgresTests.ledgerAt(t, where)
	_, second := postgresTests.ledgerAt(t, where)
	require.NotNil(t, second, "several instances share it")
	alone := postgresTests.handle(t, where, time.Now)
	require.ErrorContains(t, alone.OpenExclusive(t.Context()), "stop all instances first")
	require.NoError(t, instance.Close())
	require.ErrorContains(t, alone.OpenExclusive(t.Context()), errInUse.Error())
}

func TestPostgresOpenFailsDuringRestore(t *testing.T) {
	t.Parallel()
	where := postgresTests.create(t)
	alone := postgresTests.handle(t, where, time.Now)
	require.NoError(t, alone.OpenExclusive(t.Context()))
	instance := postgresTests.handle(t, where, time.Now)
	require.ErrorContains(t, instance.Open(t.Context()), "being restored or moved")
	_, err := instance.Backup(t.Context(), filepath.Join(t.TempDir(), "backup.db"))
	require.ErrorContains(t, err, "being restored or moved")
	require.NoError(t, alone.Close())
	require.NoError(t, instance.Open(t.Context()))
	require.NoError(t, instance.Close())
}

// TestBackupIsConsistentDuringWrites lets another process pay meanwhile.
func TestBackupIsConsistentDuringWrites(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		where := d.create(t)
		l, _ := d.ledgerAt(t, where)
		require.NoError(t, l.Close())
		payer := exec.Command(os.Args[0])
		payer.Env = append(os.Environ(), childDialect+"="+d.name, childWhere+"="+where)
		out := must(payer.StdoutPipe())(t)
		require.NoError(t, payer.Start())
		defer func() {
			_ = payer.Process.Kill()
			_ = payer.Wait()
		}()
		var paid int
		must(fmt.Fscan(out, &paid))(t)
		acknowledged := make(chan int)
		go func() {
			defer close(acknowledged)
			for n := 0; ; {
				if _, err := fmt.Fscan(out, &n); err != nil {
					return
				}
				select {
				case acknowledged <- n:
				default: // pipes must not fill
				}
			}
		}()
		for n := range cases.Of(2, 3, 20) {
			paid = <-acknowledged
			copied := filepath.Join(t.TempDir(), fmt.Sprint(n))
			must(d.handle(t, where, time.Now).Backup(t.Context(), copied))(t)
			requireSound(t, sqliteTests, copied, paid)
		}
		if d.name == sqliteTests.name {
			require.ErrorIs(t, NewSQLite(where, time.Now).Open(t.Context()), errInUse, "the backups took no lock away")
		}
	})
}

func TestBackupFileModeAndNoOverwrite(t *testing.T) {
	t.Parallel()
	l := filled(t, sqliteTests, 3)
	folder := t.TempDir()
	path := filepath.Join(folder, "backup.db")
	must(l.Backup(t.Context(), path))(t)
	info := must(os.Stat(path))(t)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	before := must(os.ReadFile(path))(t)
	require.ErrorContains(t, errorOf(l.Backup(t.Context(), path)), "already exists")
	after := must(os.ReadFile(path))(t)
	require.Equal(t, before, after)
	left := must(os.ReadDir(folder))(t)
	require.Len(t, left, 1)
	_, err := NewSQLite(filepath.Join(folder, "none.db"), time.Now).Backup(t.Context(), filepath.Join(folder, "b.db"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestBackupKeepsSQLiteLocks(t *testing.T) {
	t.Parallel()
	l := filled(t, sqliteTests, 3)
	path := l.dialect.(*sqliteDialect).real
	for n, of := range []*Ledger{l, NewSQLite(path, time.Now)} {
		must(of.Backup(t.Context(), filepath.Join(t.TempDir(), fmt.Sprint(n))))(t)
		require.Contains(t, child(t, "leave WAL", path), "locked")
	}
}

func TestRestoreRefusesDamagedBackup(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		l, target := filled(t, sqliteTests, 5), d.empty(t)
		folder := t.TempDir()
		whole := filepath.Join(folder, "whole.db")
		must(l.Backup(t.Context(), whole))(t)
		text := must(os.ReadFile(whole))(t)
		other := must(sql.Open("sqlite", filepath.Join(folder, "other.db")))(t)
		must(other.Exec("CREATE TABLE notes (text)"))(t)
		require.NoError(t, other.Close())
		for name, content := range map[string][]byte{
			"empty.db": nil, "cut.db": text[:len(text)/2], "page.db": slices.Concat(text[:8192], make([]byte, 4096), text[8192+4096:]),
			"noise.db": []byte(strings.Repeat("no database", 1000)),
		} {
			require.NoError(t, os.WriteFile(filepath.Join(folder, name), content, 0o600))
		}
		for name, says := range map[string]string{
			"empty.db": "there is no ledger", "cut.db": "the file is damaged", "page.db": "the file is damaged", "noise.db": "the file is damaged",
			"other.db": "another program", "none.db": "there is no file ",
		} {
			_, err := target.Restore(t.Context(), filepath.Join(folder, name))
			require.ErrorContains(t, err, name)
			require.ErrorContains(t, err, says)
		}
		_, err := target.Restore(t.Context(), whole)
		require.NoError(t, err, "what was refused left nothing behind")
	})
}

// The newest change tells how old a backup is, whether it is of a receipt or of an x402 payment.
func TestCopyReportsNewestChange(t *testing.T) {
	eachPair(t, func(t *testing.T, from, to testDialect) {
		for n, update := range []string{`UPDATE transitions SET at = $1`, `UPDATE intents SET updated_at = $1`} {
			source, newest := filled(t, from, 3), int64(4_000_000_000+n)
			must(source.db.write.Exec(update, newest))(t)
			require.Equal(t, newest, must(Copy(t.Context(), to.empty(t), source))(t).Newest.Unix(), update)
		}
		empty := from.empty(t)
		require.Zero(t, must(Copy(t.Context(), to.empty(t), empty))(t).Newest)
	})
}

// What a receiver delivered for a payment that the disk took with it is not what it delivers for the next one.
func TestRestoreNeverRepeatsNumbers(t *testing.T) {
	eachPair(t, func(t *testing.T, from, to testDialect) {
		empty, _ := from.ledger(t)
		for name, l := range map[string]*Ledger{"without receipts": empty, "with receipts": filled(t, from, 3)} {
			backup := filepath.Join(t.TempDir(), "backup.db")
			must(l.Backup(t.Context(), backup))(t)
			lost := mustRecord(t, l, cardObservation("pi_lost", StatusConfirmed))
			restored := to.empty(t)
			must(restored.Restore(t.Context(), backup))(t)
			if name == "with receipts" { // and after a move of the restored ledger
				moved := to.empty(t)
				must(Copy(t.Context(), moved, restored))(t)
				require.Greater(t, mustRecord(t, moved, cardObservation("pi_next", StatusConfirmed)).ID, lost.ID)
			}
			next := mustRecord(t, restored, cardObservation("pi_next", StatusConfirmed))
			require.Greater(t, next.ID, lost.ID, name)
			require.Equal(t, restored.now().Unix()+1, next.ID, name)
		}
	})
}
