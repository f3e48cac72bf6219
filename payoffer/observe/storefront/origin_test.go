package storefront

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// sellAt makes a sale of 42 USD so long after now.
func (f *fixture) sellAt(after time.Duration) payoffertest.StorefrontSale {
	return f.sell(func(s *payoffertest.StorefrontSale) { s.CreatedAt = s.CreatedAt.Add(after) })
}

// stored is what the ledger keeps of the account.
func (f *fixture) stored() ledger.Account {
	f.t.Helper()
	account, err := f.db.Ledger.Account(f.t.Context(), testOffer, testAccount)
	require.NoError(f.t, err)
	return account
}

// causes are those of the first transitions of all receipts, in their order.
func (f *fixture) causes() (causes []string) {
	f.t.Helper()
	transitions, err := f.db.Transitions(f.t.Context(), testOffer, 0, 1000)
	require.NoError(f.t, err)
	for _, transition := range transitions {
		if transition.Version == 1 {
			causes = append(causes, transition.Cause)
		}
	}
	return causes
}

// beginAt has the configuration say since when sales count.
func beginAt(at time.Time) func(*Config) {
	return func(c *Config) { c.Since = at.Unix() }
}

// unread is a fixture of which nothing was read yet; it started now.
func unread(t *testing.T, since time.Duration, options ...func(*Config)) *fixture {
	t.Helper()
	f := newFixture(t, options...)
	f.openLedger(f.now().Add(since).Unix())
	f.start(options...)
	return f
}

func TestOriginIsFirstStart(t *testing.T) {
	t.Parallel()
	f := unread(t, 0)
	require.True(t, f.Health().Blind, "from when on sales count is not known")
	f.db.broken = true
	require.Error(t, f.read())
	require.True(t, f.Health().Blind)
	f.sellAt(-time.Second)
	f.sellAt(time.Second)
	f.pass(26 * time.Hour)
	f.db.broken = false
	f.start()
	f.requireReadHeld(4200)
	require.Equal(t, "1795262400", f.stored().Origin)
	require.False(t, f.Health().Blind)
}

func TestOriginUsesClockOffset(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	for name, test := range map[string]struct {
		ahead time.Duration // our clock, at the first start
		heard bool          // the time of day is known in the first round
		held  int64
	}{
		"ahead":             {20 * time.Minute, true, 4200},
		"ahead, told later": {20 * time.Minute, false, 4200},
		"behind":            {-20 * time.Minute, true, 8400}, // an origin is never moved forward
		"days ahead":        {50 * hour, true, 4200},
		"right":             {0, true, 4200},
	} {
		t.Run(name, func(t *testing.T) {
			heard := test.heard
			f := unread(t, test.ahead, func(c *Config) {
				c.ClockOffset = func() time.Duration {
					if !heard {
						return 0
					}
					return test.ahead
				}
			})
			f.sellAt(-time.Second) // by the shop's clock, which is right
			f.sellAt(time.Second)
			f.pass(test.ahead + time.Minute)
			f.mustRead()
			heard = true
			f.pass(time.Minute)
			f.requireReadHeld(test.held)
			require.Equal(t, fmt.Sprint(1795262400+min(0, int64(test.ahead.Seconds()))), f.stored().Origin)
		})
	}
}

// An offset of the clock long after the first start does not move the origin.
func TestOriginIgnoresLaterClockOffset(t *testing.T) {
	t.Parallel()
	ahead := time.Duration(0)
	f := unread(t, 0, func(c *Config) { c.ClockOffset = func() time.Duration { return ahead } })
	f.mustRead()
	f.sellAt(-time.Minute)
	for _, wrong := range []time.Duration{2 * time.Hour, -2 * time.Hour, 50 * 365 * 24 * time.Hour, -50 * 365 * 24 * time.Hour} {
		ahead = wrong
		f.pass(2*time.Hour + wrong)
		f.mustRead()
		f.pass(-wrong)
		require.Equal(t, "1795262400", f.stored().Origin, wrong)
		require.Zero(t, f.held(), wrong)
	}
}

func TestEarlierSinceRereadsOnce(t *testing.T) {
	f := fixtureBeside(t)
	f.sell()
	f.mustRead()
	day := 24 * time.Hour
	for _, back := range []time.Duration{400 * day, 300 * day, 30 * day, 30*day + time.Second} {
		f.sellAt(-back)
	}
	f.requireReadHeld(4200)
	f.sell()
	f.pass(10 * day)
	now := strconv.FormatInt(f.now().Unix(), 10)
	_, err := f.db.Record(t.Context(), &ledger.Cursor{Offer: testOffer, Account: testAccount, Position: now, Anchor: now}) // what was never read
	require.NoError(t, err)
	f.requireReadHeld(4200)

	begin := f.now().Add(-310 * day)
	f.start(beginAt(begin))
	f.shop.Fail(&payoffertest.StorefrontFault{Status: http.StatusBadGateway})
	require.Error(t, f.read())
	require.True(t, f.Health().Partial)
	f.shop.Fail(nil)
	f.mustRead()

	require.Equal(t, int64(5*4200), f.held())
	require.False(t, f.Health().Partial)
	require.Equal(t, []string{"provider", "provider", ledger.CauseBackfilled, ledger.CauseBackfilled, ledger.CauseBackfilled}, f.causes())
	f.start(beginAt(begin))
	f.mustRead()
	f.start(beginAt(begin.Add(day))) // a later one raises nothing
	f.requireReadHeld(5 * 4200)
	require.Equal(t, 1, strings.Count(f.log.String(), "are read again"), f.log)
	require.Contains(t, f.log.String(), "since=2026-01-25T12:00:00Z before=2026-11-21T12:00:00Z")
}
