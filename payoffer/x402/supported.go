package x402

import (
	"context"
	"encoding/json"
	"net/http"
)

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
	data, status, err := f.exchange(ctx, http.MethodGet, callSupported, nil)
	switch status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented, http.StatusTooManyRequests:
		return nil, nil
	case http.StatusOK:
	default:
		if err == nil {
			err = badReply(status)
		}
	}
	if err != nil {
		return nil, err
	}
	kinds, ok := parseKinds(data)
	if !ok {
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
