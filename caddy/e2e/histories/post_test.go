package histories

import (
	"context"
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
	ctx = x402.TrackResponse(ctx)
	w.model.note("%s sends %s", who, p.name)
	o = shop.service.Pay(ctx, x402.Attempt{Payload: payload, Client: who})
	arrived = ctx.Err() == nil && !f.loses
	w.model.answered(p, o, who, buyer, arrived)
	x402.EndResponse(ctx, arrived)
	return o, arrived
}
