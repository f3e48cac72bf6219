package ledger

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

func TestRecordIsIdempotent(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, clock *testClock) {
		s := chainObservation("0xa", StatusSeen)
		first := mustRecord(t, l, s)
		clock.set(2_000)
		require.Equal(t, first, mustRecord(t, l, s))
		receipts := must(l.Receipts(t.Context(), testOffer, 0, 10))(t)
		require.Equal(t, []Receipt{first}, receipts, "what Record returns is what is stored")
		require.Equal(t, []string{s.ExternalID + " 1 >seen"}, statuses(t, l))
	})
}

func TestRecordChainStatusCanRevert(t *testing.T) {
	onSQLite(t, func(t *testing.T, l *Ledger, _ *testClock) {
		id := chainObservation("0xa", StatusSeen).ExternalID
		for _, state := range []Status{StatusSeen, StatusConfirmed, StatusDropped, StatusSeen, StatusConfirmed} {
			require.Equal(t, state, mustRecord(t, l, chainObservation("0xa", state)).Status)
			requireConsistent(t, l)
		}
		moved := chainObservation("0xa", StatusConfirmed)
		moved.Evidence, moved.Final = json.RawMessage(`{"block":8}`), true
		require.True(t, mustRecord(t, l, moved).Final)
		require.Equal(t, StatusConfirmed, mustRecord(t, l, chainObservation("0xa", StatusDropped)).Status, "final is final")
		require.Equal(t, []string{
			id + " 1 >seen", id + " 2 seen>confirmed", id + " 3 confirmed>dropped", id + " 4 dropped>seen",
			id + " 5 seen>confirmed",
		}, statuses(t, l))
		unfinal := must(l.Unfinal(t.Context(), testOffer, testAccount, 10))(t)
		require.Empty(t, unfinal)
	})
}

// The money of one output stands once, whichever account of the offer brings it first.
func TestRecordOnceIsUniquePerOffer(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		for offer, account := range map[string]string{testOffer: "second", "other": "third"} {
			require.NoError(t, l.Register(t.Context(), Account{Offer: offer, ID: account, Rail: "usdc"}))
		}
		of := func(offer, account string, state Status) Observation {
			s := chainObservation("0xa", state)
			s.Offer, s.Account, s.Once = offer, account, true
			return s
		}
		mustRecord(t, l, of(testOffer, testAccount, StatusSeen))
		none := must(l.Record(t.Context(), nil, of(testOffer, "second", StatusConfirmed)))(t)
		require.Empty(t, none)
		require.Equal(t, StatusConfirmed, mustRecord(t, l, of(testOffer, testAccount, StatusConfirmed)).Status, "its own row goes on")
		require.Equal(t, "other", mustRecord(t, l, of("other", "third", StatusSeen)).Offer, "another offer is another matter")
		requireConsistent(t, l)

		// Of two that come at once one stays.
		var both sync.WaitGroup
		for _, account := range []string{testAccount, "second"} {
			both.Go(func() {
				s := of(testOffer, account, StatusSeen)
				s.ExternalID = "at once"
				_, err := l.Record(t.Context(), nil, s)
				assert.NoError(t, err)
			})
		}
		both.Wait()
		receipts := must(l.Receipts(t.Context(), testOffer, 0, 10))(t)
		require.Len(t, receipts, 2)
	})
}

func TestTotalsByClassification(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		own := chainObservation("0xb", StatusConfirmed)
		own.Own = true
		unknown := chainObservation("0xc", StatusConfirmed)
		unknown.USDCents = nil
		manual := cardObservation("pi_1", StatusConfirmed)
		manual.EvidenceLevel = LevelManual
		partly := cardObservation("pi_2", StatusConfirmed)
		partly.Returns = []Return{{ID: "re_1", Kind: ReturnRefund, Amount: 1_000, Gone: true}}
		for _, s := range []Observation{chainObservation("0xa", StatusConfirmed), own, unknown, manual, partly} {
			mustRecord(t, l, s)
		}
		require.NoError(t, l.InsertIntent(t.Context(), testIntent("0xaa", "0x01")))
		require.NoError(t, l.InsertIntent(t.Context(), testIntent("0xbb", "0x01")))
		require.NoError(t, l.SettleIntent(t.Context(), testIntent("0xbb", "0x01").IntentKey, "0x1", nil, EvidenceFacilitator))
		totals := must(l.Totals(t.Context(), testOffer))(t)
		at := func(account, rail string, status Status, level EvidenceLevel) accounting.BalanceKey {
			return accounting.BalanceKey{Offer: testOffer, Account: account, Rail: rail, Classification: accounting.Classification{Status: status, EvidenceLevel: level, Testnet: rail == "usdc"}}
		}
		confirmed, one := at(testAccount, "usdc", StatusConfirmed, LevelChain), accounting.Sum{Count: 1, Amount: 42_000_000, USDCents: 4200}
		mine := confirmed
		mine.Own = true
		require.Equal(t, []Total{
			{BalanceKey: at(testAccount, "usdc", StatusClaimed, ""), Sum: one},
			{BalanceKey: confirmed, Sum: accounting.Sum{Count: 2, Amount: 84_000_000, USDCents: 4200, UnknownUSD: 1}},
			{BalanceKey: mine, Sum: one},
			{BalanceKey: at(testAccount, "usdc", StatusSettling, ""), Sum: one},
			{BalanceKey: at(cardAccount, "card", StatusConfirmed, LevelManual), Sum: accounting.Sum{Count: 1, Amount: 4200, USDCents: 4200}},
			{
				BalanceKey: at(cardAccount, "card", StatusConfirmed, LevelSigned),
				Sum:        accounting.Sum{Count: 1, Amount: 4200, Refunded: 1_000, USDCents: 4200, RefundedCents: 1_000},
			},
		}, totals)
		requireConsistent(t, l)
	})
}

func TestRecordTransferSettlesIntent(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, clock *testClock) {
		key := testIntent("0xaa", "0x01").IntentKey
		require.NoError(t, l.InsertIntent(t.Context(), testIntent("0xaa", "0x01")))
		require.NoError(t, l.SettleIntent(t.Context(), key, "0xlie", []byte(`{"a":1}`), EvidenceFacilitator))

		s := chainObservation("0xa", StatusSeen)
		s.Intent = &IntentKey{Network: key.Network, Asset: strings.ToUpper(key.Asset), From: key.From, Nonce: key.Nonce}
		clock.set(1_500)
		mustRecord(t, l, s)
		got := mustIntent(t, l, key)
		require.Equal(t, EvidenceChain, got.Evidence)
		require.EqualValues(t, 1_500, got.UpdatedAt)
		require.Equal(t, "0xa", got.Transaction)
		unproven := must(l.TakeDueClaims(t.Context(), testOffer, testAccount, 10))(t)
		require.Empty(t, unproven)
		requireConsistent(t, l)

		// The transaction leaves the chain, and another one uses the authorization.
		s.State = StatusDropped
		mustRecord(t, l, s)
		got = mustIntent(t, l, key)
		require.Equal(t, IntentSettling, got.State)
		require.Nil(t, got.Answer)
		requireConsistent(t, l)
		again := chainObservation("0xb", StatusConfirmed)
		again.Intent = &key
		mustRecord(t, l, again)
		require.Equal(t, "0xb", mustIntent(t, l, key).Transaction)
		mustRecord(t, l, s)
		require.Equal(t, IntentSettled, mustIntent(t, l, key).State, "the first row has no say any more")
		requireConsistent(t, l)
	})
}

func TestRecordFinalReceiptKeepsIntent(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		for name, c := range map[string]struct {
			final bool
			want  string
		}{"moves": {false, "0xb"}, "stays": {true, "0xa"}} {
			t.Run(name, func(t *testing.T) {
				l, _ := d.ledger(t)
				key := testIntent("0xaa", "0x01").IntentKey
				require.NoError(t, l.InsertIntent(t.Context(), testIntent("0xaa", "0x01")))
				a, b := chainObservation("0xa", StatusConfirmed), chainObservation("0xb", StatusConfirmed)
				a.Intent, b.Intent, a.Final = &key, &key, c.final
				mustRecord(t, l, a)
				mustRecord(t, l, b)
				require.Equal(t, c.want, mustIntent(t, l, key).Transaction)
				requireConsistent(t, l)
			})
		}
	})
}

func TestReceiptLinksOneIntent(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		first, second := testIntent("0xaa", "0x01"), testIntent("0xbb", "0x01")
		require.NoError(t, l.InsertIntent(t.Context(), first))
		require.NoError(t, l.InsertIntent(t.Context(), second))
		s := chainObservation("0xa", StatusSeen)
		for _, key := range []IntentKey{first.IntentKey, second.IntentKey, {Network: "eip155:1"}} {
			s.Intent = &key
			mustRecord(t, l, s)
		}
		require.Equal(t, IntentSettled, mustIntent(t, l, first.IntentKey).State)
		require.Equal(t, IntentSettling, mustIntent(t, l, second.IntentKey).State)

		elsewhere := chainObservation("0xb", StatusSeen)
		elsewhere.Account, elsewhere.Intent = cardAccount, &second.IntentKey
		mustRecord(t, l, elsewhere)
		require.Equal(t, IntentSettling, mustIntent(t, l, second.IntentKey).State)
		requireConsistent(t, l)
	})
}

func TestRecordMovesCursorAtomically(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		_, found := find(l.Cursor(t.Context(), testOffer, testAccount))(t)
		require.False(t, found)

		cursor := Cursor{Offer: testOffer, Account: testAccount, Position: "7", Anchor: "0xhash", OKAt: 1_000}
		must(l.Record(t.Context(), &cursor, chainObservation("0xa", StatusSeen)))(t)
		next := cursor
		next.Position, next.OKAt = "8", 1_060
		bad := chainObservation("0xb", StatusSeen)
		bad.Account = "unregistered"
		_, err := l.Record(t.Context(), &next, chainObservation("0xc", StatusSeen), bad)
		require.ErrorIs(t, err, errNotRegistered)
		got, found := find(l.Cursor(t.Context(), testOffer, testAccount))(t)
		require.True(t, found)
		require.Equal(t, cursor, got)
		require.Len(t, statuses(t, l), 1, "nothing of the failed batch is stored")

		must(l.Record(t.Context(), &next))(t)
		got, _ = find(l.Cursor(t.Context(), testOffer, testAccount))(t)
		require.Equal(t, next, got)
		_, err = l.Record(t.Context(), &Cursor{Offer: "other", Account: testAccount})
		require.ErrorIs(t, err, errNotRegistered)
	})
}

func TestRecordInvalidBatchStoresNothing(t *testing.T) {
	onSQLite(t, func(t *testing.T, l *Ledger, _ *testClock) {
		s := chainObservation("0xa", StatusSeen)
		s.Payer = "0x\x00"
		require.ErrorIs(t, errorOf(l.Record(t.Context(), nil, chainObservation("0xb", StatusSeen), s)), ErrObservation)
		require.Empty(t, statuses(t, l))
	})
}

func TestReceiptAndTransitionPaging(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		var observations []Observation
		for _, tx := range strings.Split("abcdefg", "") {
			observations = append(observations, chainObservation(tx, StatusSeen))
		}
		must(l.Record(t.Context(), nil, observations...))(t)
		var order, events string
		for before := int64(0); ; {
			page := must(l.Receipts(t.Context(), testOffer, before, 3))(t)
			if len(page) == 0 {
				break
			}
			for _, r := range page {
				order += r.Transaction
			}
			before = page[len(page)-1].ID
		}
		require.Equal(t, "gfedcba", order)
		for after := int64(0); ; {
			page := must(l.Transitions(t.Context(), testOffer, after, 2))(t)
			if len(page) == 0 {
				break
			}
			for _, tr := range page {
				require.Greater(t, tr.Seq, after)
				after = tr.Seq
				events += strings.Split(tr.ExternalID, ":")[2]
			}
		}
		require.Equal(t, "abcdefg", events)
		unfinal := must(l.Unfinal(t.Context(), testOffer, testAccount, 2))(t)
		require.Len(t, unfinal, 2)
		none := must(l.Receipts(t.Context(), "other", 0, 10))(t)
		require.Empty(t, none)
	})
}

func TestAccountOriginAndOfferAreFixed(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		ctx := t.Context()
		stored := must(l.SetOrigin(ctx, testOffer, testAccount, "100"))(t)
		require.Equal(t, "100", stored)
		require.NoError(t, l.Register(ctx, Account{Offer: testOffer, ID: testAccount, Rail: "usdc", Origin: "5"}))
		stored = must(l.SetOrigin(ctx, testOffer, testAccount, "200"))(t)
		require.Equal(t, "100", stored, "the first start decides")

		err := l.Register(ctx, Account{Offer: "b", ID: "fresh", Rail: "btc"}, Account{Offer: "b", ID: testAccount, Rail: "usdc"})
		require.ErrorContains(t, err, `"`+testOffer+`"`)
		require.ErrorContains(t, err, `"b"`)
		_, err = l.SetOrigin(ctx, "b", "fresh", "1")
		require.ErrorIs(t, err, errNotRegistered, "all accounts are registered, or none")
		require.Error(t, l.Register(ctx, Account{Offer: "b", ID: "fresh"}))
	})
}

// The operator decided on the version that he saw.
func TestRecordChecksExpectedVersion(t *testing.T) {
	onSQLite(t, func(t *testing.T, l *Ledger, _ *testClock) {
		entry := func(version int64, s Observation) Observation {
			s.EvidenceLevel, s.ExpectedVersion = LevelManual, &version
			return s
		}
		mustRecord(t, l, entry(0, cardObservation("INV-7", StatusConfirmed)))
		before := dump(t, l)
		correction := cardObservation("INV-7", StatusConfirmed)
		correction.Revision = 1
		for _, late := range []Observation{
			entry(0, cardObservation("INV-7", StatusConfirmed)), entry(2, correction), entry(1, cardObservation("INV-8", StatusConfirmed)),
			entry(1, returned("INV-8", Return{ID: "operator", Kind: ReturnReversal, Gone: true, At: 5})),
		} {
			require.ErrorIs(t, errorOf(l.Record(t.Context(), nil, late)), ErrChanged)
		}
		require.Equal(t, before, dump(t, l))
		require.EqualValues(t, 2, mustRecord(t, l, entry(1, correction)).Version)
	})
}
