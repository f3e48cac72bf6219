package histories

import (
	"crypto/ecdsa"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

const (
	// apart is the time between two purchases of a payer that nothing else tells apart. The service protects a payer for
	// two minutes after the answer.
	apart = 3 * time.Minute
	// longestPause is how long a buyer waits before the next try, whatever is advised: less than the two minutes.
	longestPause = 20 * time.Second
	// mostCuts is how many connections of one purchase break.
	mostCuts = 2
	// mostTries bounds a purchase: it is half an hour and more.
	mostTries = 200
)

// buyer is a payer with a client that signs anew at every try.
type buyer struct {
	*world
	*dice
	key  *ecdsa.PrivateKey
	name string
	cuts int // that are left for the purchase
}

// buy makes some purchases, one after the other.
func (b *buyer) buy(count int) {
	for n := range count {
		p := &purchase{name: fmt.Sprintf("%s%d", b.name, n+1)}
		if named := b.chance(0.4); named {
			p.id = rand.Text()
		} else if n > 0 {
			time.Sleep(apart)
		}
		b.cuts = mostCuts
		b.model.begin(p)
		for try := 0; !b.model.over(p); try++ {
			if try == mostTries {
				b.model.fault("%s has no 200 after %d tries", p.name, try)
				return
			}
			b.try(p)
		}
	}
}

// try sends a payment, sometimes two at once, and waits before the next.
func (b *buyer) try(p *purchase) {
	var both sync.WaitGroup
	answered := make(chan struct{})
	var o x402.Outcome
	both.Go(func() {
		defer close(answered)
		o = b.send(p)
	})
	if b.chance(0.15) {
		select {
		case <-answered:
		case <-time.After(b.between(time.Second, 3*time.Second)):
			both.Go(func() { b.send(p) })
		}
	}
	both.Wait()
	if b.model.over(p) {
		return
	}
	pause := o.RetryAfter
	if pause == 0 || pause > longestPause {
		pause = b.between(time.Second, longestPause)
	}
	time.Sleep(pause)
}

// send signs a payment, or takes one of before, and posts it.
func (b *buyer) send(p *purchase) x402.Outcome {
	var signed *payment
	if before := b.model.of(p); len(before) > 0 && b.chance(0.15) {
		signed = before[b.roll(len(before))]
	} else {
		signed = b.sign(p, b.key)
	}
	o, _ := b.post(signed, signed.payload(b.t, p.id, signed.token), b.name, true, b.fate())
	return o
}

// fate cuts a connection, as long as there are any to be cut.
func (b *buyer) fate() fate {
	if !b.chance(b.script.cuts) {
		return whole
	}
	b.world.mu.Lock()
	left := b.cuts
	b.cuts--
	b.world.mu.Unlock()
	switch {
	case left <= 0:
		return whole
	case b.chance(0.5):
		return fate{loses: true}
	default:
		return fate{leaves: b.between(time.Millisecond, timeout)}
	}
}
