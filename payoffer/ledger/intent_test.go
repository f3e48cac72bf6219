package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

func TestInsertIntentStoresAllFields(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		want := testIntent("0xaa", "0x01")
		want.PaymentID, want.Own, want.Secret = "pid-1", true, "5ec4e7"
		require.NoError(t, l.InsertIntent(t.Context(), want))

		got := mustIntent(t, l, want.IntentKey)
		require.NotZero(t, got.ID)
		got.ID = 0
		want.State, want.Rail, want.Testnet, want.CreatedAt, want.UpdatedAt = IntentSettling, "usdc", true, 1_000, 1_000
		require.Equal(t, want, got)

		_, found, err := l.Intent(t.Context(), IntentKey{Network: "eip155:1", Asset: "0xtoken", From: "0xaa", Nonce: "0x01"})
		require.NoError(t, err)
		require.False(t, found)
	})
}

func TestInsertIntentConcurrentlyHasOneWinner(t *testing.T) {
	for name, all := range map[string]func(t *testing.T) []*Ledger{
		"sqlite": func(t *testing.T) []*Ledger {
			l, _ := sqliteTests.ledger(t)
			return []*Ledger{l}
		},
		"postgres": func(t *testing.T) []*Ledger { return instances(t, 4) },
	} {
		t.Run(name, func(t *testing.T) {
			handles, copies, known := all(t), cases.Of(50, 200, 1_000), errors.New("it is known")
			require.Equal(t, map[error]int{nil: 1, known: copies - 1}, atOnce(slices.Repeat(handles, copies)[:copies], func(n int, l *Ledger) error {
				intent := testIntent("0xaa", "0x01")
				intent.Owner = fmt.Sprint(n)
				err := l.InsertIntent(t.Context(), intent)
				if exists := new(IntentExistsError); errors.As(err, &exists) && exists.Existing.Fingerprint == intent.Fingerprint {
					return known
				}
				return err
			}))
			requireConsistent(t, handles[0])
		})
	}
}

func TestIntentKeyIgnoresHexCase(t *testing.T) {
	onSQLite(t, func(t *testing.T, l *Ledger, _ *testClock) {
		require.NoError(t, l.InsertIntent(t.Context(), testIntent("0xaa", "0x0f")))
		loud := testIntent("0xAA", "0x0F")
		loud.Asset = strings.ToUpper(loud.Asset)
		require.ErrorAs(t, l.InsertIntent(t.Context(), loud), new(*IntentExistsError))
		require.NoError(t, l.RefuseIntent(t.Context(), loud.IntentKey, "expired"))
	})
}

func TestInsertIntentConflictsWithOpenIntent(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		for name, finish := range map[string]func(*Ledger, IntentKey) error{
			"until it settles":    func(l *Ledger, k IntentKey) error { return l.SettleIntent(t.Context(), k, "0x1", nil, "chain") },
			"until it is refused": func(l *Ledger, k IntentKey) error { return l.RefuseIntent(t.Context(), k, "expired") },
		} {
			t.Run(name, func(t *testing.T) {
				l, _ := d.ledger(t)
				open := testIntent("0xaa", "0x01")
				require.NoError(t, l.InsertIntent(t.Context(), open))
				require.NoError(t, l.InsertIntent(t.Context(), testIntent("0xbb", "0x01")), "another payer")

				var conflict *ConflictError
				require.ErrorAs(t, l.InsertIntent(t.Context(), testIntent("0xaa", "0x00")), &conflict)
				require.Equal(t, open.IntentKey, conflict.Other.IntentKey)

				require.NoError(t, finish(l, open.IntentKey))
				require.NoError(t, l.AcknowledgeIntent(t.Context(), open.IntentKey, true))
				require.NoError(t, l.InsertIntent(t.Context(), testIntent("0xaa", "0x02")))
				require.ErrorAs(t, l.InsertIntent(t.Context(), open), new(*IntentExistsError), "a replay is known before anything else")
				requireConsistent(t, l)
			})
		}
	})
}

func TestInsertIntentPaymentIDConflict(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		insert := func(from, nonce, id string) error {
			i := testIntent(from, nonce)
			i.PaymentID = id
			return l.InsertIntent(t.Context(), i)
		}
		key := func(nonce string) IntentKey { return testIntent("0xaa", nonce).IntentKey }

		require.NoError(t, insert("0xaa", "0x01", "pid"))
		require.NoError(t, insert("0xbb", "0x01", "pid"), "identifiers are scoped to the payer")
		require.NoError(t, l.RefuseIntent(t.Context(), key("0x01"), "expired"))
		require.NoError(t, insert("0xaa", "0x02", "pid"), "free again after a refusal")
		require.NoError(t, l.SettleIntent(t.Context(), key("0x02"), "0x1", nil, EvidenceFacilitator))
		require.NoError(t, l.AcknowledgeIntent(t.Context(), key("0x02"), true))
		require.ErrorIs(t, insert("0xaa", "0x03", "pid"), ErrPaymentID)
		_, found := find(l.Intent(t.Context(), key("0x03")))(t)
		require.False(t, found, "a refused insert leaves no row")
		require.NoError(t, insert("0xaa", "0x03", ""))
		requireConsistent(t, l)
	})
}

func TestInsertIntentRefusesInvalidIntent(t *testing.T) {
	onSQLite(t, func(t *testing.T, l *Ledger, _ *testClock) {
		i := testIntent("0xaa", "0x01")
		i.Offer = "other"
		require.ErrorIs(t, l.InsertIntent(t.Context(), i), errNotRegistered)
		i = testIntent("0xaa", "0x01")
		i.PaymentID = "pid\x00"
		require.ErrorContains(t, l.InsertIntent(t.Context(), i), "U+0000")
		i = testIntent("0xaa", "")
		require.ErrorContains(t, l.InsertIntent(t.Context(), i), "lacks network, asset, payer, nonce or fingerprint")
	})
}

func TestSettleIntentAddsLateAnswer(t *testing.T) {
	onSQLite(t, func(t *testing.T, l *Ledger, _ *testClock) {
		key := testIntent("0xaa", "0x01").IntentKey
		require.NoError(t, l.InsertIntent(t.Context(), testIntent("0xaa", "0x01")))
		require.NoError(t, l.SettleIntent(t.Context(), key, "0x1", nil, EvidenceChain))
		require.NoError(t, l.SettleIntent(t.Context(), key, "0x1", []byte(`{"late":1}`), EvidenceFacilitator))
		got := mustIntent(t, l, key)
		require.Equal(t, EvidenceChain, got.Evidence)
		require.JSONEq(t, `{"late":1}`, string(got.Answer))
	})
}

func TestIntentLeaseTakeoverAfterExpiry(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, clock *testClock) {
		key := testIntent("0xaa", "0x01").IntentKey
		require.NoError(t, l.InsertIntent(t.Context(), testIntent("0xaa", "0x01")))
		require.ErrorIs(t, l.UpdateOpenIntent(t.Context(), key, "attempt-2", 2_000, "", ""), ErrLeaseHeld)
		require.NoError(t, l.UpdateOpenIntent(t.Context(), key, "attempt-1", 0, "0x1", "settlement_pending"))

		clock.set(1_060)
		require.Equal(t, map[error]int{nil: 1, ErrLeaseHeld: 15}, atOnce(slices.Repeat([]*Ledger{l}, 16), func(n int, l *Ledger) error {
			return l.UpdateOpenIntent(t.Context(), key, fmt.Sprint("owner ", n), 1_600, "", "")
		}))
		got := mustIntent(t, l, key)
		require.Equal(t, "0x1", got.Transaction, "an empty value forgets nothing")
		require.Equal(t, "settlement_pending", got.Reason)

		require.NoError(t, l.UpdateOpenIntent(t.Context(), key, got.Owner, 0, "", "timeout"))
		require.NoError(t, l.UpdateOpenIntent(t.Context(), key, "next", 3_000, "", ""), "a lease given up is free")
	})
}

func TestReopenIntentClearsOutcome(t *testing.T) {
	onSQLite(t, func(t *testing.T, l *Ledger, _ *testClock) {
		ctx, key := t.Context(), testIntent("0xaa", "0x01").IntentKey
		require.NoError(t, l.InsertIntent(ctx, testIntent("0xaa", "0x01")))
		require.NoError(t, l.SettleIntent(ctx, key, "0x1", []byte(`{}`), EvidenceFacilitator))
		require.NoError(t, l.AcknowledgeIntent(ctx, key, true))
		require.NoError(t, l.InsertIntent(ctx, testIntent("0xaa", "0x02")))

		require.NoError(t, l.ReopenIntent(ctx, key, "reorg"), "even while a later one is open")
		require.ErrorAs(t, l.InsertIntent(ctx, testIntent("0xaa", "0x02")), new(*IntentExistsError),
			"a replay is known, whatever else is open")
		got := mustIntent(t, l, key)
		require.Equal(t, IntentSettling, got.State)
		require.Nil(t, got.Answer)
		require.Empty(t, got.Owner)
		require.Equal(t, "0x1", got.Transaction)
		require.Equal(t, "reorg", got.Reason)
		requireConsistent(t, l)

		require.NoError(t, l.SettleIntent(ctx, key, "0x9", []byte(`{"new":1}`), EvidenceFacilitator))
		require.JSONEq(t, `{"new":1}`, string(mustIntent(t, l, key).Answer))
		requireConsistent(t, l)
	})
}

func TestOpenIntentsPages(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		ctx := t.Context()
		for _, from := range []string{"0xa", "0xb", "0xc", "0xd", "0xe"} {
			require.NoError(t, l.InsertIntent(ctx, testIntent(from, "0x01")))
		}
		require.NoError(t, l.SettleIntent(ctx, testIntent("0xb", "0x01").IntentKey, "0x1", nil, EvidenceFacilitator))
		require.NoError(t, l.SettleIntent(ctx, testIntent("0xc", "0x01").IntentKey, "0x2", nil, EvidenceChain))
		require.NoError(t, l.RefuseIntent(ctx, testIntent("0xd", "0x01").IntentKey, "expired"))
		payers := func(intents []Intent, err error) (from []string) {
			require.NoError(t, err)
			for _, i := range intents {
				from = append(from, i.From)
			}
			return from
		}
		require.Equal(t, []string{"0xa", "0xe"}, payers(l.OpenIntents(ctx, testOffer, 0, 10)))
		first, err := l.OpenIntents(ctx, testOffer, 0, 1)
		require.Equal(t, []string{"0xa"}, payers(first, err))
		require.Equal(t, []string{"0xe"}, payers(l.OpenIntents(ctx, testOffer, first[0].ID, 1)), "the next page")
		require.Empty(t, payers(l.OpenIntents(ctx, "another", 0, 10)))
	})
}

func TestIntentPayloadDeletedAfterExpiry(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		ctx := t.Context()
		l, clock := d.ledger(t)
		const end = 1_300
		intent := func(payer string, decide func(key IntentKey) error) Intent {
			i := testIntent(payer, "0x01")
			i.ValidBefore, i.Secret, i.Payload, i.Requirement = end, "5ec4e7", []byte(`{"signature":"0x"}`), []byte(`{"amount":"1"}`)
			require.NoError(t, l.InsertIntent(ctx, i))
			require.NoError(t, decide(i.IntentKey))
			return i
		}
		settled := intent("0xa", func(key IntentKey) error { return l.SettleIntent(ctx, key, "0x1", []byte(`{}`), EvidenceFacilitator) })
		refused := intent("0xb", func(key IntentKey) error { return l.RefuseIntent(ctx, key, "expired") })
		open := intent("0xc", func(IntentKey) error { return nil })
		kept := func(i Intent) bool {
			t.Helper()
			stored := mustIntent(t, l, i.IntentKey)
			require.Equal(t, i.Fingerprint, stored.Fingerprint)
			require.Equal(t, i.Secret, stored.Secret, "the payer can come back later")
			require.Equal(t, len(stored.Payload) > 0, len(stored.Requirement) > 0)
			return len(stored.Payload) > 0
		}
		clock.set(end + int64(payloadMargin/time.Second))
		require.NoError(t, l.DeletePayloads(ctx))
		for _, i := range []Intent{settled, refused, open} {
			require.True(t, kept(i), "a day has not passed")
		}
		clock.unix++
		require.NoError(t, l.DeletePayloads(ctx))
		require.False(t, kept(settled))
		require.False(t, kept(refused))
		require.True(t, kept(open), "its outcome is unknown")
		stored := mustIntent(t, l, settled.IntentKey)
		require.Equal(t, `{}`, string(stored.Answer), "who asks again is answered")
		requireConsistent(t, l)
	})
}

func TestCheckWritableErrors(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		require.ErrorIs(t, d.handle(t, d.create(t), time.Now).CheckWritable(t.Context()), ErrNotOpen)
		l, _ := d.ledger(t)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, l.CheckWritable(ended), context.Canceled)
	})
}
