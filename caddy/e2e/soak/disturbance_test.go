package soak

import (
	"fmt"
	"net/http"
	"slices"

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
	s.found.Add(fmt.Sprintf("%s: status %d instead of %d", what, status, want), fmt.Sprintf("during %q: %.300s", caused.name, detail))
}
