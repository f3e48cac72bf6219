package observe

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

func TestMoneyCountsFromTheFirstStartOrEarlier(t *testing.T) {
	const first, day = 1_795_250_000, 86_400
	for name, test := range map[string]struct {
		since, stored, now, from int64 // 0 of stored is none
		ahead                    time.Duration
		want                     Beginning
	}{
		"the first start":                       {since: first, now: first + 5*day, want: Beginning{Origin: first, First: first}},
		"a clock that is ahead":                 {since: first, now: first + 1, ahead: time.Hour, want: Beginning{Origin: first - 3600, First: first - 3600}},
		"a clock that is behind":                {since: first, now: first + 1, ahead: -time.Hour, want: Beginning{Origin: first + 3600, First: first + 3600}},
		"a clock that was set back":             {since: first + day, now: first, want: Beginning{Origin: first, First: first}},
		"a clock found ahead soon after":        {since: first, stored: first, now: first + 60, ahead: time.Hour, want: Beginning{first - 3600, first - 3600, first}},
		"a clock found ahead long after":        {since: first, stored: first, now: first + day, ahead: time.Hour, want: Beginning{Origin: first, First: first - 3600}},
		"a clock found behind raises nothing":   {since: first, stored: first, now: first + 60, ahead: -time.Hour, want: Beginning{Origin: first, First: first + 3600}},
		"a date before it":                      {since: first, now: first + 60, from: first - day, want: Beginning{first - day, first, first}},
		"a date later":                          {since: first, stored: first, now: first + day, from: first - day, want: Beginning{first - day, first, first}},
		"a date after the start":                {since: first, now: first + day, from: first + 60, want: Beginning{Origin: first, First: first}},
		"what is stored is earlier than a date": {since: first, stored: first - 2*day, now: first + day, from: first - day, want: Beginning{Origin: first - 2*day, First: first}},
	} {
		t.Run(name, func(t *testing.T) {
			book := openLedger(t)
			const account = "card/begin"
			require.NoError(t, book.Register(t.Context(), ledger.Account{Offer: testOffer, ID: account, Rail: "card", Since: test.since}))
			if test.stored != 0 {
				_, err := book.SetOrigin(t.Context(), testOffer, account, strconv.FormatInt(test.stored, 10))
				require.NoError(t, err)
			}
			begin := func() Beginning {
				b, err := Begin(t.Context(), book, testOffer, account, test.from, func() time.Duration { return test.ahead }, time.Unix(test.now, 0))
				require.NoError(t, err)
				return b
			}
			require.Equal(t, test.want, begin())
			kept, err := book.Account(t.Context(), testOffer, account)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(test.want.Origin), kept.Origin)
			again := begin()
			require.Equal(t, test.want.Origin, again.Origin)
			require.Zero(t, again.Before, "lowered once")
		})
	}
	_, err := Begin(t.Context(), new(broken), testOffer, testAccount, 0, nil, time.Now())
	require.Equal(t, ErrNoLedger, err)
}
