package ledger

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/observations"
)

// TestRandomHistoriesStayConsistent drives a ledger with everything that can
// happen, and after every step compares its sums and its history with a scan.
func TestRandomHistoriesStayConsistent(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		seeds := cases.Of(1, 3, 30)
		for n := range seeds {
			seed := uint64(n)
			if d.name == postgresTests.name {
				seed += uint64(seeds) // others than on SQLite
			}
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				l, clock := d.ledger(t)
				rng := rand.New(rand.NewPCG(seed, 3))
				steps := int64(cases.Of(150, 300, 300))
				for step := range steps {
					clock.set(1_000 + step)
					randomStep(t, l, rng)
					requireConsistent(t, l)
					requireJoined(t, l)
				}
				require.Greater(t, int64(len(statuses(t, l))), steps/6, "the history was too quiet to prove anything")
			})
		}
	})
}

// randomStep acts on one of few payers, authorizations and transactions.
func randomStep(t *testing.T, l *Ledger, rng *rand.Rand) {
	t.Helper()
	ctx := t.Context()
	intent := testIntent(fmt.Sprintf("0x%d", rng.IntN(3)), fmt.Sprintf("0x%d", rng.IntN(6)))
	key := intent.IntentKey
	var err error
	switch rng.IntN(17) {
	case 0, 1, 2:
		err = l.InsertIntent(ctx, intent)
	case 3:
		err = l.SettleIntent(ctx, key, "0xclaim", []byte(`{}`), EvidenceFacilitator)
	case 4:
		err = l.RefuseIntent(ctx, key, "expired")
	case 5:
		err = l.ReopenIntent(ctx, key, "reorg")
	case 6:
		err = l.UpdateOpenIntent(ctx, key, "me", 0, "", "timeout")
	case 7:
		err = l.WithdrawIntent(ctx, key, intent.Owner)
	case 8:
		err = l.AcknowledgeIntent(ctx, key, rng.IntN(2) == 0)
	case 9:
		err = l.UnacknowledgeIntent(ctx, key)
	case 10:
		_, err = l.RecordRejection(ctx, key, 5_000+rng.Int64N(1_000))
	case 11:
		err = l.ImportIntent(ctx, intent, chainObservation(fmt.Sprintf("0x%d", rng.IntN(12)), StatusConfirmed))
	default:
		var batch []Observation
		for range 1 + rng.IntN(4) {
			s := observations.RandomObservation(rng, fmt.Sprintf("0x%d", rng.IntN(12)))
			if rng.IntN(2) == 0 {
				s.Intent = &key
			}
			batch = append(batch, s)
		}
		_, err = l.Record(ctx, nil, batch...)
	}
	var conflict *ConflictError
	var exists *IntentExistsError
	if errors.As(err, &conflict) || errors.As(err, &exists) {
		return
	}
	for _, expected := range []error{ErrNoIntent, ErrIntentState, ErrTransaction, errLeaseHeld} {
		if errors.Is(err, expected) {
			return
		}
	}
	require.NoError(t, err)
}

// requireJoined checks that a final row and the intent that it settled agree.
func requireJoined(t *testing.T, l *Ledger) {
	t.Helper()
	var wrong int
	require.NoError(t, l.db.read.QueryRow(`
		SELECT count(*) FROM receipts r JOIN intents i ON i.ID = r.intent_id
		WHERE r.offer <> i.offer OR r.account <> i.account
			OR (i.state = 'settled' AND i.evidence = 'chain' AND (r.state = 'dropped' OR i.tx <> r.tx))`).Scan(&wrong))
	require.Zero(t, wrong)
}
