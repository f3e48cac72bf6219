package x402

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
)

const (
	// probeEvery is how often a healthy facilitator is probed.
	probeEvery = 5 * time.Minute
	// pauseFirst and pauseMost bound the pause after a probe that failed, which
	// doubles each time.
	pauseFirst = 5 * time.Second
	pauseMost  = time.Minute
	// probeGap is the time between two probes at least, whatever payments fail.
	probeGap = 5 * time.Second
)

// Run keeps the facilitator's health current until ctx ends, and logs what
// changes: it probes at once, then rarely, sooner while it is down, and at once
// when a payment's call has failed. It may run again after it returned, but not
// twice at a time.
func (f *Facilitator) Run(ctx context.Context) {
	defer f.health.forget()
	f.loop.Run(ctx)
}

// round is one probe, as soon as one may be made, and returns the pause to the
// next one.
func (f *Facilitator) round(ctx context.Context) (pause time.Duration, err error) {
	select {
	case <-ctx.Done():
		return 0, nil
	case <-time.After(min(probeGap, probeGap-f.now().Sub(f.probed))):
	}
	f.loop.Heard()
	f.probed = f.now()
	down, err := f.probe(ctx)
	if ctx.Err() != nil {
		return 0, nil
	}
	return f.health.probed(f.now(), down), err
}

// expect says that payments by a rail's terms are to be settled here. Run warns
// once when the facilitator does not do that.
func (f *Facilitator) expect(t terms) {
	if f.health.expect(t) {
		f.look()
	}
}

// suspect has Run look whether a call of a payment failed by the facilitator or
// by that payment alone. A caller who has left says nothing of either, and what
// is down is looked at anyway.
func (f *Facilitator) suspect(ctx context.Context) {
	if ctx.Err() == nil && !f.health.failing() {
		f.look()
	}
}

// look has Run probe.
func (f *Facilitator) look() { f.loop.Wake() }

// probe asks what is supported and then, for each network on which it is to
// settle, to verify a payment that cannot be made. It returns the networks on
// which that failed, with its code, and one error for all.
func (f *Facilitator) probe(ctx context.Context) (down map[string]string, err error) {
	kinds, unread := f.supported(ctx)
	for _, network := range f.health.learn(kinds) {
		f.log.Warn("facilitator does not settle on the network and is skipped; choose another one", "facilitator", f.Host(), "network", network)
	}
	down = make(map[string]string)
	var said []string
	for _, t := range f.health.targets() {
		failed := unread
		if failed == nil {
			failed = f.verifies(ctx, t)
		}
		if failed != nil {
			down[t.accepted.Network] = failed.Error()
			said = append(said, t.accepted.Network+" "+failed.Error())
		}
	}
	if len(said) > 0 {
		err = errors.New(strings.Join(said, ", "))
	}
	return down, err
}

// verifies returns nil if the facilitator answers a payment without money behind it.
// A yes is logged once: some facilitators check balances only when they settle.
func (f *Facilitator) verifies(ctx context.Context, t target) error {
	var reply verifyReply
	_, err := f.ask(ctx, min(f.timeout, verifyTimeout), callVerify, t.paymentOfNobody(f.now()), &reply, &reply.IsValid)
	switch {
	case err == nil:
		if f.health.verified(t.accepted.Network, *reply.IsValid) {
			f.log.Warn("facilitator accepts payers without money", "facilitator", f.Host(), "network", t.accepted.Network,
				"hint", "it is used; its yes to a payment proves nothing, and payments without money fail only when they are settled")
		}
	case err.Error() == "status_429":
		return nil // too many calls: it is alive
	}
	return err
}

// paymentOfNobody is right in everything but that its payer has no money: the
// key is made for it and thrown away. To refuse it a facilitator must read the
// chain, as for every payment. Its nonce is zero, which no wallet's is.
func (t target) paymentOfNobody(now time.Time) facilitatorRequest {
	key, _ := crypto.GenerateKey() // never fails
	p := payment{version: t.version, authorization: authorization{
		From: crypto.PubkeyToAddress(key.PublicKey).Hex(), To: t.accepted.PayTo, Value: t.accepted.Amount,
		ValidAfter: "0", ValidBefore: strconv.FormatInt(now.Unix()+maxTimeoutSeconds, 10), Nonce: "0x" + strings.Repeat("0", 64),
	}}
	p.signature, _ = crypto.Sign(digest(p.authorization, t.domain), key) // never fails
	p.signature[64] += 27                                                // as wallets write it
	return facilitatorRequest{t.version, p.rebuilt(&t.terms, nil), t.in(t.version)}
}

// kind is one entry of GET /supported.
type kind struct {
	X402Version int    `json:"x402Version"`
	Scheme      string `json:"scheme"`
	Network     string `json:"network"`
}

// anyEVM is how a facilitator names every EVM chain.
const anyEVM = "eip155:*"

// on reports whether payments by our scheme are taken on a network (CAIP-2).
func (k kind) on(network string) bool {
	return k.Scheme == schemeExact && (k.Network == anyEVM || isNetwork(k.Network, network))
}

// supported asks what a facilitator supports. nil without an error means that
// it answers and does not tell.
func (f *Facilitator) supported(ctx context.Context) ([]kind, error) {
	data, _, status, err := f.exchange(ctx, min(f.timeout, verifyTimeout), http.MethodGet, callSupported, nil)
	switch status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented, http.StatusTooManyRequests:
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	kinds, ok := parseKinds(data)
	if !ok || status != http.StatusOK {
		return nil, badReply(status)
	}
	return kinds, nil
}

// parseKinds reads the kinds of a /supported reply. One that has another
// shape is that of a scheme which is not ours.
func parseKinds(data []byte) (kinds []kind, ok bool) {
	var reply struct {
		Kinds []json.RawMessage `json:"kinds"`
	}
	if json.Unmarshal(data, &reply) != nil || reply.Kinds == nil {
		return nil, false
	}
	kinds = make([]kind, 0, len(reply.Kinds))
	for _, raw := range reply.Kinds {
		var k kind
		if json.Unmarshal(raw, &k) == nil {
			kinds = append(kinds, k)
		}
	}
	return kinds, true
}
