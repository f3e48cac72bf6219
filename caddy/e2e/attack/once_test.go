package attack

import (
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// message are names that every message of A2A has anew.
var message = regexp.MustCompile(`"(id|messageId|contextId|taskId)":"[0-9a-f]{32}"`)

// One signature is sent by every transport at once: it is one purchase, which each is told of in the end, and told again.
func TestOneSignatureByEveryTransportIsOneCharge(t *testing.T) {
	t.Parallel()
	m := openMarket(t, 1)
	facilitator := m.facilitator()
	s := openShop(m, m.payee(), unlimited, rail{"base-sepolia", m.chain.URL, []string{facilitator}})
	p := s.sign(s.buyer())

	var mu sync.Mutex
	var work sync.WaitGroup
	all := map[string][]answer{}
	for name, send := range transports {
		work.Go(func() {
			answers := s.followBy(send, p, func(a answer) bool { return a.status == http.StatusOK })
			mu.Lock()
			defer mu.Unlock()
			all[name] = answers
		})
	}
	work.Wait()
	charges := s.charges(s.payee, p.buyer)
	require.Len(t, charges, 1, "charged more than once")
	for name, answers := range all {
		requireTruth(t, name, answers, charges[0])
		for _, a := range answers {
			require.True(t, a.again || a.status == http.StatusOK, "%s: %d %s", name, a.status, a.text)
			require.True(t, a.names(p), "%s: %s", name, a.text)
		}
	}

	// Once the observer has found it, nothing changes any more.
	s.eventually("the payment is read on the chain", func() bool {
		a := s.pay(p)
		return a.status == http.StatusOK && !strings.Contains(a.text, `"claimed"`)
	})
	for name, send := range transports {
		first, again := send(t.Context(), s, p), send(t.Context(), s, p)
		require.Equal(t, http.StatusOK, first.status, "%s: %s", name, first.text)
		require.Equal(t, message.ReplaceAllString(first.text, ""), message.ReplaceAllString(again.text, ""), name)
	}
	require.Len(t, s.charges(s.payee, p.buyer), 1)
}
