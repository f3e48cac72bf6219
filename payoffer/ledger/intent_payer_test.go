package ledger

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// next is the payer's next authorization, which ends at until.
func next(nonce string, until int64, id string) Intent {
	i := testIntent("0xaa", nonce)
	i.ValidBefore, i.PaymentID = until, id
	return i
}

// requireConflict asks both who only looks and who inserts; "" is for nothing.
func requireConflict(t *testing.T, l *Ledger, nonce string, i Intent) {
	t.Helper()
	other, found := find(l.ConflictingPayment(t.Context(), i))(t)
	require.Equal(t, nonce != "", found)
	require.Equal(t, nonce, other.Nonce)
	if i.Since == 0 {
		look := must(l.LookUp(t.Context(), i))(t)
		require.Nil(t, look.Known)
		require.Equal(t, nonce != "", look.Conflicting != nil)
		if look.Conflicting != nil {
			require.Equal(t, other, *look.Conflicting)
		}
	}
	i.LeaseUntil = l.now().Unix() + 60
	err := l.InsertIntent(t.Context(), i)
	if nonce == "" {
		require.NoError(t, err)
		require.NoError(t, l.WithdrawIntent(t.Context(), i.IntentKey, i.Owner))
		return
	}
	var conflict *ConflictError
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, nonce, conflict.Other.Nonce)
	_, known := find(l.Intent(t.Context(), i.IntentKey))(t)
	require.False(t, known, "it left no row")
}

func TestLookUpFindsAuthorization(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		i := next("0x01", 1_300, "pid")
		require.NoError(t, l.InsertIntent(t.Context(), i))
		look := must(l.LookUp(t.Context(), i))(t)
		stored := mustIntent(t, l, i.IntentKey)
		require.Equal(t, &stored, look.Known)
		require.Equal(t, &stored, look.Conflicting, "it is open")
		require.Equal(t, stored.ID+1, look.Since)
		elsewhere := i
		elsewhere.Network = "eip155:8453"
		look = must(l.LookUp(t.Context(), elsewhere))(t)
		require.Nil(t, look.Known, "the same nonce on another chain")
		elsewhere.From = "0xbb"
		look = must(l.LookUp(t.Context(), elsewhere))(t)
		require.Equal(t, Lookup{Since: 1}, look)
	})
}

func TestUnacknowledgedChargeConflictsWithNext(t *testing.T) {
	sqliteOnly(t, func(t *testing.T, d testDialect) {
		ctx, key := t.Context(), testIntent("0xaa", "0x01").IntentKey
		acknowledge := func(atOnce bool) func(*testing.T, *Ledger, *testClock) {
			return func(t *testing.T, l *Ledger, _ *testClock) { require.NoError(t, l.AcknowledgeIntent(ctx, key, atOnce)) }
		}
		unacknowledge := func(t *testing.T, l *Ledger, _ *testClock) { require.NoError(t, l.UnacknowledgeIntent(ctx, key)) }
		pass := func(seconds int64) func(*testing.T, *Ledger, *testClock) {
			return func(_ *testing.T, _ *Ledger, c *testClock) { c.unix += seconds }
		}
		type steps []func(*testing.T, *Ledger, *testClock)
		for name, c := range map[string]struct {
			steps     steps
			protected bool
		}{
			"never acknowledged":                                           {steps{pass(100_000)}, true},
			"acknowledged at once":                                         {steps{acknowledge(true)}, false},
			"acknowledged at once, then acknowledged again":                {steps{acknowledge(true), acknowledge(false)}, false},
			"acknowledged late":                                            {steps{acknowledge(false)}, true},
			"acknowledged late, less than two minutes ago":                 {steps{acknowledge(false), pass(119)}, true},
			"acknowledged late, two minutes ago":                           {steps{acknowledge(false), pass(120)}, false},
			"acknowledged late again later":                                {steps{acknowledge(false), pass(119), acknowledge(false), pass(1)}, false},
			"unacknowledged, then acknowledged by the first":               {steps{unacknowledge, acknowledge(true), pass(119)}, true},
			"unacknowledged, acknowledged two minutes ago":                 {steps{unacknowledge, acknowledge(true), pass(120)}, false},
			"acknowledged at once, then unacknowledged":                    {steps{acknowledge(true), pass(1_000), unacknowledge, pass(1_000)}, true},
			"acknowledged at once, then unacknowledged, then acknowledged": {steps{acknowledge(true), unacknowledge, acknowledge(false), pass(120)}, false},
		} {
			t.Run(name, func(t *testing.T) {
				l, clock := d.ledger(t)
				require.NoError(t, l.InsertIntent(ctx, next("0x01", 1_300, "")))
				require.NoError(t, l.SettleIntent(ctx, key, "0x1", nil, EvidenceChain))
				for _, step := range c.steps {
					step(t, l, clock)
				}
				want := ""
				if c.protected {
					want = "0x01"
				}
				requireConflict(t, l, want, next("0x02", 200_000, ""))
				requireConflict(t, l, "", next("0x03", 200_000, "a-purchase-of-its-own"))
				other := next("0x02", 200_000, "")
				other.From = "0xbb"
				requireConflict(t, l, "", other)
				requireConsistent(t, l)
			})
		}
	})
}

func TestRejectedPaymentSharesFirstOutcome(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, clock *testClock) {
		ctx, key := t.Context(), testIntent("0xaa", "0x01").IntentKey
		require.NoError(t, l.InsertIntent(ctx, next("0x01", 1_300, "order-1")))
		requireConflict(t, l, "0x01", next("0x02", 1_400, ""))
		requireConflict(t, l, "0x01", next("0x03", 1_400, "order-2"))
		for _, until := range []int64{1_400, 1_350} {
			now := must(l.RecordRejection(ctx, key, until))(t)
			require.Equal(t, IntentSettling, now.State)
		}
		require.NoError(t, l.SettleIntent(ctx, key, "0x1", nil, EvidenceChain))
		require.NoError(t, l.AcknowledgeIntent(ctx, key, true))
		clock.unix += 1_000_000

		requireConflict(t, l, "0x01", next("0x02", 1_400, ""))
		requireConflict(t, l, "0x01", next("0x02", 1_400, "order-1"))
		requireConflict(t, l, "", next("0x02", 1_401, ""))
		requireConflict(t, l, "", next("0x03", 1_400, "order-2"))

		// Where the first was not charged, the others are payments of their own.
		require.ErrorIs(t, errorOf(l.RecordRejection(ctx, testIntent("0xaa", "0x04").IntentKey, 1_400)), ErrNoIntent)
		refused := next("0x05", 2_000_000, "")
		require.NoError(t, l.InsertIntent(ctx, refused))
		now := must(l.RecordRejection(ctx, refused.IntentKey, 2_000_001))(t)
		require.EqualValues(t, 2_000_001, now.RejectedUntil)
		require.NoError(t, l.RefuseIntent(ctx, refused.IntentKey, "expired"))
		requireConflict(t, l, "", next("0x06", 2_000_001, ""))
		requireConsistent(t, l)
	})
}

// What was signed before a charge has that charge as its response, and what was signed after it is a purchase of its own.
// The ends of authorizations show the order of their signatures.
func TestChargeConflictsWithEarlierSignature(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		for name, c := range map[string]struct {
			pause, end, later, otherEnd int64 // seconds from the signature to the charge and after it, and Unix seconds
			other                       string
		}{
			"signed before":                                  {0, 1_300, 250, 1_299, "0x01"},
			"signed in the same second":                      {0, 1_300, 250, 1_300, ""},
			"signed in the same second, charged in the next": {1, 1_300, 0, 1_300, "0x01"},
			"signed after":                                   {1, 1_300, 0, 1_301, ""},
			"signed before one that is longer than a quote":  {0, 1_900, 0, 1_299, "0x01"},
			"signed after one that is longer than a quote":   {0, 1_900, 0, 1_300, ""},
		} {
			t.Run(name, func(t *testing.T) {
				l, clock := d.ledger(t)
				ctx, charged := t.Context(), next("0x01", c.end, "")
				clock.unix += c.pause
				require.NoError(t, l.InsertIntent(ctx, charged))
				require.NoError(t, l.SettleIntent(ctx, charged.IntentKey, "0x1", nil, EvidenceChain))
				require.NoError(t, l.AcknowledgeIntent(ctx, charged.IntentKey, true))
				clock.unix += c.later
				requireConflict(t, l, c.other, next("0x02", c.otherEnd, ""))
				requireConflict(t, l, "", next("0x02", c.otherEnd, "a-purchase-of-its-own"))
				look := must(l.LookUp(ctx, charged))(t)
				require.NotNil(t, look.Known, "its own repetition")
				require.ErrorAs(t, l.InsertIntent(ctx, charged), new(*IntentExistsError))
				requireConsistent(t, l)
			})
		}
	})
}

func TestChargeConflictsWithEarlierLookUp(t *testing.T) {
	onSQLite(t, func(t *testing.T, l *Ledger, _ *testClock) {
		ctx := t.Context()
		for _, nonce := range []string{"0x01", "0x02"} {
			first := next(nonce, 1_300, "")
			before := must(l.LookUp(ctx, first))(t)
			require.Nil(t, before.Known)
			require.NoError(t, l.InsertIntent(ctx, first))
			require.NoError(t, l.SettleIntent(ctx, first.IntentKey, nonce, nil, EvidenceChain))
			require.NoError(t, l.AcknowledgeIntent(ctx, first.IntentKey, true))

			besides := next("0x03", 1_300, "")
			besides.Since = before.Since
			requireConflict(t, l, nonce, besides)
			besides.PaymentID = "a-purchase-of-its-own"
			requireConflict(t, l, "", besides)
			besides.PaymentID, besides.From = "", "0xbb"
			requireConflict(t, l, "", besides)
			after := next("0x03", 1_300, "")
			now := must(l.LookUp(ctx, after))(t)
			after.Since = now.Since
			requireConflict(t, l, "", after)
		}
		requireConsistent(t, l)
	})
}

func TestPaymentConflictsWithEarlierRejected(t *testing.T) {
	onSQLite(t, func(t *testing.T, l *Ledger, clock *testClock) {
		ctx, refused := t.Context(), testIntent("0xaa", "0x01").IntentKey
		require.NoError(t, l.InsertIntent(ctx, next("0x01", 1_100, "")))
		must(l.RecordRejection(ctx, refused, 1_300))(t)
		require.NoError(t, l.RefuseIntent(ctx, refused, "expired"))
		clock.set(1_120)

		first := next("0x02", 1_200, "") // one of those that were turned away
		require.NoError(t, l.InsertIntent(ctx, first))
		require.NoError(t, l.SettleIntent(ctx, first.IntentKey, "0x2", nil, EvidenceChain))
		require.NoError(t, l.AcknowledgeIntent(ctx, first.IntentKey, true))
		requireConflict(t, l, "0x02", next("0x03", 1_420, ""))
		requireConflict(t, l, "", next("0x03", 1_420, "a-purchase-of-its-own"))
		clock.set(1_240)
		requireConflict(t, l, "0x02", next("0x04", 1_300, ""))
		requireConflict(t, l, "", next("0x04", 1_301, ""))

		clock.set(1_301)
		other := next("0x05", 1_600, "")
		require.NoError(t, l.InsertIntent(ctx, other))
		require.False(t, mustIntent(t, l, other.IntentKey).Unacknowledged, "what was turned away has run out")
		requireConsistent(t, l)
	})
}

// The payer of a withdrawn intent may still send it, and what was rejected because of it.
func TestChargeConflictsWithWithdrawnIntent(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		ctx := t.Context()
		for name, c := range map[string]struct {
			facilitator string
			rejected    int64 // the end of a payment that was rejected because of it
			until       int64 // the last end for which the next charge answers; 0 if it was forgotten
		}{
			"suspended":                   {"", 0, 1_700},
			"suspended, another rejected": {"", 1_800, 1_800},
			"unsent, another rejected":    {"facilitator.example", 1_800, 1_800},
			"unsent, no rejection":        {"facilitator.example", 0, 0},
		} {
			t.Run(name, func(t *testing.T) {
				l, clock := d.ledger(t)
				withdrawn := next("0x01", 1_700, "")
				withdrawn.Facilitator = c.facilitator
				require.NoError(t, l.InsertIntent(ctx, withdrawn))
				if c.rejected != 0 {
					must(l.RecordRejection(ctx, withdrawn.IntentKey, c.rejected))(t)
				}
				require.NoError(t, l.WithdrawIntent(ctx, withdrawn.IntentKey, withdrawn.Owner))
				_, known := find(l.Intent(ctx, withdrawn.IntentKey))(t)
				require.False(t, known, "the same authorization can come again")
				requireConsistent(t, l)

				charged := next("0x02", 1_400, "") // it was signed before
				require.NoError(t, l.InsertIntent(ctx, charged))
				require.NoError(t, l.SettleIntent(ctx, charged.IntentKey, "0x2", nil, EvidenceChain))
				require.NoError(t, l.AcknowledgeIntent(ctx, charged.IntentKey, true))
				clock.unix += 200
				if c.until == 0 {
					requireConflict(t, l, "", withdrawn)
					return
				}
				requireConflict(t, l, "0x02", withdrawn)
				requireConflict(t, l, "0x02", next("0x03", c.until, ""))
				requireConflict(t, l, "", next("0x03", c.until+1, ""))
				requireConsistent(t, l)
			})
		}
	})
}

// An authorization that is valid for years is not remembered for years, and the memory ends.
func TestWithdrawnIntentMemoryIsBounded(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, clock *testClock) {
		rows := func() (n int) {
			require.NoError(t, l.db.read.QueryRow(`SELECT count(*) FROM intents`).Scan(&n))
			return n
		}
		long := next("0x01", 1<<62, "")
		long.Facilitator = ""
		for range 3 {
			require.NoError(t, l.InsertIntent(t.Context(), long))
			require.NoError(t, l.WithdrawIntent(t.Context(), long.IntentKey, long.Owner))
			clock.unix += int64(rememberedFor / time.Second)
			require.Equal(t, 1, rows())
		}
		other := next("0x02", 3_000, "")
		require.NoError(t, l.InsertIntent(t.Context(), other))
		require.Zero(t, mustIntent(t, l, other.IntentKey).RejectedUntil)
	})
}

func TestClaimNeedsUniqueTransaction(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		ctx, first, second := t.Context(), testIntent("0xaa", "0x01").IntentKey, testIntent("0xbb", "0x02").IntentKey
		require.NoError(t, l.InsertIntent(ctx, testIntent("0xaa", "0x01")))
		require.NoError(t, l.InsertIntent(ctx, testIntent("0xbb", "0x02")))
		require.NoError(t, l.SettleIntent(ctx, first, "0x1", nil, EvidenceFacilitator))
		require.NoError(t, l.SettleIntent(ctx, first, "0x1", nil, EvidenceFacilitator), "again")
		require.ErrorIs(t, l.SettleIntent(ctx, second, "0x1", []byte(`{}`), EvidenceFacilitator), ErrTransaction)
		got := mustIntent(t, l, second)
		require.Equal(t, IntentSettling, got.State)
		require.Nil(t, got.Answer)
		require.NoError(t, l.SettleIntent(ctx, second, "0x1", nil, EvidenceChain), "one transaction may move money twice")
		requireConsistent(t, l)
	})
}

func TestImportIntentIsSettled(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		ctx := t.Context()
		require.NoError(t, l.InsertIntent(ctx, next("0x01", 1_300, "order-1")), "another one of the payer is open")
		imported := next("0x02", 1_300, "order-1")
		imported.Secret = "of the sender"
		transfer := chainObservation("0xa", StatusConfirmed)
		transfer.Answer = []byte(`{"a":1}`)
		require.NoError(t, l.ImportIntent(ctx, imported, transfer))
		got := mustIntent(t, l, imported.IntentKey)
		require.Equal(t, IntentSettled, got.State)
		require.Equal(t, EvidenceChain, got.Evidence)
		require.Equal(t, transfer.Transaction, got.Transaction)
		require.Empty(t, got.Secret, "the sender may have read the authorization on the chain")
		require.JSONEq(t, `{"a":1}`, string(got.Answer))
		receipts := must(l.Receipts(ctx, testOffer, 0, 10))(t)
		require.Len(t, receipts, 1)
		require.Equal(t, got.ID, *receipts[0].IntentID)
		require.ErrorAs(t, l.ImportIntent(ctx, imported, transfer), new(*IntentExistsError))
		requireConsistent(t, l)

		// The transaction leaves the chain: unknown again, in addition to the other one.
		transfer.State = StatusDropped
		mustRecord(t, l, transfer)
		require.Equal(t, IntentSettling, mustIntent(t, l, imported.IntentKey).State)
		requireConsistent(t, l)
	})
}

// What was rejected is known, and is in the way of nothing.
func TestRejectIntentStoresAuthorization(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		first, rejected := next("0x01", 1_300, "pid"), next("0x02", 1_300, "pid")
		require.NoError(t, l.InsertIntent(t.Context(), first))
		before := mustIntent(t, l, first.IntentKey)
		rejected.Reason = "payer_has_open_payment"
		require.NoError(t, l.RejectIntent(t.Context(), rejected))
		stored := mustIntent(t, l, rejected.IntentKey)
		require.Equal(t, IntentRefused, stored.State)
		require.Equal(t, rejected.Fingerprint, stored.Fingerprint)
		require.Equal(t, rejected.Reason, stored.Reason)
		after := mustIntent(t, l, first.IntentKey)
		require.Equal(t, before, after)

		var exists *IntentExistsError
		require.ErrorAs(t, l.RejectIntent(t.Context(), rejected), &exists)
		require.ErrorAs(t, l.InsertIntent(t.Context(), rejected), &exists)
		require.ErrorAs(t, l.RejectIntent(t.Context(), first), &exists)
		require.NoError(t, l.RefuseIntent(t.Context(), first.IntentKey, "authorization_expired"))
		requireConflict(t, l, "", next("0x03", 1_300, "pid"))
	})
}
