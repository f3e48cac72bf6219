package histories

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// purchase is what one payer wants once.
type purchase struct {
	name string
	// id is its payment-identifier, or empty.
	id string
	// payments are all authorizations that were signed for it.
	payments []*payment
	// named are the transactions that a 200 named to its buyer; it is over with the first.
	named map[string]bool
	// opened says that its buyer got the content of a gate; it is over with that.
	opened bool
}

// model knows what happened, and judges it.
type model struct {
	w *world

	mu        sync.Mutex
	purchases []*purchase
	payments  map[string]*payment // by nonce
	// broadcasts are the payments that a facilitator sent to the chain, by the transaction's hash, and sent the times.
	broadcasts map[string]*payment
	denials    []denial
	openings   []*payment // those of which a gate said that they open it
	story      []string
	faults     []string
}

// denial is an answer that says that nothing was charged.
type denial struct {
	payment *payment
	outcome x402.Outcome
	// before says that the payment was on its way to the chain already, and final that it cannot get there any more. What
	// a facilitator did not accept may be sent again.
	before, final bool
}

func newModel(w *world) *model {
	return &model{w: w, payments: map[string]*payment{}, broadcasts: map[string]*payment{}}
}

// note adds a line to the history's story.
func (m *model) note(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tell(format, args...)
}

func (m *model) tell(format string, args ...any) {
	m.story = append(m.story, fmt.Sprintf("%9.3fs  ", time.Since(bubbleBegin).Seconds())+fmt.Sprintf(format, args...))
}

// fault is something that must not be.
func (m *model) fault(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wrong(format, args...)
}

func (m *model) wrong(format string, args ...any) {
	m.faults = append(m.faults, fmt.Sprintf(format, args...))
	m.tell("WRONG: "+format, args...)
}

// begin adds a purchase.
func (m *model) begin(p *purchase) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p.named = map[string]bool{}
	m.purchases = append(m.purchases, p)
	m.tell("%s begins, payment identifier %q", p.name, p.id)
}

// signed adds an authorization.
func (m *model) signed(p *payment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p.name = fmt.Sprintf("%s.%d", p.purchase.name, len(p.purchase.payments)+1)
	p.purchase.payments = append(p.purchase.payments, p)
	m.payments[strings.ToLower(p.Nonce.Hex())] = p
}

// broadcast says that a facilitator sent a payment to the chain.
func (m *model) broadcast(nonce, hash string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.payments[strings.ToLower(nonce)]
	p.sent = true
	m.broadcasts[hash] = p
	m.tell("%s is broadcast as %.10s", p.name, hash)
}

// of are the payments that were signed for a purchase.
func (m *model) of(p *purchase) []*payment {
	return m.which(func(other *payment) bool { return other.purchase == p })
}

// seen are the payments that strangers may have: what the shop or the chain knows, and what was signed before the charge of
// a purchase that is over. Whoever has another one can have it settled, here or without us, and nothing tells that from a
// purchase of its payer.
func (m *model) seen() []*payment {
	return m.which(func(p *payment) bool { return p.sent || p.taken || p.ValidBefore < m.charged(p.purchase) })
}

// charged is the end of the authorization of which the buyer of a purchase knows that it was charged, or 0.
func (m *model) charged(p *purchase) (validBefore int64) {
	for transaction := range p.named {
		validBefore = max(validBefore, m.broadcasts[transaction].ValidBefore)
	}
	return validBefore
}

// public are those whose signatures can be read from the chain.
func (m *model) public() []*payment { return m.which(func(p *payment) bool { return p.sent }) }

func (m *model) isPublic(p *payment) bool { return slices.Contains(m.public(), p) }

func (m *model) which(ones func(*payment) bool) (all []*payment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, purchase := range m.purchases {
		for _, p := range purchase.payments {
			if ones(p) {
				all = append(all, p)
			}
		}
	}
	return all
}

// answered judges an answer by itself. arrived says that it reached who had sent the payment; buyer that this was the
// payer.
func (m *model) answered(p *payment, o x402.Outcome, who string, buyer, arrived bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	lost := ""
	if !arrived {
		lost = ", which is lost"
	}
	m.tell("%s gets for %s: %s%s", who, p.name, describe(o), lost)
	p.taken = p.taken || slices.Contains([]x402.Status{x402.Open, x402.Conflict, x402.Settled}, o.Status)
	denies := strings.Contains(strings.ToLower(o.Detail), "nothing was charged")
	if o.Status == x402.Refused || denies {
		m.denials = append(m.denials, denial{p, o, p.sent, o.Status == x402.Refused && o.Response != nil})
	}
	if o.Status != x402.Settled {
		return
	}
	charge := m.broadcasts[o.Response.Transaction]
	switch {
	case charge == nil:
		m.wrong("a 200 for %s names a transaction that nobody broadcast", p.name)
	case charge.From != p.From:
		m.wrong("a 200 for %s names the charge %s of another payer", p.name, charge.name)
	case buyer && charge.purchase != p.purchase:
		m.wrong("the buyer of %s gets a 200 that names %s, a charge of another purchase", p.name, charge.name)
	case buyer && arrived:
		p.purchase.named[o.Response.Transaction] = true
	}
}

func describe(o x402.Outcome) string {
	text := fmt.Sprintf("%s %s", o.Status, o.Reason)
	if o.Response != nil && o.Response.Transaction != "" {
		text += fmt.Sprintf(" by %.10s", o.Response.Transaction)
	}
	if o.Intent != "" {
		text += fmt.Sprintf(" naming %.10s", o.Intent)
	}
	return text
}

// delivered judges the content of a gate that followed a payment; by is the payment that opened it, as the gate has it, and
// public that p was on its way to the chain when it was sent.
func (m *model) delivered(p *payment, by, who string, buyer, public, arrived bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	opening := m.payments[by[strings.LastIndex(by, ":")+1:]]
	switch {
	case opening == nil || !opening.sent:
		m.wrong("%s gets the content for %s by %s, which nobody broadcast", who, p.name, by)
		return
	case opening.From != p.From:
		m.wrong("%s gets the content for %s by %s of another payer", who, p.name, opening.name)
	case !buyer && public:
		m.wrong("a stranger gets the content for %s, which is on the chain", p.name)
	case buyer && arrived:
		p.purchase.opened = true
	}
	m.openings = append(m.openings, opening)
	m.tell("%s gets the content for %s by %s; it arrives: %v", who, p.name, opening.name, arrived)
}

// over reports whether the buyer holds a 200, or the content.
func (m *model) over(p *purchase) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.w.script.gated {
		return p.opened
	}
	return len(p.named) > 0
}

// judge compares the purchases with the charges on the chain and with the answers, at the end of a history.
func (m *model) judge() {
	charges := m.w.charges()
	m.mu.Lock()
	defer m.mu.Unlock()
	charged := map[*payment]bool{}
	of := map[*purchase][]string{}
	for _, transfer := range charges {
		hash := transfer.Tx.Hex()
		p := m.broadcasts[hash]
		charged[p] = true
		of[p.purchase] = append(of[p.purchase], p.name)
		if !m.w.script.gated && !p.purchase.named[hash] {
			m.wrong("%s was charged, and no 200 of its purchase names that", p.name)
		}
	}
	for _, p := range m.purchases {
		if len(p.named) == 0 && !m.w.script.gated {
			m.wrong("%s ended without a 200", p.name)
		}
		if m.w.script.gated && !p.opened {
			m.wrong("%s ended without the content", p.name)
		}
		if len(of[p]) != 1 {
			m.wrong("%s was charged %d times: %s", p.name, len(of[p]), strings.Join(of[p], ", "))
		}
	}
	for _, p := range m.openings {
		if !charged[p] {
			m.wrong("%s opened the gate without a charge", p.name)
		}
	}
	for _, d := range m.denials {
		if charged[d.payment] && (d.final || d.before) {
			m.wrong("%s was charged, and an answer denies it: %s %q", d.payment.name, describe(d.outcome), d.outcome.Detail)
		}
	}
}
