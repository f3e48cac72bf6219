package histories

import (
	"crypto/rand"
	"time"
)

// stranger sends again what anybody has sent, and what the chain shows.
func (w *world) stranger() {
	for pause(w.over, w.between(time.Second, w.script.strangers)) {
		all := w.model.known()
		if public := w.model.public(); w.chance(0.4) {
			all = public
		}
		if len(all) == 0 {
			continue
		}
		w.background.Go(func() { w.replay(all[w.roll(len(all))]) })
	}
}

// replay sends a payment of somebody else. What has been on the chain can be dressed in any way: the signature is public.
func (w *world) replay(p *payment) {
	payload := p.payload(w.t, p.purchase.id)
	if p.sent {
		switch w.roll(4) {
		case 0:
			payload = p.payload(w.t, "")
		case 1:
			payload = p.payload(w.t, rand.Text())
		case 2:
			payload = p.payloadV1(w.t)
		}
	}
	f := whole
	if w.chance(0.3) {
		f = fate{leaves: w.between(time.Millisecond, timeout)}
	}
	w.post(p, payload, "stranger", false, f)
}
