package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/observations"
)

const (
	testOffer   = observations.Offer
	testAccount = observations.ChainAccount
	cardAccount = observations.CardAccount
)

// testClock is a clock that tests set.
type testClock struct {
	mu   sync.Mutex
	unix int64
}

func (t *testClock) now() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Unix(t.unix, 0)
}

func (t *testClock) set(unix int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unix = unix
}

func TestLedgerNotOpenErrors(t *testing.T) {
	sqliteOnly(t, func(t *testing.T, d testDialect) {
		l := d.handle(t, d.create(t), time.Now)
		calls := func() {
			require.ErrorIs(t, errorOf(l.Totals(t.Context(), testOffer)), ErrNotOpen)
			require.ErrorIs(t, errorOf(l.Record(t.Context(), nil)), ErrNotOpen)
			_, _, err := l.Intent(t.Context(), IntentKey{})
			require.ErrorIs(t, err, ErrNotOpen)
			require.ErrorIs(t, l.Register(t.Context()), ErrNotOpen)
		}
		calls()
		require.NoError(t, l.Open(t.Context()))
		require.NoError(t, l.Close())
		require.NoError(t, l.Close())
		calls()
		require.NoError(t, (*Ledger)(nil).Close())
	})
}

// The outcome of an interrupted commit would be unknown.
func TestCommitIgnoresCallerCancellation(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		ctx, leave := context.WithCancel(t.Context())
		require.NoError(t, l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
			leave()
			a := Account{Offer: testOffer, ID: "late", Rail: "btc"}
			return accountTable.upsert(ctx, tx, `offer, account`, a)
		}))
		require.Contains(t, accountIDs(t, l), "late")
	})
}

func TestTotalsAndReceiptsAreConsistent(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		var writing sync.WaitGroup
		done := make(chan struct{})
		for n := range 4 {
			writing.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-done:
						return
					default:
					}
					_, err := l.Record(context.Background(), nil, cardObservation(fmt.Sprintf("pi_%d_%d", n, i), StatusConfirmed))
					assert.NoError(t, err)
				}
			})
		}
		for range cases.Of(20, 50, 500) {
			totals, receipts, err := l.TotalsAndReceipts(t.Context(), testOffer, 0, 10_000)
			require.NoError(t, err)
			var counted, listed int64
			for _, total := range totals {
				counted += total.Amount
			}
			for _, r := range receipts {
				listed += r.Amount
			}
			assert.Equal(t, counted, listed)
		}
		close(done)
		writing.Wait()
	})
}

func TestCloseWaitsForRunningOperations(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		where := d.create(t)
		l, _ := d.ledgerAt(t, where)
		running, finish, closed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		var group sync.WaitGroup
		group.Go(func() {
			err := l.write(context.Background(), func(ctx context.Context, tx *sql.Tx) error {
				close(running)
				<-finish
				a := Account{Offer: testOffer, ID: "late", Rail: "btc"}
				return accountTable.upsert(context.Background(), tx, `offer, account`, a)
			})
			assert.NoError(t, err)
		})
		<-running
		go func() { closed <- l.Close() }()
		select {
		case <-closed:
			require.Fail(t, "closed under a running operation")
		default:
		}
		close(finish)
		group.Wait()
		require.NoError(t, <-closed)
		again, _ := d.ledgerAt(t, where)
		_, err := again.SetOrigin(t.Context(), testOffer, "late", "1")
		require.NoError(t, err, "what was running has been committed")
	})
}

func TestMigrationsAreAtomicAndOrdered(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		l, _ := d.ledger(t)
		latest := d.schemaVersion(t, l)
		next := fstest.MapFS{}
		file := func(n int) string { return fmt.Sprintf("%s/%04d.sql", l.dialect.schema(), n) }
		for n := range latest {
			next[file(n+1)] = &fstest.MapFile{Data: []byte("SELECT broken: applied already")}
		}
		second, third := file(latest+1), file(latest+2)
		next[second] = &fstest.MapFile{Data: []byte("CREATE TABLE second (x INTEGER); INSERT INTO second VALUES (1);")}
		next[third] = &fstest.MapFile{Data: []byte("CREATE TABLE third (x INTEGER); INSERT INTO nowhere VALUES (1);")}
		migrateNext := func() error {
			return inTransaction(t.Context(), l.db.write, func(tx *sql.Tx) error { return migrate(t.Context(), l.dialect, next, tx) })
		}
		require.ErrorContains(t, migrateNext(), third)
		require.Equal(t, latest, d.schemaVersion(t, l))
		require.Error(t, errorOf(l.db.write.Exec("SELECT x FROM second")))
		require.Error(t, errorOf(l.db.write.Exec("SELECT x FROM third")))

		next[third].Data = []byte("DROP TABLE second")
		require.NoError(t, migrateNext())
		require.Equal(t, latest+2, d.schemaVersion(t, l))
		require.NoError(t, migrateNext())
	})
}

func TestNewerSchemaIsRefused(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		where := d.create(t)
		l, _ := d.ledgerAt(t, where)
		d.makeNewer(t, l)
		require.NoError(t, l.Close())

		l = d.handle(t, where, time.Now)
		err := l.Open(t.Context())
		require.ErrorIs(t, err, errNewerSchema)
		require.ErrorContains(t, err, "99")
		// The refusal leaves nothing locked behind.
		require.ErrorIs(t, l.Open(t.Context()), errNewerSchema)
	})
}

func TestRegisterRefusesMixingDemoAndReal(t *testing.T) {
	sqliteOnly(t, func(t *testing.T, d testDialect) {
		shop := func(id string) Account { return Account{Offer: "shop", ID: id, Rail: "card"} }
		chain := Account{Offer: "shop", ID: "eip155:84532/any", Rail: "usdc", Testnet: true}
		for name, c := range map[string]struct {
			first, then []Account
			want        error
		}{
			"a demo again":                     {[]Account{shop(offer.DemoAccount), chain}, []Account{chain, shop(offer.DemoAccount)}, nil},
			"a real offer again":               {[]Account{shop("stripe/plink_1"), chain}, []Account{shop("stripe/plink_2")}, nil},
			"a real offer on a demo's":         {[]Account{shop(offer.DemoAccount), chain}, []Account{shop("stripe/plink_1"), chain}, errDemo},
			"a demo's rail alone on a demo's":  {[]Account{shop(offer.DemoAccount), chain}, []Account{chain}, errDemo},
			"a demo on a real offer's":         {[]Account{chain}, []Account{shop(offer.DemoAccount), chain}, errReal},
			"a demo that is alone on a real's": {[]Account{shop("stripe/plink_1")}, []Account{shop(offer.DemoAccount)}, errReal},
		} {
			t.Run(name, func(t *testing.T) {
				l := d.empty(t)
				require.NoError(t, l.Register(t.Context(), c.first...))
				require.ErrorIs(t, l.Register(t.Context(), c.then...), c.want)
				known := must(l.Accounts(t.Context(), "shop"))(t)
				if c.want != nil {
					require.Len(t, known, len(c.first), "nothing is stored")
				}
			})
		}
	})
}

func TestRestoreRefusesDemoLedger(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		demo, target := d.empty(t), d.empty(t)
		require.NoError(t, demo.Register(t.Context(), Account{Offer: "demo", ID: offer.DemoAccount, Rail: "card"}))
		path := filepath.Join(t.TempDir(), "copy.db")
		must(demo.Backup(t.Context(), path))(t)
		_, err := target.Restore(t.Context(), path)
		require.ErrorIs(t, err, errDemo)
		known := must(target.Accounts(t.Context(), "demo"))(t)
		require.Empty(t, known)
	})
}

// namedKeys are the ids of keys that go by one name.
func namedKeys(name string, ids ...string) map[string][]string { return map[string][]string{name: ids} }

func TestRememberKeysRefusesOtherStorage(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		requireRefused := func(keys map[string][]string) {
			t.Helper()
			var refused *KeysError
			require.ErrorAs(t, l.RememberKeys(t.Context(), keys), &refused)
			require.Equal(t, "did:web:shop", refused.Name)
		}
		require.NoError(t, l.RememberKeys(t.Context(), namedKeys("did:web:shop", "k1")))
		require.NoError(t, l.RememberKeys(t.Context(), namedKeys("did:web:shop", "k1", "k2")), "rotated")
		requireRefused(namedKeys("did:web:shop", "k1"))
		requireRefused(namedKeys("did:web:shop", "other"))
		requireRefused(map[string][]string{"a": {"1"}, "did:web:shop": {"k2"}, "qr": {"1"}})
		require.NoError(t, l.RememberKeys(t.Context(), map[string][]string{"a": {"2"}, "qr": {"2"}}), "nothing was kept of what was refused")
		require.NoError(t, l.RememberKeys(t.Context(), map[string][]string{"a": {"2"}, "qr": {"2"}, "did:web:shop": {"k2", "k1"}}))
	})
}

func TestForgetKeysAllowsNewKeys(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		none := must(l.ForgetKeys(t.Context()))(t)
		require.Empty(t, none)
		require.NoError(t, l.RememberKeys(t.Context(), map[string][]string{"qr": {"1"}, "did:web:shop": {"k1", "k2"}}))
		names := must(l.ForgetKeys(t.Context()))(t)
		require.Equal(t, []string{"did:web:shop", "qr"}, names)
		require.NoError(t, l.RememberKeys(t.Context(), map[string][]string{"qr": {"2"}, "did:web:shop": {"k3"}}))
	})
}

func TestRememberKeysConcurrentStorages(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		var starts sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			starts.Go(func() { errs[i] = l.RememberKeys(t.Context(), namedKeys("did:web:shop", string(rune('a'+i)))) })
		}
		starts.Wait()
		refused := 0
		for _, err := range errs {
			if err != nil {
				require.ErrorAs(t, err, new(*KeysError))
				refused++
			}
		}
		require.Equal(t, len(errs)-1, refused)
	})
}
