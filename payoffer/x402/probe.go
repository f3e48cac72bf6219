package x402

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	probeEvery = 5 * time.Minute
	// minPause and maxPause bound the pause after a failed probe, which doubles.
	minPause = 5 * time.Second
	maxPause = time.Minute
	// probeGap is the least time between two probes because of failed payments.
	probeGap = 5 * time.Second
)

// Run keeps the facilitator's health current until ctx ends: it asks what is supported at once, every probeEvery, sooner
// while the facilitator is down, and after a failed call of a payment. It must not run twice at a time.
func (f *Facilitator) Run(ctx context.Context) { f.loop.Run(ctx) }

// poll asks what is supported, and returns the pause before the next time.
func (f *Facilitator) poll(ctx context.Context) (pause time.Duration, err error) {
	began := f.config.Now()
	kinds, err := f.supported(ctx)
	if stopped := err != nil && ctx.Err() != nil; !stopped && f.recordProbe(began, kinds, err) {
		f.Changes.Notify()
	}
	return source.Spread(probeEvery, rand.Float64()), err
}

// probeSoon asks what is supported after a payment's call failed, to find out whether the facilitator or that
// payment was the reason. It does nothing if the client has left or the last probe is not probeGap ago.
func (f *Facilitator) probeSoon(ctx context.Context) {
	f.health.mu.Lock()
	defer f.health.mu.Unlock()
	if ctx.Err() == nil && f.config.Now().Sub(f.health.probed) >= probeGap {
		f.loop.Wake()
	}
}

// ProbeOnce asks a facilitator what it supports, and to verify a payment without money. It returns FacilitatorHealth.Reason
// or ReasonUnfunded, with a reply of 4xx after a blank, and an error if the configuration is unusable.
func ProbeOnce(ctx context.Context, c FacilitatorConfig, o *offer.Offer, u *offer.USDC) (reason string, err error) {
	f, err := NewFacilitator(c)
	if err != nil {
		return "", err
	}
	kinds, failed := f.supported(ctx)
	if failed != nil {
		return failed.Error(), nil
	}
	version := newestVersion(kinds, u.Network.CAIP2())
	if version == 0 {
		return reasonUnsupported, nil
	}
	funded, failed := f.probeVerify(ctx, newTerms(o, u, flowUpfront), version)
	switch {
	case failed != nil:
		return failed.Error(), nil
	case funded:
		return ReasonUnfunded, nil
	}
	return "", nil
}

// probeVerify asks to verify a payment without money. yes says that it was accepted: some facilitators read balances only
// when they settle.
func (f *Facilitator) probeVerify(ctx context.Context, t terms, version int) (yes bool, err error) {
	r, err := f.request(ctx, callVerify, t.unfundedPayment(version, f.config.Now()))
	switch {
	case err != nil && err.Error() == "status_429":
		return false, nil // it answers
	case err != nil && r.rejection != "":
		err = fmt.Errorf("%w (%s)", err, r.rejection)
	}
	return r.yes, err
}

// unfundedPayment is a valid payment by a new key without money. To refuse it, a facilitator must read
// the chain. Its nonce is zero, which wallets do not use.
func (t terms) unfundedPayment(version int, now time.Time) facilitatorRequest {
	key, _ := crypto.GenerateKey() // never fails
	p := payment{version: version, authorization: authorization{
		From: crypto.PubkeyToAddress(key.PublicKey).Hex(), To: t.accepted.PayTo, Value: t.accepted.Amount,
		ValidAfter: "0", ValidBefore: strconv.FormatInt(now.Unix()+maxTimeoutSeconds, 10), Nonce: "0x" + strings.Repeat("0", 64),
	}}
	p.signature = p.authorization.sign(key, t.domain)
	return facilitatorRequest{version, p.rebuild(&t, nil), t.in(version)}
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
	data, _, status, err := f.exchange(ctx, callSupported, nil)
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
