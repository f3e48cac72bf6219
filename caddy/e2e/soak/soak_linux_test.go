// Package soak proves that a server endures: documents, quotes, payments, webhooks, agents and reports go on together for as
// long as there is time, while it is reloaded every second, and what it needs of the world fails in turn.
package soak

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
)

// Every payment is accounted for against the chain, nothing fails that nothing caused, and nothing grows between two quiet
// moments. Time decides only how many rounds there are: 10 minutes with FULL=1, one in the full check, else seconds.
func TestEndurance(t *testing.T) {
	budget := time.Duration(cases.EndToEnd(2, 60, 600)) * time.Second
	for _, c := range []struct {
		name string
		open func(*testing.T) *shop
	}{
		{"sqlite", func(t *testing.T) *shop { return openShop(t, nil) }},
		{"postgres", func(t *testing.T) *shop { return openShop(t, postgres.Start(t)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := c.open(t)
			all := s.disturbances()
			s.endure(all) // what is done once, is done
			first := s.resources()
			s.limitFiles(first.files)
			rounds, began := len(all), time.Now()
			for ; time.Since(began) < budget || rounds < 2*len(all); rounds++ {
				s.endure(all[rounds%len(all):][:1])
			}
			s.requireNoGrowth(first)
			s.found.Report(s)
			s.requireAccounted()
			t.Logf("%d rounds: %d answers, %d payments, %d webhooks, %d reloads", rounds, s.answers.Load(), len(s.paid), s.deliveries.Load(), s.reloads.Load())
		})
	}
}

// endure lets everybody use the shop under each disturbance, and returns when all of it is over.
func (s *shop) endure(disturbances []disturbance) {
	s.Helper()
	stop := s.reloadEverySecond()
	for _, d := range disturbances {
		s.round(d)
	}
	stop()
}

// round begins a disturbance, lets every payment and every request be answered once, and a reload happen; then it ends the
// disturbance, and returns when every payment is made and the shop is as before.
func (s *shop) round(d disturbance) {
	s.Helper()
	s.now.Store(&d)
	d.begin()
	reloads := s.reloads.Load()
	crowd := s.visitors()
	buying := s.buy()
	crowd.awaitAll()
	buying.awaitAnswers()
	server.Eventually(s, "a reload", func() bool { return s.reloads.Load() > reloads })
	d.end()
	s.paid = append(s.paid, buying.awaitPaid()...)
	server.Eventually(s, "the shop has recovered from "+d.name, s.recovered)
	crowd.end()
	s.now.Store(&disturbance{})
	require.False(s, s.Failed(), d.name)
}
