package crash

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

// broadcast is how many of the shop's payments the facilitator has broadcast.
func (s *shop) broadcast() (total int) {
	for _, p := range s.payments {
		total += s.market.facilitator.Settled(p.Nonce.Hex())
	}
	for _, p := range s.purchases {
		total += len(s.charged(p))
	}
	return total
}

// recovered reports whether the server has nothing open and a row for each payment that was broadcast.
func (s *shop) recovered() bool {
	type count struct{ Count int }
	var report struct {
		Rails []struct {
			Rail                      string
			Seen, Confirmed, Settling count
		}
	}
	a, err := server.Do(s.client, http.MethodGet, s.url+"/v1/received", "", nil)
	if err != nil || a.Status != http.StatusOK || json.Unmarshal([]byte(a.Body), &report) != nil {
		return false
	}
	for _, rail := range report.Rails {
		if rail.Rail == "usdc" {
			return rail.Settling.Count == 0 && rail.Seen.Count+rail.Confirmed.Count == s.broadcast()
		}
	}
	return false
}

// requireRecovered waits until the server has put the ledger in order by itself: no buyer comes back in between.
func (s *shop) requireRecovered(t *testing.T) {
	t.Helper()
	ticker := time.NewTicker(again)
	defer ticker.Stop()
	for deadline := time.After(patience); !s.recovered(); {
		select {
		case <-s.Ended():
			t.Fatal("the server ended by itself")
		case <-deadline:
			t.Fatalf("a payment that was broadcast has no row, or is open, %v after the crash", patience)
		case <-ticker.C:
		}
	}
}
