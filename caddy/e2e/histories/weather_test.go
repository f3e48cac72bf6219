package histories

import (
	"context"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

const (
	// blockTime is how often a block may be made.
	blockTime = 2 * time.Second
	// idleBlock is how old the newest block may be.
	idleBlock = 12 * time.Second
)

// mine makes the blocks.
func (w *world) mine() {
	d := w.dice(3)
	for pause(w.over, blockTime) {
		w.reach(w.now().Unix(), d.chance(0.7), idleBlock)
	}
}

// operate restarts the shop now and then.
func (w *world) operate(ctx context.Context) {
	d := w.dice(4)
	for pause(ctx, d.between(20*time.Second, 4*time.Minute)) {
		if w.script.crashes && d.chance(0.5) {
			w.crash(d.between(time.Second, 10*time.Second))
		} else if w.script.reloads {
			w.reload()
		}
	}
}

// storm lets the chain be unreadable at times, and its newest block be replaced.
func (w *world) storm(ctx context.Context) {
	d := w.dice(5)
	for pause(ctx, d.between(10*time.Second, 2*time.Minute)) {
		switch {
		case w.script.outages && d.chance(0.5):
			w.model.note("the chain cannot be read")
			w.wire.cut.Store(true)
			pause(ctx, d.between(5*time.Second, time.Minute))
			w.wire.cut.Store(false)
			w.model.note("the chain can be read again")
		case w.script.forks:
			w.model.note("the newest block is replaced")
			w.reorganize(1, d.chance(0.7))
		}
	}
}

// release lets the facilitators go on that hang, at a random time.
func (w *world) release() {
	if pause(w.over, w.dice(6).between(time.Second, 10*time.Minute)) {
		for _, f := range w.facilitators {
			f.Release()
		}
	}
}

// rain ends a drought.
func (w *world) rain() {
	if w.script.drought > 0 && pause(w.over, w.script.drought) {
		w.model.note("the facilitators settle again")
		w.heal()
	}
}

// heal lets the facilitators do what they are asked.
func (w *world) heal() {
	for _, f := range w.facilitators {
		f.Script(payoffertest.CallVerify, payoffertest.FacilitatorReply{})
		f.Script(payoffertest.CallSettle, payoffertest.FacilitatorReply{})
		f.Release()
	}
}
