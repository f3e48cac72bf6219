package histories

import (
	"crypto/rand"
	"slices"
	"time"
)

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
	payload := p.payload(w.t, p.purchase.id)
	if slices.Contains(w.model.public(), p) {
		switch d.roll(4) {
		case 0:
			payload = p.payload(w.t, "")
		case 1:
			payload = p.payload(w.t, rand.Text())
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
