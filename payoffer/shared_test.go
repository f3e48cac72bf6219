package payoffer

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// shareTestLedger acquires the ledger of a folder for a configuration.
func shareTestLedger(t *testing.T, d database) (r references, l *sharedLedger) {
	t.Helper()
	l, _, err := r.shareLedger(d, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return r, l
}

// A payment keeps the ledger open after its configuration has ended, and the next configuration gets the same handle.
func TestSharedLedgerIsHeldByPayment(t *testing.T) {
	d := database{driverSQLite, filepath.Join(t.TempDir(), "ledger.db")}
	first, book := shareTestLedger(t, d)
	require.NoError(t, book.Open(t.Context()))
	hold := first[0].hold
	release, held := hold()
	require.True(t, held)
	first.release()
	require.True(t, book.IsOpen())

	second, same := shareTestLedger(t, d)
	require.Same(t, book, same)
	second.release()
	require.True(t, book.IsOpen())
	soon, leave := context.WithCancel(t.Context())
	leave()
	require.ErrorContains(t, awaitUnended(soon), "payments or deliveries are still in progress", "the process waits")
	again, held := hold()
	require.True(t, held, "a request that began before may charge")
	release()
	require.True(t, book.IsOpen())
	again()
	require.False(t, book.IsOpen())

	_, held = hold()
	require.False(t, held)
	third, other := shareTestLedger(t, d)
	defer third.release()
	require.NotSame(t, book, other)
	_, held = hold()
	require.False(t, held, "not the handle of another configuration")
	require.NoError(t, awaitUnended(t.Context()))
	require.NoError(t, other.Open(t.Context()))
	require.NoError(t, errorOf(other.Totals(t.Context(), "any")))
}

// The SQLite file is never open twice: a new handle opens when all former ones are closed, also those that never opened.
func TestSharedLedgerOpensAfterFormerHandle(t *testing.T) {
	d := database{driverSQLite, filepath.Join(t.TempDir(), "ledger.db")}
	first, former := shareTestLedger(t, d)
	require.NoError(t, former.Open(t.Context()))
	busy, end := context.WithCancel(t.Context())
	first[0].running.Go(func() { <-busy.Done() }) // as a poll that has not ended
	var ending sync.WaitGroup
	ending.Go(first.release)
	untilNotPooled(d.key())
	unopened, _ := shareTestLedger(t, d)
	ending.Go(unopened.release)
	untilNotPooled(d.key())
	next, book := shareTestLedger(t, d)
	defer next.release()
	soon, leave := context.WithCancel(t.Context())
	leave()
	require.ErrorIs(t, book.Open(soon), context.Canceled)
	require.True(t, former.IsOpen())
	require.False(t, book.IsOpen())

	end()
	require.NoError(t, book.Open(t.Context()))
	require.False(t, former.IsOpen())
	ending.Wait()
}

// untilNotPooled waits until a member has left the pool, which is before it has ended.
func untilNotPooled(key string) {
	for {
		if _, found := sharedPool.References(key); !found {
			return
		}
		runtime.Gosched()
	}
}

// recorder is a member that records what happens to it.
type recorder struct {
	name string
	log  *[]string
}

func (r *recorder) Run(ctx context.Context) {
	<-ctx.Done()
	*r.log = append(*r.log, r.name+" ran")
}

func (r *recorder) Close() error {
	*r.log = append(*r.log, r.name+" closed")
	return nil
}

// Members end with the last configuration, dependents before dependencies, and each after its work.
func TestSharedMembersEndInOrder(t *testing.T) {
	var log []string
	share := func() (r references) {
		for _, name := range []string{"ledger", "chain", "chain"} {
			r.share(name, &recorder{name, &log})
		}
		return r
	}
	first := share()
	first.run()
	second := share()
	second.run()
	require.Equal(t, first, second)
	first.release()
	require.Empty(t, log)
	second.release()
	require.Equal(t, []string{"chain ran", "chain closed", "ledger ran", "ledger closed"}, log)

	third := share()
	third.release()
	require.Equal(t, []string{"chain closed", "ledger closed"}, log[4:], "it never started")
}

// What outlives a configuration logs where the running one does: the operator may have moved the file.
func TestSharedMembersLogToRunningConfiguration(t *testing.T) {
	i := newInstance(t)
	load := func(file string) string {
		path := filepath.Join(i.folder, file)
		logs := "log pay {\n\t\tinclude pay_offer\n\t\toutput file " + path + "\n\t}\n"
		require.NoError(t, loadCaddyfile(t, strings.Replace(i.caddyfile(smallest), "admin off", logs+"\tadmin off", 1)))
		return path
	}
	load("first.log")
	book := activeApp().runtime.Ledger
	logger := book.Logger.With("offer", "one")
	second := load("second.log")
	require.NoError(t, awaitUnended(t.Context()))
	require.Same(t, book, activeApp().runtime.Ledger)
	logger.Warn("the disk is full")
	require.Regexp(t, `"logger":"pay_offer","msg":"the disk is full","offer":"one"`, string(must(os.ReadFile(second))(t)))
}
