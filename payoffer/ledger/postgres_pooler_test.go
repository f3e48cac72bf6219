package ledger

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
)

// Without its session the ledger has no lock, and two servers would write as if each were alone.
func TestPostgresPoolerNeedsSessionMode(t *testing.T) {
	t.Parallel()
	for mode, refused := range map[string]bool{"session": false, "transaction": true, "statement": true} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			dsn := postgres.Shared(t).Pooled(t, postgresTests.create(t), mode)
			for range 2 { // the second start finds the sessions of the first one
				err := openPostgres(t, dsn)
				if !refused {
					require.NoError(t, err)
					continue
				}
				require.ErrorContains(t, err, "PgBouncer")
				require.ErrorContains(t, err, "connect directly, or set pool_mode = session")
			}
		})
	}
}
