package crash

import (
	"crypto/ecdsa"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

// at is the environment of a server that dies at the hit of a point.
func at(point failpoint.Point, hit int) string {
	return fmt.Sprintf("%s=%s:%d", failpoint.Variable, point, hit)
}

func TestKilledAtEachNamedPoint(t *testing.T) {
	t.Parallel()
	points := slices.DeleteFunc(failpoint.Points(), func(p failpoint.Point) bool {
		return strings.HasPrefix(string(p), "buy.") // those of a buyer, which package buyer has
	})
	m := openMarket(t, len(points), purse)
	var deaths, payments atomic.Int64
	t.Run("at", func(t *testing.T) {
		for i, point := range points {
			t.Run(string(point), func(t *testing.T) {
				t.Parallel()
				s := openShop(t, m)
				s.dieAtEachHit(t, point, m.buyers[i])
				s.requireSound(t)
				deaths.Add(int64(s.deaths))
				payments.Add(int64(len(s.payments)))
			})
		}
	})
	t.Logf("points=%d kills=%d payments=%d", len(points), deaths.Load(), payments.Load())
}

// dieAtEachHit kills the server at the first hit of a point, then at the second, until a payment is settled without so
// many hits; only the first hits where not everything is run.
func (s *shop) dieAtEachHit(t *testing.T, point failpoint.Point, buyer *ecdsa.PrivateKey) {
	t.Helper()
	most := cases.EndToEnd(2, purse, purse)
	for hit := 1; hit <= most; hit++ {
		p := s.payment(t, buyer)
		if strings.HasPrefix(string(point), "resolve.") {
			s.leaveOpen(t, p)
		}
		s.Launch(t, at(point, hit))
		survived := s.survives(t, p)
		if survived {
			s.crash(t)
		} else {
			s.died(t)
		}
		s.start(t)
		s.requireRecovered(t)
		require.True(t, p.settle(t, s.client, s.url))
		require.True(t, p.settle(t, s.client, s.url), "the stored answer")
		s.crash(t)
		if survived {
			require.Greater(t, hit, 1, "the point is never hit")
			return
		}
	}
	require.Less(t, most, purse, "the point is hit without end")
}

// leaveOpen sends a payment to a server that dies when the facilitator has answered.
func (s *shop) leaveOpen(t *testing.T, p *payment) {
	t.Helper()
	s.Launch(t, at(failpoint.SettleAfter, 1))
	require.False(t, s.survives(t, p))
	s.died(t)
}

// survives sends a payment until it is answered for good, and reports false if the server ends before.
func (s *shop) survives(t *testing.T, p *payment) bool {
	t.Helper()
	if !s.Answers(t) {
		return false
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(again) {
		got, err := p.send(s.client, s.url)
		if err != nil {
			<-s.Ended()
			return false
		}
		if got.status != http.StatusServiceUnavailable {
			return true
		}
		require.True(t, time.Now().Before(deadline), "no answer: %+v", got)
	}
}

func TestTheReleasedCommandHasNoFailpoints(t *testing.T) {
	code, err := os.ReadFile(server.Released(t))
	require.NoError(t, err)
	require.Contains(t, string(code), "/v1/sponsor")
	require.False(t, strings.Contains(string(code), failpoint.Variable), "the command can be told to die")
}
