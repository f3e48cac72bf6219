package histories

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// payment is a signed authorization of the price.
type payment struct {
	chain.Authorization
	name      string
	purchase  *purchase
	signature hexutil.Bytes
	// sent says that it is, or was, on its way to the chain, and taken that the shop knows it, or turned it away for another.
	sent, taken bool
	// token is that of the quote, which only the payer has; empty without a gate.
	token string
}

// validity is how long the official client lets an authorization be valid.
const validity = 5 * time.Minute

// sign signs one more authorization for a purchase, as the official client does.
func (w *world) sign(p *purchase, key *ecdsa.PrivateKey) *payment {
	a := chain.NewAuthorization(w.t, chain.Address(key), w.payee, price)
	a.ValidAfter, a.ValidBefore = 0, w.now().Add(validity).Unix()
	signed := &payment{Authorization: a, purchase: p, signature: a.Sign(w.t, key)}
	if w.script.gated {
		signed.token = rand.Text()
	}
	w.model.signed(signed)
	return signed
}

// payload is what the official client sends, with a payment identifier and the token of a quote unless they are empty.
func (p *payment) payload(t *testing.T, id, token string) []byte {
	type object = map[string]any
	payload := object{
		"x402Version": 2,
		"accepted": object{
			"scheme": "exact", "network": "eip155:" + strconv.FormatInt(p.Network.ID, 10), "asset": p.Network.USDC.Hex(),
			"amount": strconv.Itoa(price), "payTo": p.To.Hex(), "maxTimeoutSeconds": 300,
			"extra": object{"name": "USDC", "version": "2"},
		},
		"payload": object{"signature": p.signature, "authorization": p.Authorization},
	}
	extensions := object{}
	if id != "" {
		extensions["payment-identifier"] = object{"info": object{"required": false, "id": id}}
	}
	if token != "" {
		extensions["access"] = object{"info": object{"token": token}}
	}
	if len(extensions) > 0 {
		payload["extensions"] = extensions
	}
	data, err := json.Marshal(payload)
	require.NoError(t, err)
	return data
}

// payloadV1 is the same in version 1, which has no identifiers.
func (p *payment) payloadV1(t *testing.T) []byte {
	data, err := json.Marshal(map[string]any{
		"x402Version": 1, "scheme": "exact", "network": "base-sepolia",
		"payload": map[string]any{"signature": p.signature, "authorization": p.Authorization},
	})
	require.NoError(t, err)
	return data
}

// beside runs functions beside the bubble in which the time of a history passes: what was made outside of a bubble, as a
// chain that outlives many histories, must not touch the channels of one. While a function runs, no time passes.
type beside struct{ idle chan *hand }

// hand runs one function after the other.
type hand struct {
	work chan func()
	done chan struct{}
}

// hands is how many functions run at once.
const hands = 8

func newBeside(t *testing.T) *beside {
	t.Helper()
	b := &beside{idle: make(chan *hand, hands)}
	var work sync.WaitGroup
	all := make([]*hand, hands)
	for i := range all {
		all[i] = &hand{make(chan func()), make(chan struct{})}
		work.Go(all[i].serve)
		b.idle <- all[i]
	}
	t.Cleanup(func() {
		for _, h := range all {
			close(h.work)
		}
		work.Wait()
	})
	return b
}

func (h *hand) serve() {
	for f := range h.work {
		go func() {
			defer func() { h.done <- struct{}{} }() // also when f fails the test
			f()
		}()
	}
}

// do runs f and returns when it has ended.
func (b *beside) do(f func()) {
	h := <-b.idle
	h.work <- f
	<-h.done
	b.idle <- h
}

// wire is the way to a chain's endpoint. It may be cut.
type wire struct {
	*beside
	url string
	cut atomic.Bool
}

var errCut = errors.New("no way to the node")

// RoundTrip sends a call on a connection of outside the bubble.
func (w *wire) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err = errors.Join(err, request.Body.Close()); err != nil {
		return nil, err
	}
	if w.cut.Load() {
		return nil, errCut
	}
	var answer []byte
	var status int
	w.do(func() {
		var response *http.Response
		if response, err = http.Post(w.url, "application/json", bytes.NewReader(body)); err != nil {
			return
		}
		defer response.Body.Close()
		status = response.StatusCode
		answer, err = io.ReadAll(response.Body)
	})
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(answer)),
		Body: io.NopCloser(bytes.NewReader(answer)), Request: request, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}, nil
}

// line is the way of one process of the service to a facilitator: calls take their time, and end with the process.
type line struct {
	http.RoundTripper
	life  context.Context
	delay func()
}

func (l line) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(request.Context())
	context.AfterFunc(l.life, cancel)
	l.delay()
	response, err := l.RoundTripper.RoundTrip(request.WithContext(ctx))
	if err == nil {
		l.delay()
	}
	return response, err
}

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
	response := new(x402.Response)
	o = shop.service.Pay(ctx, x402.Attempt{Payload: payload, Client: who, Response: response})
	arrived = ctx.Err() == nil && !f.loses
	w.model.answered(p, o, who, buyer, arrived)
	response.End(arrived)
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
