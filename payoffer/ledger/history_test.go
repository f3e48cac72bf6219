package ledger

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
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
	for _, expected := range []error{ErrNoIntent, ErrIntentState, ErrTransaction, ErrLeaseHeld} {
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

// TestRandomHistoriesMatchReferenceModel lets histories of many
// payments happen at once, and compares what the ledger made of each with what
// a look at the whole of it says.
func TestRandomHistoriesMatchReferenceModel(t *testing.T) {
	t.Parallel()
	const perLedger, perBatch = 10_000, 500
	total := cases.Of(500, 100_000, 1_000_000)
	for n := 0; n < total; n += perLedger {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			l, _ := sqliteTests.ledger(t)
			_, err := l.db.write.Exec("PRAGMA synchronous = OFF") // nothing is killed here
			require.NoError(t, err)
			rng := rand.New(rand.NewPCG(uint64(n), 6))
			for first := n; first < min(n+perLedger, total); first += perBatch {
				happen(t, l, rng, first, min(perBatch, total-first))
			}
			requireConsistent(t, l)
			require.NoError(t, l.Close())
		})
	}
}

// happen records histories that are shuffled into each other.
func happen(t *testing.T, l *Ledger, rng *rand.Rand, first, count int) {
	t.Helper()
	all := make([][]Observation, count)
	var turns []int
	for i := range all {
		all[i] = observations.RandomHistory(rng, fmt.Sprint(first+i))
		for range all[i] {
			turns = append(turns, i)
		}
	}
	rng.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
	recorded := make([]int, count)
	for len(turns) > 0 {
		var batch []Observation
		part := min(len(turns), 1+rng.IntN(500))
		for _, i := range turns[:part] {
			batch = append(batch, all[i][recorded[i]])
			recorded[i]++
		}
		turns = turns[part:]
		must(l.Record(t.Context(), nil, batch...))(t)
	}

	rows := must(l.Receipts(t.Context(), testOffer, 0, count))(t)
	got := make(map[string]observations.Facts, len(rows))
	for _, r := range rows {
		got[r.ExternalID] = observations.FactsOf(r)
	}
	for i, history := range all {
		want := observations.Reference(history)
		require.Equal(t, want, got[chainObservation(fmt.Sprint(first+i), StatusSeen).ExternalID], "%+v", history)
	}
}

func TestHistoryListsTransitionsOfOneOffer(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		require.NoError(t, l.Register(t.Context(), Account{Offer: "other", ID: "plink_2", Rail: "card"}))
		first := mustRecord(t, l, cardObservation("pi_1", StatusSeen))
		second := mustRecord(t, l, cardObservation("pi_2", StatusConfirmed))
		foreign := cardObservation("pi_3", StatusConfirmed)
		foreign.Offer, foreign.Account = "other", "plink_2"
		mustRecord(t, l, foreign)
		last := mustRecord(t, l, cardObservation("pi_4", StatusConfirmed))
		again := cardObservation("pi_1", StatusConfirmed)
		again.Note = "a word"
		mustRecord(t, l, again)

		lines := func(from, to int64) (lines []string) {
			history := must(l.History(t.Context(), testOffer, from, to))(t)
			for _, tr := range history {
				lines = append(lines, fmt.Sprintf("%s %d %s %s", tr.ExternalID, tr.Version, tr.To, tr.Note))
			}
			return lines
		}
		require.Equal(t, []string{"pi_1 1 seen ", "pi_1 2 confirmed a word", "pi_2 1 confirmed "}, lines(first.ID, second.ID))
		require.Equal(t, []string{"pi_2 1 confirmed ", "pi_4 1 confirmed "}, lines(second.ID, last.ID))
	})
}

// The address of a receipt's page is made from its name.
func TestTransitionNameEqualsReceiptName(t *testing.T) {
	onSQLite(t, func(t *testing.T, l *Ledger, _ *testClock) {
		authorized := chainObservation("0xa", StatusConfirmed)
		authorized.Nonce = "0x" + strings.Repeat("0a", 32)
		for _, s := range []Observation{authorized, cardObservation("pi_1", StatusConfirmed)} {
			want := mustRecord(t, l, s)
			history := must(l.History(t.Context(), testOffer, want.ID, want.ID))(t)
			tr := history[0]
			require.Equal(t, want.Name(), Receipt{ExternalID: tr.ExternalID, Payer: tr.Payer, Nonce: tr.Nonce}.Name())
		}
	})
}

// They would take it for unknown
// for good.
func TestTransitionWhenUSDValueBecomesKnown(t *testing.T) {
	onSQLite(t, func(t *testing.T, l *Ledger, _ *testClock) {
		paid := chainObservation("0xa", StatusConfirmed)
		paid.USDCents = nil
		mustRecord(t, l, paid)
		paid.USDCents = ptr(int64(4_200))
		mustRecord(t, l, paid)
		mustRecord(t, l, paid)
		history := must(l.Transitions(t.Context(), testOffer, 0, 10))(t)
		require.Len(t, history, 2)
		require.Nil(t, history[0].USDCents)
		require.Equal(t, ptr(int64(4_200)), history[1].USDCents)
		require.Equal(t, StatusConfirmed, history[1].To)
		requireConsistent(t, l)
	})
}

func TestRecordRefusesSumOverflow(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Observation){
		"amount": func(s *Observation) { s.Amount = math.MaxInt64 },
		"value":  func(s *Observation) { s.USDCents = ptr(int64(math.MaxInt64)) },
	} {
		t.Run(name, func(t *testing.T) {
			eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
				small, big, bigger := chainObservation("0xa", StatusSeen), chainObservation("0xb", StatusSeen), chainObservation("0xc", StatusSeen)
				spoil(&big)
				spoil(&bigger)
				_, err := l.Record(t.Context(), nil, big, bigger)
				require.ErrorIs(t, err, ErrObservation)
				require.ErrorContains(t, err, bigger.ExternalID)
				mustRecord(t, l, big)
				require.ErrorIs(t, errorOf(l.Record(t.Context(), nil, small)), ErrObservation)

				// What does not count any more makes room.
				big.State = StatusDropped
				mustRecord(t, l, big)
				mustRecord(t, l, small)
				small.State = StatusDropped
				_, err = l.Record(t.Context(), nil, small)
				require.ErrorIs(t, err, ErrObservation, "the sum of what was dropped is full")
				require.Equal(t, StatusSeen, mustRecord(t, l, chainObservation("0xa", StatusSeen)).Status)
				requireConsistent(t, l)
			})
		})
	}
}

func TestRecordRefusesRefundOverflow(t *testing.T) {
	onSQLite(t, func(t *testing.T, l *Ledger, _ *testClock) {
		refund := Return{ID: "re_1", Kind: ReturnRefund, Amount: math.MaxInt64, Gone: true}
		for _, id := range []string{"pi_1", "pi_2"} {
			s := cardObservation(id, StatusConfirmed)
			s.Amount = math.MaxInt64
			mustRecord(t, l, s)
			if id == "pi_1" {
				mustRecord(t, l, returned(id, refund))
			}
		}
		before := dump(t, l)
		_, err := l.Record(t.Context(), nil, returned("pi_2", refund))
		require.ErrorIs(t, err, ErrObservation, "the sum of what was refunded is full")
		require.Equal(t, before, dump(t, l))
		requireConsistent(t, l)
	})
}
