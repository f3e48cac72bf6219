package ledger

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/observations"
)

func requirePayment(t *testing.T, l *Ledger, account, name string) Payment {
	t.Helper()
	p, found := find(l.Payment(t.Context(), testOffer, account, name))(t)
	require.True(t, found)
	require.Equal(t, testOffer, p.Offer)
	return p
}

// TestPaymentNameIsStable follows an authorization from its intent over two
// transactions, of which the first leaves the chain.
func TestPaymentNameIsStable(t *testing.T) {
	onSQLite(t, func(t *testing.T, l *Ledger, _ *testClock) {
		network, _, err := offer.ParseUSDCAccount(testAccount)
		require.NoError(t, err)
		nonce := observations.Nonce(15)
		name := AuthorizationName("0xAA", strings.ToUpper(nonce))
		_, found := find(l.Payment(t.Context(), testOffer, testAccount, name))(t)
		require.False(t, found)

		i := testIntent("0xAA", nonce)
		i.IntentKey = IntentKey{Network: network.CAIP2(), Asset: network.USDC, From: "0xAA", Nonce: nonce}
		i.Secret = "5ec4e7"
		require.NoError(t, l.InsertIntent(t.Context(), i))
		requireState := func(status Status, transaction string, state IntentState) Payment {
			t.Helper()
			p := requirePayment(t, l, testAccount, name)
			require.Equal(t, status, p.Status)
			require.Equal(t, transaction, p.Transaction)
			require.NotNil(t, p.Intent)
			require.Equal(t, state, p.Intent.State)
			require.Equal(t, "5ec4e7", p.Intent.Secret)
			require.Equal(t, name, p.Name())
			require.Equal(t, "usdc", p.Rail)
			require.True(t, p.Testnet)
			return p
		}
		p := requireState(StatusSettling, "", IntentSettling)
		require.EqualValues(t, 42_000_000, p.Amount)
		require.Equal(t, "x402", p.Via)
		require.Zero(t, p.ID)
		require.NoError(t, l.SettleIntent(t.Context(), i.IntentKey, "0x1", []byte(`{}`), EvidenceFacilitator))
		p = requireState(StatusClaimed, "0x1", IntentSettled)
		require.EqualValues(t, EvidenceFacilitator, p.EvidenceLevel)

		observe := func(transaction string, state Status) {
			t.Helper()
			s := chainObservation(transaction, state)
			s.Payer, s.Nonce, s.Intent = "0xaa", nonce, &i.IntentKey
			mustRecord(t, l, s)
		}
		observe("0x1", StatusSeen)
		requireState(StatusSeen, "0x1", IntentSettled)
		observe("0x1", StatusDropped)
		requireState(StatusSettling, "", IntentSettling) // the authorization may be paid again
		observe("0x2", StatusConfirmed)
		require.NotZero(t, requireState(StatusConfirmed, "0x2", IntentSettled).ID)
		observe("0x2", StatusDropped)
		require.NoError(t, l.RefuseIntent(t.Context(), i.IntentKey, "expired"))
		require.NotZero(t, requireState(StatusDropped, "0x2", IntentRefused).ID, "the receipt says more than the intent")
	})
}

func TestPaymentLookupByNameAndOffer(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		former := strings.Replace(testAccount, "0x1", "0x2", 1) // pays another address
		card := mustRecord(t, l, cardObservation("pi_1", StatusConfirmed))
		plain := mustRecord(t, l, chainObservation("0xa", StatusConfirmed))
		elsewhere := chainObservation("0xb", StatusConfirmed) // an authorization that was not sent here
		elsewhere.Payer, elsewhere.Nonce = "0xaa", observations.Nonce(1)
		authorized := mustRecord(t, l, elsewhere)
		refused := testIntent("0xbb", "0x02")
		network, _, err := offer.ParseUSDCAccount(testAccount)
		require.NoError(t, err)
		refused.Network, refused.Asset = network.CAIP2(), network.USDC
		require.NoError(t, l.InsertIntent(t.Context(), refused))
		require.NoError(t, l.RefuseIntent(t.Context(), refused.IntentKey, "expired"))

		for _, want := range []Receipt{card, plain, authorized} {
			p := requirePayment(t, l, want.Account, want.Name())
			require.Equal(t, want, p.Receipt)
			require.Nil(t, p.Intent)
			_, found := find(l.Payment(t.Context(), "other-offer", want.Account, want.Name()))(t)
			require.False(t, found)
		}
		p := requirePayment(t, l, testAccount, AuthorizationName("0xbb", "0x02"))
		require.Equal(t, StatusDropped, p.Status)
		require.Equal(t, IntentRefused, p.Intent.State)

		for _, unknown := range []struct{ offer, account, name string }{
			{testOffer, cardAccount, plain.Name()}, {testOffer, testAccount, card.Name()}, {testOffer, former, authorized.Name()},
			{testOffer, former, AuthorizationName("0xbb", "0x02")}, {"other-offer", testAccount, AuthorizationName("0xbb", "0x02")},
			{testOffer, cardAccount, "x/1"}, {testOffer, cardAccount, "r/"}, {testOffer, testAccount, "a/0xaa"},
			{testOffer, testAccount, "a/0xpayer/"}, {testOffer, testAccount, ""},
		} {
			p, found := find(l.Payment(t.Context(), unknown.offer, unknown.account, unknown.name))(t)
			require.False(t, found, unknown)
			require.Zero(t, p)
		}
	})
}

// checkout is a card payment as the processor tells of it: by an event, or read
// back.
func checkout(id, session, event string) Observation {
	s := cardObservation(id, StatusConfirmed)
	s.Evidence = json.RawMessage(`{"session":"` + session + `"}`)
	if s.EvidenceLevel = LevelProvider; event != "" {
		s.EvidenceLevel, s.Evidence = LevelSigned, json.RawMessage(`{"session":"`+session+`","event":"`+event+`"}`)
	}
	return s
}

func TestSessionReceiptLookup(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		const other = "other.example"
		require.NoError(t, l.Register(t.Context(), Account{Offer: other, ID: "plink_2", Rail: "card"}))
		found := func(offer, session string) string {
			r, _ := find(l.SessionReceipt(t.Context(), offer, session))(t)
			return r.ExternalID
		}
		longest := "cs_" + strings.Repeat("x", 252)
		mustRecord(t, l, checkout("pi_1", "cs_test_a", "evt_1"))
		mustRecord(t, l, checkout("pi_2", "cs_test_ab", ""))
		mustRecord(t, l, checkout("pi_3", longest, "evt_"+longest[4:]))
		foreign := checkout("pi_4", "cs_test_foreign", "evt_4")
		foreign.Offer, foreign.Account = other, "plink_2"
		mustRecord(t, l, foreign)
		for id, evidence := range map[string]string{
			"pi_none": ``, "pi_number": `7`, "pi_null": `{"session":null}`, "pi_deep": strings.Repeat("[", 2000) + strings.Repeat("]", 2000),
			"pi_long": `"` + strings.Repeat("\U0001F600", 1000) + `"`,
		} {
			s := cardObservation(id, StatusConfirmed)
			s.Evidence = json.RawMessage(evidence)
			mustRecord(t, l, s)
		}
		for id, level := range map[string]EvidenceLevel{"pi_manual": LevelManual} {
			s := checkout(id, "cs_test_"+id, "evt_5") // an operator can enter any session
			s.EvidenceLevel = level
			mustRecord(t, l, s)
		}
		elsewhere := checkout("eip155:84532:0xa:0", "cs_test_elsewhere", "evt_6")
		elsewhere.Account, elsewhere.Rail = testAccount, "usdc"
		mustRecord(t, l, elsewhere)

		require.Equal(t, "pi_1", found(testOffer, "cs_test_a"))
		require.Equal(t, "pi_2", found(testOffer, "cs_test_ab"))
		require.Equal(t, "pi_3", found(testOffer, longest))
		require.Equal(t, "pi_4", found(other, "cs_test_foreign"))
		for _, session := range []string{
			"cs_test_", "cs_test_abc", "cs_test_foreign", "CS_TEST_A", "cs_test_pi_manual", "cs_test_elsewhere",
			"", "%", "cs_test_%", "cs_test__", longest[:254], longest + "x",
		} {
			require.Empty(t, found(testOffer, session), session)
		}
		require.Empty(t, found(other, "cs_test_a"))
	})
}

func TestChangesCountsOnlyReportedData(t *testing.T) {
	onSQLite(t, func(t *testing.T, l *Ledger, _ *testClock) {
		last := l.Changes()
		require.Positive(t, last, "it was opened")
		grows := func(what string) {
			t.Helper()
			require.Greater(t, l.Changes(), last, what)
			last = l.Changes()
		}
		place := must(l.Last(t.Context(), testOffer))(t)
		require.Zero(t, place)

		mustRecord(t, l, checkout("pi_1", "cs_1", "evt_1"))
		grows("a receipt")
		mustRecord(t, l, returned("pi_1", Return{ID: "ch_1", Kind: ReturnTotal, Amount: 1_000, Gone: true, At: 2_000}))
		grows("a refund")
		require.NoError(t, l.InsertIntent(t.Context(), testIntent("0xpayer", "0x01")))
		grows("an intent, which stands in the sums")
		require.NoError(t, l.WithdrawIntent(t.Context(), testIntent("0xpayer", "0x01").IntentKey, "attempt-1"))
		grows("a withdrawn intent, which does not")
		require.NoError(t, l.InsertIntent(t.Context(), testIntent("0xpayer", "0x01")))
		grows("an intent")
		require.NoError(t, l.SettleIntent(t.Context(), testIntent("0xpayer", "0x01").IntentKey, "0x1", nil, EvidenceFacilitator))
		grows("a claim")
		entered := cardObservation("sale", StatusSeen)
		entered.EvidenceLevel = LevelManual
		mustRecord(t, l, entered)
		grows("an entry")
		must(l.Redact(t.Context(), testOffer, cardAccount, "sale", "redacted", ""))(t)
		grows("another name")
		transitions := must(l.Transitions(t.Context(), testOffer, 0, 100))(t)
		place = must(l.Last(t.Context(), testOffer))(t)
		require.Equal(t, transitions[len(transitions)-1].Bookmark(), place)

		must(l.Record(t.Context(), &Cursor{Offer: testOffer, Account: testAccount, Position: "8", OKAt: 1}))(t)
		mustRecord(t, l, checkout("pi_1", "cs_1", "evt_1"))
		find(l.LeaseSubscriber(t.Context(), testOffer, "subscriber", "owner", 1, 2))(t)
		require.Equal(t, last, l.Changes(), "no report tells of a cursor, a lease or what is known")
	})
}

func TestAuthorizationReceiptUntilDropped(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		receipt := func(account, payer, nonce string) (Receipt, bool) {
			t.Helper()
			r, found := find(l.AuthorizationReceipt(t.Context(), account, payer, nonce))(t)
			return r, found
		}
		nonce := observations.Nonce(0xabc)
		paid := chainObservation("0xa", StatusSeen)
		mustRecord(t, l, paid)
		_, found := receipt(testAccount, "0xpayer", nonce)
		require.False(t, found)
		_, found = receipt(testAccount, "0xpayer", "")
		require.False(t, found, "no nonce is no authorization")

		paid.Nonce = nonce
		want := mustRecord(t, l, paid)
		require.Equal(t, nonce, want.Nonce)
		got, found := receipt(testAccount, "0xPAYER", strings.ToUpper(nonce))
		require.True(t, found)
		require.Equal(t, want, got)
		for _, other := range [][3]string{
			{cardAccount, "0xpayer", nonce}, {testAccount, "0xother", nonce}, {testAccount, "0xpayer", observations.Nonce(1)},
		} {
			_, found = receipt(other[0], other[1], other[2])
			require.False(t, found)
		}

		mustRecord(t, l, chainObservation("0xa", StatusDropped))
		_, found = receipt(testAccount, "0xpayer", nonce)
		require.False(t, found)
		again := chainObservation("0xb", StatusSeen)
		again.Nonce = nonce
		mustRecord(t, l, again)
		mustRecord(t, l, chainObservation("0xa", StatusConfirmed))
		got, found = receipt(testAccount, "0xpayer", nonce)
		require.True(t, found)
		require.Equal(t, "0xb", got.Transaction, "the newest")
	})
}

func TestSnapshotIsConsistent(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		var batch []Observation
		for n := range snapshotPage + 3 {
			batch = append(batch, cardObservation(fmt.Sprint("pi_", n), StatusSeen))
		}
		must(l.Record(t.Context(), nil, batch...))(t)
		mustRecord(t, l, cardObservation("pi_7", StatusConfirmed))
		totals := must(l.Totals(t.Context(), testOffer))(t)

		s := must(l.Snapshot(t.Context(), testOffer))(t)
		defer s.Close()
		mustRecord(t, l, cardObservation("pi_8", StatusConfirmed))
		mustRecord(t, l, cardObservation("later", StatusConfirmed))

		require.Equal(t, totals, s.Totals)
		read, last := 0, int64(0)
		for r, err := range s.Receipts(t.Context()) {
			require.NoError(t, err)
			require.Greater(t, r.ID, last, "oldest first")
			last = r.ID
			require.Len(t, r.History, int(r.Version))
			require.Equal(t, r.ExternalID == "pi_7", r.Status == StatusConfirmed)
			for i, tr := range r.History {
				require.Equal(t, r.ID, tr.ReceiptID)
				require.EqualValues(t, i+1, tr.Version)
			}
			read++
		}
		require.Equal(t, len(batch), read)
	})
}

func TestQuotedFindsLargestPaidQuote(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, clock *testClock) {
		note := func(satoshis, cents, at int64) {
			require.NoError(t, l.StoreQuote(t.Context(), testOffer, satoshis, cents, at))
		}
		quoted := func(satoshis, since, until int64) any {
			q, found := find(l.Quoted(t.Context(), testOffer, satoshis, since, until))(t)
			if !found {
				require.Zero(t, q)
				return nil
			}
			require.LessOrEqual(t, q.Satoshis*99, satoshis*100)
			return q.USDCents
		}
		note(46_667, 4_200, 1_000)
		note(46_667, 4_300, 2_000)
		note(46_668, 4_400, 3_000)
		note(46_667, 4_301, 2_000)
		require.EqualValues(t, 4_301, quoted(46_667, 0, 9_000), "the newest, as it was noted last")
		require.EqualValues(t, 4_200, quoted(46_667, 1_000, 1_999))
		require.EqualValues(t, 4_200, quoted(46_667, 1_000, 1_000))
		require.EqualValues(t, 4_400, quoted(46_667, 2_001, 9_000), "a satoshi less")
		require.EqualValues(t, 4_400, quoted(46_668, 0, 9_000))
		require.EqualValues(t, 4_400, quoted(99_999, 0, 9_000), "the most satoshis that were paid")
		require.EqualValues(t, 4_301, quoted(99_999, 0, 2_999), "of those in time")
		require.EqualValues(t, 4_301, quoted(46_666, 0, 9_000), "the nearest that lacks at most one percent")
		require.EqualValues(t, 4_301, quoted(46_201, 0, 9_000), "one percent")
		require.Nil(t, quoted(46_200, 0, 9_000), "more than one percent")
		require.Nil(t, quoted(46_666, 2_001, 2_999), "which was not in force")
		_, found := find(l.Quoted(t.Context(), "other", 46_667, 0, 9_000))(t)
		require.False(t, found)

		note(46_000, 4_100, 4_000)
		note(46_300, 4_150, 4_000)
		require.EqualValues(t, 4_100, quoted(46_299, 4_000, 4_000), "one that was paid, although another one is nearer")

		clock.set(2_000 + quoteDays*24*60*60)
		note(1, 1, 2_000+quoteDays*24*60*60)
		require.Nil(t, quoted(46_667, 0, 1_999), "30 days old")
		require.EqualValues(t, 4_301, quoted(46_667, 0, 9_000))
	})
}
