package service

import (
	"cmp"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/clock"
	"github.com/payoffer/caddy-pay-offer/payoffer/desk"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/book"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// HeaderSounding carries the token of a sounding: by what arrives of its requests, the
// operator learns whether a public address leads to this very process.
const HeaderSounding = "Pay-Offer-Sounding"

const (
	// soundingLife is how long what arrives is noted.
	soundingLife = 2 * time.Minute
	// maxSoundings and maxArrivals, of each, bound what is remembered: the newest
	// soundings, and what arrived of them first.
	maxSoundings, maxArrivals = 64, 64
)

// forwarding are the headers by which a proxy names whom it asks for.
var forwarding = []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", "Cf-Connecting-Ip", "True-Client-Ip"}

// soundings remember what arrived of the requests of checks. The operator alone begins
// one.
type soundings struct {
	mu   sync.Mutex
	open map[string]*sounding // by token
}

type sounding struct {
	until    time.Time
	arrivals []desk.Arrival
}

// look is what arrived so far of a sounding, which it begins.
func (s *soundings) look(token string, now time.Time) []desk.Arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.open[token]
	if one == nil {
		one = &sounding{until: now.Add(soundingLife)}
		s.forget(now)
		s.open[token] = one
	}
	return append([]desk.Arrival{}, one.arrivals...)
}

// forget makes room for one more sounding.
func (s *soundings) forget(now time.Time) {
	if s.open == nil {
		s.open = make(map[string]*sounding)
	}
	maps.DeleteFunc(s.open, func(_ string, one *sounding) bool { return now.After(one.until) })
	for len(s.open) >= maxSoundings {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(s.open)), func(a, b string) int { return s.open[a].until.Compare(s.open[b].until) })
		delete(s.open, oldest)
	}
}

// note remembers a request.
func (s *soundings) note(token string, a desk.Arrival, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.open[token]; one != nil && now.Before(one.until) && len(one.arrivals) < maxArrivals {
		one.arrivals = append(one.arrivals, a)
	}
}

// arrival is a request as it arrived; counted is the address that rate_limit counts.
func arrival(r *http.Request, counted string) desk.Arrival {
	peer := r.RemoteAddr
	if parsed, err := netip.ParseAddrPort(peer); err == nil {
		peer = parsed.Addr().Unmap().WithZone("").String()
	}
	return desk.Arrival{
		Method: r.Method, Peer: peer, Counted: counted, Encrypted: r.TLS != nil, Itself: r.Header.Get(forwarding[0]) == peer,
		Forwarded: slices.ContainsFunc(forwarding, func(name string) bool { return len(r.Header[name]) > 0 }),
	}
}

// deliveries remember the last delivery to each webhook, and nothing that was in it.
type deliveries struct {
	mu   sync.Mutex
	last map[string]desk.HookState // by rail
}

func (d *deliveries) note(rail string, v observe.Verdict, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last == nil {
		d.last = make(map[string]desk.HookState)
	}
	d.last[rail] = desk.HookState{Rail: rail, Verdict: string(v), At: book.Timestamp(now.Unix())}
}

// of is the last delivery to the webhook of a rail.
func (d *deliveries) of(rail string) desk.HookState {
	d.mu.Lock()
	defer d.mu.Unlock()
	return cmp.Or(d.last[rail], desk.HookState{Rail: rail})
}

// Serve answers a request for one of the offer's paths. It returns false for any other
// and has then written nothing.
func (svc *Service) Serve(w http.ResponseWriter, r *http.Request) bool {
	if token := r.Header[HeaderSounding]; len(token) > 0 {
		svc.soundings.note(token[0], arrival(r, svc.counted(r)), time.Now())
	}
	return svc.Server.Serve(w, r)
}

// look is what a check asks of an offer at work, but for its ledger and its rails.
func (svc *Service) look(s desk.Sounding) desk.Inspection {
	i := desk.Inspection{
		Demo: svc.Offer.Demo, Settings: svc.Key.String(), Keys: []string{}, Clock: clock.Seconds(svc.clock.Offset()),
		Hooks: []desk.HookState{}, Arrivals: svc.soundings.look(s.Token, time.Now()),
	}
	for _, key := range svc.published() {
		i.Keys = append(i.Keys, svc.Offer.DID()+"#"+key.ID)
	}
	for _, rail := range svc.Offer.Rails {
		switch name := rail.Name(); {
		case slices.Contains(svc.HooksOff, name):
			i.Hooks = append(i.Hooks, desk.HookState{Rail: name, Off: true})
		case svc.Server.Hooks[name] != nil:
			i.Hooks = append(i.Hooks, svc.delivered.of(name))
		}
	}
	return i
}
