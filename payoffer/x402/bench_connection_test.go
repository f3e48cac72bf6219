package x402

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

// dialTime is what a new TLS connection to another continent costs, and callTime
// what a facilitator takes for a call.
const (
	dialTime = 60 * time.Millisecond
	callTime = 100 * time.Millisecond
)

// paidOver is a shop whose facilitator is reached by a transport over which every
// new connection takes its time.
type paidOver struct {
	*shop
	dialed atomic.Int64
	spent  time.Duration
}

func newPaidOver(b *testing.B, url string, t *http.Transport) *paidOver {
	p := new(paidOver)
	dial := t.DialContext
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		p.dialed.Add(1)
		time.Sleep(dialTime)
		return dial(ctx, network, address)
	}
	b.Cleanup(t.CloseIdleConnections)
	f, err := NewFacilitator(FacilitatorConfig{URL: url, Transport: t})
	require.NoError(b, err)
	p.shop = newShop(b, setup{made: []*Facilitator{f}, signer: newTestSigner(1), limiter: limited(math.MaxInt, time.Hour)})
	return p
}

// pays has so many buyers pay one after the other, all at the same time.
func (p *paidOver) pays(buyers [][][]byte) {
	start := time.Now()
	var all sync.WaitGroup
	for _, payloads := range buyers {
		all.Go(func() {
			for _, payload := range payloads {
				if outcome := p.pay(payload); outcome.Status != Settled {
					p.t.Error(outcome.Detail)
				}
			}
		})
	}
	all.Wait()
	p.spent += time.Since(start)
}

// BenchmarkConnections is how many payments a second 64 buyers make where a new
// connection costs 60 ms: with the two idle connections that net/http keeps for
// a host, and with those that are kept here. The two take turns in one run.
func BenchmarkConnections(b *testing.B) {
	const buyers, each = 64, 8
	var settled atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(callTime)
		if strings.HasSuffix(r.URL.Path, settleCall) {
			fmt.Fprintf(w, `{"success":true,"network":"eip155:84532","transaction":"0x%064x"}`, settled.Add(1))
			return
		}
		_, _ = io.WriteString(w, `{"isValid":true}`)
	}))
	defer server.Close()
	usual := newPaidOver(b, server.URL, http.DefaultTransport.(*http.Transport).Clone())
	own := newPaidOver(b, server.URL, source.NewTransport())
	payments := 0
	for b.Loop() {
		var payloads [buyers][][]byte
		for n := range buyers {
			for range each {
				payloads[n] = append(payloads[n], stranger(payments).v2(b))
				payments++
			}
		}
		usual.pays(payloads[:])
		own.pays(payloads[:])
	}
	for name, p := range map[string]*paidOver{"usual": usual, "own": own} {
		b.ReportMetric(float64(payments)/p.spent.Seconds(), name+"-payments/s")
		b.ReportMetric(float64(p.dialed.Load())/float64(payments), name+"-connections/payment")
	}
	b.ReportMetric(usual.spent.Seconds()/own.spent.Seconds(), "x-usual")
}
