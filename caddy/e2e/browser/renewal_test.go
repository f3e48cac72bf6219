package browser

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/showcase"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/web"
)

// market is an offer whose exchange rate changes when it is told to. Its clock is its own.
type market struct {
	*web.Server
	mu   sync.Mutex
	now  time.Time
	live offer.Live
	// read are the statuses of the answers about the price.
	read []int
}

// startMarket serves a market; on a POST to /change minutes pass there, and then it has the rate that next makes of the old one.
func startMarket(t *testing.T, minutes int, next func(offer.Live, time.Time) offer.Live) (*market, string) {
	t.Helper()
	m := &market{now: showcase.Live.RateAt, live: showcase.Live}
	host := httptest.NewServer(m.handler(time.Duration(minutes)*time.Minute, next))
	t.Cleanup(host.Close)
	m.Server = showcase.NewAt(t, showcase.Offer(t, host.URL), func() offer.Live { return m.live })
	return m, host.URL
}

func (m *market) handler(passes time.Duration, next func(offer.Live, time.Time) offer.Live) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if r.URL.Path == "/change" {
			m.now = m.now.Add(passes)
			m.live = next(m.live, m.now)
			m.Refresh()
			return
		}
		w.Header().Set("Date", m.now.UTC().Format(http.TimeFormat))
		noted := &statusNoted{ResponseWriter: w}
		m.Serve(noted, r)
		if r.URL.Path == offer.URIPath("btc") {
			m.read = append(m.read, noted.status)
		}
	}
}

type statusNoted struct {
	http.ResponseWriter
	status int
}

func (s *statusNoted) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// renewal has the price of an open row pass: it is read when the row is shown, which tells the server's clock, and again
// in the last five minutes. The page's own clock is an hour slow.
func (v visit) renewal(t *testing.T) {
	const to = "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"
	another := func(_ offer.Live, now time.Time) offer.Live { return offer.Live{Satoshis: 50_001, RateAt: now} }
	changes := 0
	late := func(was offer.Live, now time.Time) offer.Live { // there is no price before the second change
		if changes++; changes < 2 {
			return offer.Live{}
		}
		return another(was, now)
	}
	const none = "There is no new price yet."
	usable := []string{"Copy", "Copy", "Open in your wallet"}
	for name, c := range map[string]struct {
		next    func(offer.Live, time.Time) offer.Live
		minutes int
		shows   string
		amount  string
		ended   bool
		read    []int
		presses []string
	}{
		"another price":  {another, 41, "0.00050001 BTC", "0.00050001", false, []int{200, 200}, nil},
		"the same price": {func(was offer.Live, _ time.Time) offer.Live { return was }, 41, "(4 min)", "0.00045678", false, []int{200, 304}, nil},
		"no price":       {late, 46, "This price expired. Already sent it? Please do not send again.", "0.00045678", true, []int{200, 503}, []string{none, "0.00050001 BTC"}},
	} {
		t.Run(name, func(t *testing.T) {
			m, url := startMarket(t, c.minutes, c.next)
			before, after, renewed := v.Renew(t, Passing{
				URL: url + offer.PathMethods + "#btc", At: showcase.Live.RateAt.Add(-time.Hour).UnixMilli(), Change: url + "/change", Minutes: c.minutes, Shows: c.shows, Presses: c.presses,
			})
			require.Regexp(t, `^This price holds until .* \(45 min\) and then renews itself\.$`, before.Line)
			require.Equal(t, [][2]string{{"0.00045678 BTC", "0.00045678"}, {to, to}}, before.Values)
			require.Contains(t, before.Link, "bitcoin:"+to+"?amount=0.00045678&")
			require.Equal(t, [][2]string{{c.amount + " BTC", c.amount}, {to, to}}, after.Values)
			require.Contains(t, after.Link, "bitcoin:"+to+"?amount="+c.amount+"&")
			require.Equal(t, c.ended, strings.HasPrefix(after.Line, "This price expired. Already sent it? Please do not send again."), after.Line)
			require.Equal(t, usable, before.Reached)
			require.Empty(t, before.Announced)
			if c.ended {
				require.Equal(t, []string{"Get a new price"}, after.Reached, "nobody pays by an expired price")
				require.Equal(t, "This price expired. Already sent it? Please do not send again.", after.Announced)
				require.Equal(t, usable, renewed.Reached)
				require.Contains(t, renewed.Link, "bitcoin:"+to+"?amount=0.00050001&")
				require.Contains(t, renewed.Announced, "(45 min)")
				require.NotEqual(t, before.Code, renewed.Code)
			} else {
				require.Equal(t, usable, after.Reached)
			}
			require.Equal(t, c.amount == "0.00045678", before.Code == after.Code, "the code shows the price that is said")
			m.mu.Lock()
			defer m.mu.Unlock()
			require.Equal(t, c.read, m.read[:2])
		})
	}
}
