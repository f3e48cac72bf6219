package soak

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// part is what an answer may rest on.
type part int

const (
	facilitators part = iota
	rates
	database
)

// disturbance is something in the world that fails for a while. What it touches may be answered 503 meanwhile.
type disturbance struct {
	name       string
	touches    map[part]bool
	begin, end func()
}

// disturbances are all, each after a calm.
func (s *shop) disturbances() (all []disturbance) {
	refused := payoffertest.FacilitatorReply{Status: http.StatusInternalServerError}
	first, second := s.facilitators[0], s.facilitators[1]
	failing := []disturbance{
		{"the first facilitator, which refuses to verify", map[part]bool{facilitators: true},
			func() { first.Script(payoffertest.CallVerify, refused) }, func() { first.Script(payoffertest.CallVerify) }},
		{"the second facilitator, which settles and does not say so", map[part]bool{facilitators: true},
			func() {
				second.Script(payoffertest.CallSettle, payoffertest.FacilitatorReply{Fault: payoffertest.FaultCloseActed})
			},
			func() { second.Script(payoffertest.CallSettle) }},
		{"the first facilitator, which settles and does not say so", map[part]bool{facilitators: true},
			func() {
				first.Script(payoffertest.CallSettle, payoffertest.FacilitatorReply{Fault: payoffertest.FaultCloseActed})
			},
			func() { first.Script(payoffertest.CallSettle) }},
		{"the price sources", map[part]bool{rates: true},
			func() { s.rates.SetAll(payoffertest.PriceReply{Status: http.StatusInternalServerError}) },
			func() { s.rates.SetAll(payoffertest.PriceReply{Price: "90000"}) }},
	}
	if s.database != nil {
		failing = append(failing, disturbance{"the database, which is restarted", map[part]bool{database: true},
			func() { s.database.Stop(s) }, func() { s.database.Start(s) }})
	}
	for _, d := range failing {
		all = append(all, disturbance{name: "nothing", begin: func() {}, end: func() {}}, d)
	}
	return all
}

// findings are what was wrong, each kind with its number and the first of it.
type findings struct {
	mu    sync.Mutex
	first map[string]string
	count map[string]int
}

func (f *findings) add(what, detail string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count == nil {
		f.first, f.count = map[string]string{}, map[string]int{}
	}
	if f.count[what]++; f.count[what] == 1 {
		f.first[what] = detail
	}
}

// report fails the test for each kind.
func (f *findings) report(s *shop) {
	s.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(f.count)) {
		s.Errorf("%s: %d times; first %s", what, f.count[what], f.first[what])
	}
}

// answered notes an answer that is not what it should be, unless something in the world caused it.
func (s *shop) answered(what string, status, want int, detail string, caused *disturbance, rests ...part) {
	s.answers.Add(1)
	if status == want {
		return
	}
	if status == http.StatusServiceUnavailable {
		for _, d := range []*disturbance{caused, s.now.Load()} {
			if slices.ContainsFunc(rests, func(p part) bool { return d.touches[p] }) {
				return
			}
		}
	}
	s.found.add(fmt.Sprintf("%s: status %d instead of %d", what, status, want), fmt.Sprintf("during %q: %.300s", caused.name, detail))
}
