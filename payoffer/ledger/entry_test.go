package ledger

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func requireBrowsers(t *testing.T, l *Ledger, payment string, want ...string) {
	t.Helper()
	browsers := must(l.Browsers(t.Context(), testOffer, payment))(t)
	require.Equal(t, want, browsers)
}

func TestEnterUsesCodeOnce(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		where := d.create(t)
		l, _ := d.ledgerAt(t, where)
		instances := []*Ledger{l}
		if d.name == postgresTests.name {
			other, _ := d.ledgerAt(t, where)
			instances = append(instances, other)
		}
		var entered, refused atomic.Int64
		var group sync.WaitGroup
		for n := range 50 {
			group.Go(func() {
				err := instances[n%len(instances)].Enter(t.Context(), testOffer, "a p", "code")
				switch {
				case err == nil:
					entered.Add(1)
				case errors.Is(err, ErrEntered):
					refused.Add(1)
				}
			})
		}
		group.Wait()
		require.EqualValues(t, 1, entered.Load())
		require.EqualValues(t, 49, refused.Load())
		requireBrowsers(t, l, "a p", "code")
		require.ErrorIs(t, l.Enter(t.Context(), testOffer, "a other", "code"), ErrEntered, "for another payment")
		require.ErrorIs(t, l.Enter(t.Context(), "other-offer", "a p", "code"), ErrEntered, "for another offer")
	})
}

// Fifty codes of one payment at once are fifty browsers, of which five stay.
func TestEnterConcurrentBrowsers(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, clock *testClock) {
		enter := func(prefix string) {
			var group sync.WaitGroup
			errs := make([]error, 50)
			for n := range errs {
				group.Go(func() { errs[n] = l.Enter(t.Context(), testOffer, "a p", fmt.Sprint(prefix, n)) })
			}
			group.Wait()
			require.NoError(t, errors.Join(errs...))
			browsers := must(l.Browsers(t.Context(), testOffer, "a p"))(t)
			require.Len(t, browsers, MaxBrowsers)
			for _, browser := range browsers {
				require.Contains(t, browser, prefix)
			}
		}
		enter("first-")
		clock.set(1_000 + 50 + int64(codeReuse/time.Second) + 1)
		enter("second-")
	})
}

func TestEnterSixthBrowserSignsOutOldest(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, clock *testClock) {
		enter := func(payment, browser string) {
			t.Helper()
			require.NoError(t, l.Enter(t.Context(), testOffer, payment, browser))
		}
		enter("a other", "elsewhere")
		for _, browser := range []string{"z", "e", "d", "c", "b"} { // in one second
			enter("a p", browser)
		}
		requireBrowsers(t, l, "a p", "b", "c", "d", "e", "z")
		enter("a p", "a")
		requireBrowsers(t, l, "a p", "a", "b", "c", "d", "e")
		require.ErrorIs(t, l.Enter(t.Context(), testOffer, "a p", "z"), ErrEntered, "its code may still be valid")
		clock.unix -= 30 // another instance's clock
		enter("a p", "behind")
		requireBrowsers(t, l, "a p", "behind", "a", "b", "c", "d")

		stored := func() int64 {
			t.Helper()
			counts, err := collect(t.Context(), l, scanValue[int64], `SELECT count(*) FROM entries WHERE payment = $1`, "a p")
			require.NoError(t, err)
			return counts[0]
		}
		require.EqualValues(t, 7, stored())
		clock.set(2_000)
		enter("a p", "late")
		require.EqualValues(t, MaxBrowsers, stored(), "codes from two minutes ago are not valid any more")
		requireBrowsers(t, l, "a p", "late", "behind", "a", "b", "c")
		requireBrowsers(t, l, "a other", "elsewhere")
		browsers := must(l.Browsers(t.Context(), "other-offer", "a p"))(t)
		require.Empty(t, browsers)
	})
}

func TestEndBrowsersSignsOutForGood(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, clock *testClock) {
		for _, payment := range []string{"a p", "a other"} {
			for n := range 3 {
				require.NoError(t, l.Enter(t.Context(), testOffer, payment, fmt.Sprint(payment, n)))
			}
		}
		require.NoError(t, l.EndBrowsers(t.Context(), "other-offer", "a p"))
		requireBrowsers(t, l, "a p", "a p2", "a p1", "a p0")
		require.NoError(t, l.EndBrowsers(t.Context(), testOffer, "a p"))
		requireBrowsers(t, l, "a p")
		requireBrowsers(t, l, "a other", "a other2", "a other1", "a other0")
		require.ErrorIs(t, l.Enter(t.Context(), testOffer, "a p", "a p2"), ErrEntered)
		require.NoError(t, l.EndBrowsers(t.Context(), testOffer, "a p"), "again")

		clock.set(2_000)
		var want []string
		for n := range MaxBrowsers {
			browser := fmt.Sprint("again", n)
			require.NoError(t, l.Enter(t.Context(), testOffer, "a p", browser))
			want = append([]string{browser}, want...)
			requireBrowsers(t, l, "a p", want...)
		}
		require.NotContains(t, everyText(t, l), "a p0", "it makes room")
	})
}

// The header of a charged payment is a pass, too. It ends with the browsers of its payment.
func TestEndBrowsersRevokesPaymentHeader(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		secret := func(payer, nonce string) string {
			t.Helper()
			i, known := find(l.Intent(t.Context(), testIntent(payer, nonce).IntentKey))(t)
			require.True(t, known)
			return i.Secret
		}
		for n, name := range [][2]string{{"0xaa", "0x01"}, {"0xaa", "0x02"}, {"0xbb", "0x01"}} {
			i := testIntent(name[0], name[1])
			i.Secret, i.PaymentID = "5ec4e7", fmt.Sprint("purchase-", n)
			require.NoError(t, l.InsertIntent(t.Context(), i))
			require.NoError(t, l.SettleIntent(t.Context(), i.IntentKey, fmt.Sprint("0x", n), []byte(`{}`), EvidenceFacilitator))
		}
		payment := testAccount + " " + AuthorizationName("0xAA", "0x01")
		require.NoError(t, l.EndBrowsers(t.Context(), "other-offer", payment))
		require.NoError(t, l.EndBrowsers(t.Context(), testOffer, "eip155:1/erc20:0x1/0x2 "+AuthorizationName("0xaa", "0x01")))
		require.NoError(t, l.EndBrowsers(t.Context(), testOffer, testAccount+" r/0xaa"))
		require.NoError(t, l.EndBrowsers(t.Context(), testOffer, "pass:p"))
		require.Equal(t, "5ec4e7", secret("0xaa", "0x01"))
		before := must(intentTable.read(t.Context(), l, `TRUE ORDER BY id`))(t)
		for range 2 {
			require.NoError(t, l.EndBrowsers(t.Context(), testOffer, payment))
			require.Empty(t, secret("0xaa", "0x01"))
			require.Equal(t, "5ec4e7", secret("0xaa", "0x02"), "another payment of the payer")
			require.Equal(t, "5ec4e7", secret("0xbb", "0x01"))
		}
		before[0].Secret = ""
		require.Equal(t, before, must(intentTable.read(t.Context(), l, `TRUE ORDER BY id`))(t), "nothing else changes")
	})
}

func TestPassListAndRevoke(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, clock *testClock) {
		older := Pass{ID: "older", Offer: testOffer, Note: "for jane@example.org", ExpiresAt: 9_000}
		newer := Pass{ID: "newer", Offer: testOffer, ExpiresAt: 8_000}
		foreign := Pass{ID: "foreign", Offer: "other-offer", ExpiresAt: 9_000}
		for n, p := range []Pass{older, newer, foreign} {
			clock.set(1_000 + int64(n))
			require.NoError(t, l.InsertPass(t.Context(), p))
		}
		older.CreatedAt, newer.CreatedAt = 1_000, 1_001
		list := func() []Pass {
			t.Helper()
			return must(l.Passes(t.Context(), testOffer))(t)
		}
		require.Equal(t, []Pass{newer, older}, list())
		require.Error(t, l.InsertPass(t.Context(), Pass{ID: "older", Offer: testOffer}), "an id is that of one pass")

		for _, unknown := range []string{"foreign", "none"} {
			_, found := find(l.Pass(t.Context(), testOffer, unknown))(t)
			require.False(t, found)
			err := l.RevokePass(t.Context(), testOffer, unknown)
			require.ErrorContains(t, err, unknown)
			require.ErrorContains(t, err, "caddy pay-offer pass")
		}

		clock.set(2_000)
		require.NoError(t, l.RevokePass(t.Context(), testOffer, "older"))
		clock.set(3_000)
		require.NoError(t, l.RevokePass(t.Context(), testOffer, "older"))
		older.RevokedAt = 2_000
		p, found := find(l.Pass(t.Context(), testOffer, "older"))(t)
		require.True(t, found)
		require.Equal(t, older, p)
		require.Equal(t, []Pass{newer, older}, list())
	})
}

func TestDeletePassRemovesItsRows(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		for _, id := range []string{"check", "other"} {
			require.NoError(t, l.InsertPass(t.Context(), Pass{ID: id, Offer: testOffer, ExpiresAt: 9_000}))
			require.NoError(t, l.Enter(t.Context(), testOffer, "pass:"+id, "browser of "+id))
		}
		require.NoError(t, l.DeletePass(t.Context(), "other-offer", "check"))
		require.Len(t, must(l.Passes(t.Context(), testOffer))(t), 2)
		requireBrowsers(t, l, "pass:check", "browser of check")
		for range 2 {
			require.NoError(t, l.DeletePass(t.Context(), testOffer, "check"))
			_, found := find(l.Pass(t.Context(), testOffer, "check"))(t)
			require.False(t, found)
		}
		require.NotContains(t, everyText(t, l), "check")
		require.Len(t, must(l.Passes(t.Context(), testOffer))(t), 1)
		requireBrowsers(t, l, "pass:other", "browser of other")
	})
}

func TestInsertPassRefusesInvalidPass(t *testing.T) {
	onSQLite(t, func(t *testing.T, l *Ledger, _ *testClock) {
		for want, p := range map[string]Pass{
			"lacks an id":       {Offer: testOffer},
			"or an offer":       {ID: "p"},
			"write it in plain": {ID: "p", Offer: testOffer, Note: "a\x00b"},
		} {
			require.ErrorContains(t, l.InsertPass(t.Context(), p), want)
		}
	})
}
