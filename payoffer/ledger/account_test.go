package ledger

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

func TestRegisterKeepsFirstSince(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		register := func(id string, since int64, origin string) Account {
			require.NoError(t, l.Register(t.Context(), Account{Offer: testOffer, ID: id, Rail: id, Since: since, Origin: origin}))
			return must(l.Account(t.Context(), testOffer, id))(t)
		}
		require.EqualValues(t, 500, register("a", 500, "").Since)
		require.EqualValues(t, 500, register("a", 600, "").Since, "a second start is no first one")
		require.Zero(t, register("b", 0, "7").Since)
		require.Zero(t, register("b", 600, "").Since, "an origin that was found before starts were kept stays without one")
		_, err := l.Account(t.Context(), "other", "a")
		require.ErrorIs(t, err, errNotRegistered)
	})
}

func TestLowerOriginResetsCursorOnce(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		lower := func(to string) bool {
			t.Helper()
			return must(l.LowerOrigin(t.Context(), testOffer, testAccount, to))(t)
		}
		record := func(upon *string, position string) string {
			t.Helper()
			s := chainObservation("0x"+position, StatusSeen)
			_, err := l.Record(t.Context(), &Cursor{Offer: testOffer, Account: testAccount, Position: position, ExpectedPosition: upon}, s)
			require.NoError(t, err)
			stored, _ := find(l.Cursor(t.Context(), testOffer, testAccount))(t)
			return stored.Position
		}
		require.False(t, lower("900"), "there was none to be lowered")
		require.True(t, lower("800"))
		require.Equal(t, "1", record(ptr(""), "1"))
		require.Equal(t, "2", record(ptr("1"), "2"))
		require.Equal(t, "2", record(ptr("1"), "3"), "another instance moved the cursor")
		require.False(t, lower("800"))
		require.False(t, lower("1000"), "an origin is never raised")
		require.Equal(t, "2", record(ptr("1"), "4"), "the cursor stays")
		require.True(t, lower("99"))
		require.Empty(t, record(ptr("2"), "5"), "a cycle that began before")
		require.Equal(t, "6", record(ptr(""), "6"))
		require.False(t, lower("99"), "once")
		require.Equal(t, "7", record(nil, "7"))
		a := must(l.Account(t.Context(), testOffer, testAccount))(t)
		require.Equal(t, "99", a.Origin)
		receipts := must(l.Receipts(t.Context(), testOffer, 0, 100))(t)
		require.Len(t, receipts, 7, "rows stay")
		requireConsistent(t, l)
		for _, bad := range []string{"", "-1", "x", "1.5"} {
			require.Error(t, errorOf(l.LowerOrigin(t.Context(), testOffer, testAccount, bad)), bad)
		}
		_, err := l.LowerOrigin(t.Context(), testOffer, "nowhere", "1")
		require.ErrorIs(t, err, errNotRegistered)
	})
}

func TestCursorWithOldOriginIsIgnored(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		lower := func(to string) {
			t.Helper()
			lowered := must(l.LowerOrigin(t.Context(), testOffer, testAccount, to))(t)
			require.True(t, lowered)
		}
		stored := func() string {
			t.Helper()
			c, _ := find(l.Cursor(t.Context(), testOffer, testAccount))(t)
			return c.Position + c.Anchor
		}
		record := func(origin string, upon *string, position string) error {
			_, err := l.Record(t.Context(), &Cursor{Offer: testOffer, Account: testAccount, Position: position, Origin: origin, ExpectedPosition: upon})
			return err
		}
		move := func(origin, upon, position string) error {
			return l.MoveCursors(t.Context(), Cursor{Offer: testOffer, Account: testAccount, Position: position, Origin: origin, ExpectedPosition: &upon})
		}
		must(l.SetOrigin(t.Context(), testOffer, testAccount, "10000"))(t)
		lower("9000")
		require.NoError(t, record("10000", ptr(""), "1"))
		require.NoError(t, record("10000", nil, "2"))
		require.NoError(t, move("10000", "", "3"))
		require.Empty(t, stored(), "without a former cursor")
		require.NoError(t, move("9000", "", "4"))
		require.NoError(t, record("9000", ptr("4"), "5"))
		require.Equal(t, "5", stored())
		lower("8000")
		require.NoError(t, record("9000", ptr("5"), "6"))
		require.NoError(t, record("9000", ptr(""), "7"))
		require.NoError(t, move("9000", "5", "8"))
		require.NoError(t, move("9000", "", "9"))
		require.Empty(t, stored(), "with a former cursor")

		// Whichever comes first, the cursor is gone at the end.
		for origin := 8000; origin > 8000-cases.Of(15, 50, 500); origin-- {
			before, position := strconv.Itoa(origin), strconv.Itoa(origin+5000)
			errs := make([]error, 3)
			var all sync.WaitGroup
			all.Go(func() { errs[0] = record(before, ptr(""), position) })
			all.Go(func() { errs[1] = move(before, "", position) })
			all.Go(func() { _, errs[2] = l.LowerOrigin(t.Context(), testOffer, testAccount, strconv.Itoa(origin-1)) })
			all.Wait()
			for _, err := range errs {
				require.NoError(t, err)
			}
			require.Empty(t, stored())
		}

		// An address index is not lost.
		_, err := l.Record(t.Context(), &Cursor{Offer: testOffer, Account: testAccount, Position: `{"index":3}`, Anchor: "0x1"})
		require.NoError(t, err)
		lower("7")
		require.Equal(t, `{"index":3}`, stored(), "without its anchor")
	})
}

func TestAccountStatesOfOneChain(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		const prefix = "eip155:8453/erc20:0xtoken/"
		names := []string{"open", "ahead", "none", "final", "alike", "dropped"}
		for _, name := range names {
			require.NoError(t, l.Register(t.Context(), Account{Offer: name, ID: prefix + name, Rail: "usdc"}))
			if name != "none" {
				at := map[string]string{"ahead": "12"}[name]
				if at == "" {
					at = "10"
				}
				_, err := l.Record(t.Context(), &Cursor{Offer: name, Account: prefix + name, Position: at, Anchor: "0x" + at, Witnessed: "9"})
				require.NoError(t, err)
			}
		}
		for name, s := range map[string]Observation{
			"open": chainObservation("0xa", StatusSeen), "final": chainObservation("0xb", StatusConfirmed), "dropped": chainObservation("0xc", StatusDropped),
		} {
			s.Offer, s.Account, s.Final = name, prefix+name, name == "final"
			mustRecord(t, l, s)
		}
		rows := must(l.AccountStates(t.Context(), prefix))(t)
		states := map[string]string{}
		for _, s := range rows {
			require.Equal(t, prefix+s.Offer, s.ID)
			states[s.Offer] = fmt.Sprint(s.Cursor.Position, " ", s.Cursor.Anchor, " ", s.Cursor.Witnessed, " ", s.Open)
		}
		require.Equal(t, map[string]string{
			"open": "10 0x10 9 true", "dropped": "10 0x10 9 true", "ahead": "12 0x12 9 false", "none": "   false",
			"final": "10 0x10 9 false", "alike": "10 0x10 9 false",
		}, states)
		require.Empty(t, must(l.AccountStates(t.Context(), "eip155:1/"))(t), "they are on another chain")
	})
}

func TestMoveCursorsChecksExpectedPosition(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		name := func(n int) string { return fmt.Sprintf("eip155:8453/erc20:0xtoken/%03d", n) }
		const many = batchValues + 1
		var all []string
		var accounts []Account
		for n := range many {
			accounts = append(accounts, Account{Offer: fmt.Sprint(n), ID: name(n), Rail: "usdc"})
			all = append(all, name(n))
		}
		require.NoError(t, l.Register(t.Context(), accounts...))
		at := func(n int) string {
			c, found := find(l.Cursor(t.Context(), fmt.Sprint(n), name(n)))(t)
			require.Equal(t, found, c.Position != "")
			require.True(t, c.Witnessed == c.Position || n == 7 && c.Witnessed == "")
			return c.Position + " " + c.Anchor
		}
		move := func(upon, to string) {
			var cursors []Cursor
			for n, account := range all {
				cursors = append(cursors, Cursor{
					Offer: fmt.Sprint(n), Account: account, Position: to, Anchor: "0x" + to, Witnessed: to, OKAt: 5, ExpectedPosition: &upon,
				})
			}
			require.NoError(t, l.MoveCursors(t.Context(), cursors...))
		}
		move("", "10")
		for n := range many {
			require.Equal(t, "10 0x10", at(n))
		}
		move("", "11")
		require.Equal(t, "10 0x10", at(0), "it stands somewhere else")

		must(l.Record(t.Context(), &Cursor{Offer: "7", Account: name(7), Position: "15", Anchor: "0x15"}))(t)
		must(l.SetOrigin(t.Context(), "8", name(8), "9"))(t)
		lowered := must(l.LowerOrigin(t.Context(), "8", name(8), "3"))(t)
		require.True(t, lowered)
		move("10", "20")
		for n := range many {
			want := "20 0x20"
			switch n {
			case 7:
				want = "15 0x15"
			case 8:
				want = " "
			}
			require.Equal(t, want, at(n), n)
		}
		require.NoError(t, l.MoveCursors(t.Context()), "of none")
	})
}

func TestRegisterMoreAccountsThanOneStatementTakes(t *testing.T) {
	onSQLite(t, func(t *testing.T, l *Ledger, _ *testClock) {
		accounts := make([]Account, maxValues/6+1)
		for n := range accounts {
			accounts[n] = Account{Offer: testOffer, ID: fmt.Sprint("account ", n), Rail: "usdc"}
		}
		require.NoError(t, l.Register(t.Context(), accounts...))
		require.Len(t, must(l.Accounts(t.Context(), testOffer))(t), len(accounts)+2)
	})
}
