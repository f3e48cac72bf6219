package service

import (
	"context"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/gate"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// memory is what the loads share of one offer.
type memory struct {
	gates gate.Memory
	// ready ends when the offer is open for the first time, so that it can take payments and knows the addresses of receipts.
	ready context.Context
	set   context.CancelFunc
	// open is the service that opened last, or nil.
	open atomic.Pointer[Service]
}

func newMemory() *memory {
	m := new(memory)
	m.ready, m.set = context.WithCancel(context.Background())
	return m
}

// opened records that a service is open.
func (m *memory) opened(s *Service) {
	m.open.Store(s)
	m.set()
}

// formerFor is how long a service shows what the former one observed. It is longer than the observers of a thousand offers
// need for their first poll.
const formerFor = 2 * time.Minute

// former is what the service of the load before knew of the rails with the same settings.
type former struct {
	until   time.Time
	healths map[string]observe.Health // by rail
	address string
}

func (m *memory) formerOf(s *Service) former {
	f := former{until: time.Now().Add(formerFor), healths: make(map[string]observe.Health)}
	before := m.open.Load()
	if before == nil {
		return f
	}
	for _, h := range before.Health() {
		is := func(rail Rail) bool { return rail.Name() == h.Rail }
		now, then := slices.IndexFunc(s.Rails, is), slices.IndexFunc(before.Rails, is)
		if now >= 0 && reflect.DeepEqual(s.Rails[now], before.Rails[then]) {
			f.healths[h.Rail] = h
		}
	}
	if _, same := f.healths[offer.RailBitcoin]; same && s.addresses != nil {
		f.address = before.live().Address
	}
	return f
}

// or returns what an observer reports, or what the former one did while it has not polled.
func (f former) or(h observe.Health) observe.Health {
	if then, ok := f.healths[h.Rail]; ok && h.ObservedThrough == "" && h.LastError == "" && time.Now().Before(f.until) {
		return then
	}
	return h
}
