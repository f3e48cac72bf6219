package bench

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
)

// latency is how long the facilitator takes for each call.
const latency = 5 * time.Millisecond

// facilitator says yes to every payment after a time that is always the same. It has no chain: what it settles stays a claim.
type facilitator struct {
	url string
	// settled is how many payments there were, calls how many times it was asked to verify or to settle, and spent the
	// nanoseconds that it took for them.
	settled, calls, spent atomic.Int64
}

func startFacilitator(t testing.TB, latency time.Duration) *facilitator {
	t.Helper()
	f := new(facilitator)
	network := fmt.Sprintf("eip155:%d", chain.ID)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/supported" {
			fmt.Fprintf(w, `{"kinds":[{"x402Version":2,"scheme":"exact","network":%q}],"extensions":[],"signers":{}}`, network)
			return
		}
		began := time.Now()
		var asked struct {
			PaymentPayload struct {
				Payload struct{ Authorization struct{ From, Nonce string } }
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		time.Sleep(latency) // that is what it imitates
		a := asked.PaymentPayload.Payload.Authorization
		switch {
		case r.URL.Path == "/settle":
			fmt.Fprintf(w, `{"success":true,"payer":%q,"network":%q,"transaction":"0x%064x"}`, a.From, network, f.settled.Add(1))
		case strings.Trim(a.Nonce, "0x") == "": // a seller's question how the facilitator is
			fmt.Fprintf(w, `{"isValid":false,"payer":%q,"invalidReason":"invalid_exact_evm_insufficient_balance"}`, a.From)
			return
		default:
			fmt.Fprintf(w, `{"isValid":true,"payer":%q}`, a.From)
		}
		f.calls.Add(1)
		f.spent.Add(int64(time.Since(began)))
	}))
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}
