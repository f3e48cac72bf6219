package ledger

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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

func TestAPaymentIsFoundByItsCheckoutAlone(t *testing.T) {
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
			s := checkout(id, "cs_test_"+id, "evt_5") // what anybody could say names nobody's payment
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

func TestChangesGrowWithWhatAReportTellsAlone(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
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
		find(l.LeaseSubscriber(t.Context(), testOffer, "sink", "owner", 1, 2))(t)
		require.Equal(t, last, l.Changes(), "no report tells of a cursor, a lease or what is known")
	})
}
