package ledger

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStandingsAreThoseThatDiffer(t *testing.T) {
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
				_, err := l.Record(t.Context(), &Cursor{Offer: name, Account: prefix + name, Position: at, Anchor: "0x" + at})
				require.NoError(t, err)
			}
		}
		for name, s := range map[string]Observation{
			"open": chainObservation("0xa", StatusSeen), "final": chainObservation("0xb", StatusConfirmed), "dropped": chainObservation("0xc", StatusDropped),
		} {
			s.Offer, s.Account, s.Final = name, prefix+name, name == "final"
			mustRecord(t, l, s)
		}
		rows := must(l.AccountStates(t.Context(), prefix, "10"))(t)
		require.ElementsMatch(t, []AccountState{
			{Account: prefix + "open", Position: "10", Anchor: "0x10", Open: true},
			{Account: prefix + "dropped", Position: "10", Anchor: "0x10", Open: true},
			{Account: prefix + "ahead", Position: "12", Anchor: "0x12"},
			{Account: prefix + "none"},
		}, rows)
		rows = must(l.AccountStates(t.Context(), "eip155:84532/", ""))(t)
		require.Empty(t, rows, "they are on another chain")
	})
}

func TestMoveCursorsExpectsThePosition(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		name := func(n int) string { return fmt.Sprintf("eip155:8453/erc20:0xtoken/%03d", n) }
		const many = 2*moveAtOnce + 1
		var all []string
		for n := range many {
			require.NoError(t, l.Register(t.Context(), Account{Offer: fmt.Sprint(n), ID: name(n), Rail: "usdc"}))
			all = append(all, name(n))
		}
		at := func(n int) string {
			c, found := find(l.Cursor(t.Context(), fmt.Sprint(n), name(n)))(t)
			require.Equal(t, found, c.Position != "")
			return c.Position + " " + c.Anchor
		}
		move := func(upon, to string) {
			require.NoError(t, l.MoveCursors(t.Context(), Cursor{Position: to, Anchor: "0x" + to, OKAt: 5, ExpectedPosition: &upon}, all...))
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
		require.NoError(t, l.MoveCursors(t.Context(), Cursor{ExpectedPosition: ptr("20")}), "of none")
	})
}
