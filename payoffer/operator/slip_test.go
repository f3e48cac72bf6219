package operator

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/manual"
)

// The clock of the fixture is at 2026-11-21, and the price is 42.
func TestAnEntryThatLooksLikeASlipIsAskedFor(t *testing.T) {
	onEachLedger(t, func(t *testing.T, o *fixture) {
		o.must("enter", manual.Entry{Rail: "transfer", Reference: "R\u00c9F-7a", Amount: "42"})
		for name, c := range map[string]struct {
			entry manual.Entry
			want  string // empty if it is no slip
		}{
			"three times":          {manual.Entry{Amount: "126"}, ""},
			"more":                 {manual.Entry{Amount: "126.01"}, "far from the price, 42.00 US dollars; if the entry is right, repeat it with --sure"},
			"a third":              {manual.Entry{Amount: "14"}, ""},
			"less":                 {manual.Entry{Amount: "13.99"}, "far from the price"},
			"a year ago":           {manual.Entry{Date: "2025-11-21"}, ""},
			"another year":         {manual.Entry{Date: "2025-10-01"}, "2025-10-01 is more than 400 days ago"},
			"another case":         {manual.Entry{Reference: "R\u00c9F-7A"}, "nearly the same reference, \"R\u00c9F-7a\""},
			"another dash":         {manual.Entry{Reference: "R\u00c9F\u20137a"}, "nearly the same reference"},
			"no dash":              {manual.Entry{Reference: "R\u00c9F7a"}, "nearly the same reference"},
			"another form of text": {manual.Entry{Reference: "R\u00c9F-\uff17a"}, "nearly the same reference"},
			"another number":       {manual.Entry{Reference: "R\u00c9F-8a"}, ""},
		} {
			t.Run(name, func(t *testing.T) {
				e := c.entry
				e.Action, e.Rail = "enter", "transfer"
				if e.Reference == "" {
					e.Reference = name
				}
				if e.Amount == "" {
					e.Amount = "42"
				}
				before := o.received()
				if c.want != "" {
					_, err := o.Enter(t.Context(), e)
					requireRefusal(t, err, Conflict, c.want)
					require.Equal(t, before, o.received())
					e.Sure = true
				}
				o.must("enter", e)
				require.Greater(t, o.received(), before)
			})
		}
		before := o.received()
		o.must("enter", manual.Entry{Rail: "transfer", Reference: "RE\u0301F-7a", Amount: "42"}) // the same in another form (NFD)
		require.Equal(t, before, o.received(), "it is the same entry")
	})
}

func TestAPaymentOfTheSellersOwnIsMarked(t *testing.T) {
	onEachLedger(t, func(t *testing.T, o *fixture) {
		external := func() int64 {
			_, end := o.movements()
			return end.ExternalCents
		}
		o.must("enter", inv7("42", ""))
		require.EqualValues(t, 4200, external())
		_, err := o.do("own", inv7("", ""))
		requireRefusal(t, err, Invalid, "reason is missing")
		require.True(t, o.must("own", inv7("", "my own card")).Own)
		require.Zero(t, external())
		require.Equal(t, int64(4200), o.received())
		o.must("own", inv7("", "again"))
		require.Len(t, o.history(), 2, "the same again changes nothing")
		o.must("reverse", inv7("", "a test"))
		require.Zero(t, o.received())
	})
}
