package x402

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	probeEvery = 5 * time.Minute
	// pauseFirst and pauseMost bound the pause after a failed probe, which doubles.
	pauseFirst = 5 * time.Second
	pauseMost  = time.Minute
	// probeGap is the least time between two probes.
	probeGap = 5 * time.Second
)

// Run keeps the facilitator's health current until ctx ends: it probes at once, every probeEvery, sooner
// while the facilitator is down, and after a failed call of a payment. It must not run twice at a time.
func (f *Facilitator) Run(ctx context.Context) {
	defer f.health.reset()
	f.loop.Run(ctx)
}

// poll waits for probeGap, probes, and returns the pause before the next probe.
func (f *Facilitator) poll(ctx context.Context) (pause time.Duration, err error) {
	select {
	case <-ctx.Done():
		return 0, nil
	case <-time.After(min(probeGap, probeGap-f.now().Sub(f.probed))):
	}
	f.loop.CancelWake()
	f.probed = f.now()
	down, err := f.probe(ctx)
	if ctx.Err() != nil {
		return 0, nil
	}
	return f.health.probed(f.now(), down), err
}

// probeSoon starts a probe after a payment's call failed, to find out whether the facilitator or that
// payment was the reason. It does nothing if the client has left or probes fail already.
func (f *Facilitator) probeSoon(ctx context.Context) {
	if ctx.Err() == nil && !f.health.failing() {
		f.loop.Wake()
	}
}

// ProbeOnce probes a facilitator for one rail. It returns FacilitatorHealth.Reason, with a reply of 4xx after a blank,
// and an error if the configuration is unusable.
func ProbeOnce(ctx context.Context, c FacilitatorConfig, o *offer.Offer, u *offer.USDC) (reason string, err error) {
	f, err := NewFacilitator(c)
	if err != nil {
		return "", err
	}
	f.health.expect(newTerms(o, u, flowUpfront))
	down, _ := f.probe(ctx)
	name := u.Network.CAIP2()
	return cmp.Or(down[name], f.health.reason(name)), nil
}

// probe asks what is supported, and to verify a payment without money on each network. It returns the
// error codes of the networks on which that failed, and one error for all.
func (f *Facilitator) probe(ctx context.Context) (down map[string]string, err error) {
	kinds, unread := f.supported(ctx)
	changed, missing := f.health.learn(kinds)
	if changed {
		f.Changes.Notify()
	}
	for _, name := range missing {
		f.log.Warn("facilitator does not support the network", "facilitator", f.Host(), "network", name, "hint", "configure a facilitator that supports it")
	}
	down = make(map[string]string)
	var failures []string
	for _, t := range f.health.targets() {
		failed := unread
		if failed == nil {
			failed = f.probeVerify(ctx, t)
		}
		if failed != nil {
			down[t.accepted.Network] = failed.Error()
			failures = append(failures, t.accepted.Network+" "+failed.Error())
		}
	}
	if len(failures) > 0 {
		err = errors.New(strings.Join(failures, ", "))
	}
	return down, err
}

// probeVerify returns nil if the facilitator answers a payment without money, also with a yes, which
// is logged once: some facilitators check balances only when they settle.
func (f *Facilitator) probeVerify(ctx context.Context, t target) error {
	var reply verifyReply
	_, rejection, err := f.ask(ctx, min(f.timeout, verifyTimeout), callVerify, t.unfundedPayment(f.now()), &reply, &reply.IsValid)
	switch {
	case err == nil:
		if f.health.verified(t.accepted.Network, *reply.IsValid) {
			f.log.Warn("facilitator approves payers without money", "facilitator", f.Host(), "network", t.accepted.Network,
				"hint", "payments without money fail only at their settlement; configure another facilitator to refuse them earlier")
		}
	case err.Error() == "status_429":
		return nil // it answers
	case rejection != "":
		return fmt.Errorf("%w (%s)", err, rejection)
	}
	return err
}

// unfundedPayment is a valid payment by a new key without money. To refuse it, a facilitator must read
// the chain. Its nonce is zero, which wallets do not use.
func (t target) unfundedPayment(now time.Time) facilitatorRequest {
	key, _ := crypto.GenerateKey() // never fails
	p := payment{version: t.version, authorization: authorization{
		From: crypto.PubkeyToAddress(key.PublicKey).Hex(), To: t.accepted.PayTo, Value: t.accepted.Amount,
		ValidAfter: "0", ValidBefore: strconv.FormatInt(now.Unix()+maxTimeoutSeconds, 10), Nonce: "0x" + strings.Repeat("0", 64),
	}}
	p.signature, _ = crypto.Sign(digest(p.authorization, t.domain), key) // never fails
	p.signature[64] += 27                                                // as tokens require
	return facilitatorRequest{t.version, p.rebuild(&t.terms, nil), t.in(t.version)}
}

type kind struct {
	X402Version int    `json:"x402Version"`
	Scheme      string `json:"scheme"`
	Network     string `json:"network"`
}

func (k kind) on(network string) bool {
	return k.Scheme == schemeExact && (k.Network == "eip155:*" || isNetwork(k.Network, network))
}

// supported asks what a facilitator supports. nil without an error means that it does not say.
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

// parseKinds reads a /supported reply. Kinds of another shape belong to other schemes.
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
