package histories

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// fate is what becomes of a request: its connection is cut after a time, or while the answer is written.
type fate struct {
	leaves time.Duration // 0 is never
	loses  bool
}

// whole is a request that is answered.
var whole = fate{}

// post sends a payload. It reports false when no answer arrived.
func (w *world) post(p *payment, payload []byte, who string, buyer bool, f fate) (o x402.Outcome, arrived bool) {
	shop := w.current()
	if shop == nil {
		w.model.note("%s finds the shop closed, with %s", who, p.name)
		return o, false
	}
	ctx, cancel := context.WithCancel(shop)
	defer cancel()
	if f.leaves > 0 {
		defer time.AfterFunc(f.leaves, cancel).Stop()
	}
	w.model.note("%s sends %s", who, p.name)
	if shop.gate != nil {
		return w.visit(ctx, shop.gate, p, payload, who, buyer, f)
	}
	ctx = x402.TrackResponse(ctx)
	o = shop.service.Pay(ctx, x402.Attempt{Payload: payload, Client: who})
	arrived = ctx.Err() == nil && !f.loses
	w.model.answered(p, o, who, buyer, arrived)
	x402.EndResponse(ctx, arrived)
	return o, arrived
}

// stranger sends again what anybody has sent, and what the chain shows.
func (w *world) stranger() {
	d := w.dice(2)
	for pause(w.over, d.between(time.Second, w.script.strangers)) {
		all := w.model.seen()
		if d.chance(0.4) {
			all = w.model.public()
		}
		if len(all) == 0 {
			continue
		}
		w.background.Go(func() { w.replay(d, all[d.roll(len(all))]) })
	}
}

// replay sends a payment of somebody else. What has been on the chain can be dressed in any way: the signature is public.
func (w *world) replay(d *dice, p *payment) {
	payload := p.payload(w.t, p.purchase.id, "")
	if w.model.isPublic(p) {
		switch d.roll(4) {
		case 0:
			payload = p.payload(w.t, "", "")
		case 1:
			payload = p.payload(w.t, rand.Text(), rand.Text())
		case 2:
			payload = p.payloadV1(w.t)
		}
	}
	f := whole
	if d.chance(0.3) {
		f = fate{leaves: d.between(time.Millisecond, timeout)}
	}
	w.post(p, payload, "stranger", false, f)
}
