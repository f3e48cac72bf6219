package x402

import (
	"encoding/hex"
	"encoding/json"

	"github.com/ethereum/go-ethereum/common"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// builtPayload is the PaymentPayload that facilitators get, in either version.
type builtPayload struct {
	X402Version int                        `json:"x402Version"`
	Scheme      string                     `json:"scheme,omitempty"`
	Network     string                     `json:"network,omitempty"`
	Resource    json.RawMessage            `json:"resource,omitempty"`
	Accepted    json.RawMessage            `json:"accepted,omitempty"`
	Payload     builtTransfer              `json:"payload"`
	Extensions  map[string]json.RawMessage `json:"extensions,omitempty"`
}

type builtTransfer struct {
	Signature     string        `json:"signature"`
	Authorization authorization `json:"authorization"`
}

// rebuild makes the PaymentPayload for a facilitator from the checked values, the terms and the quoted extensions (nil
// for none). No byte of the payer's JSON reaches the facilitator, which could read it differently.
func (p *payment) rebuild(t *terms, quoted map[string]json.RawMessage) []byte {
	built := builtPayload{X402Version: p.version, Payload: builtTransfer{"0x" + hex.EncodeToString(p.signature), p.authorization}}
	a := &built.Payload.Authorization
	a.From, a.To, a.Nonce = common.HexToAddress(a.From).Hex(), common.HexToAddress(a.To).Hex(), common.HexToHash(a.Nonce).Hex()
	if p.version == 1 {
		built.Scheme, built.Network = t.accepted.Scheme, networkIn(1, t.accepted.Network)
		return offer.JSON(built)
	}
	built.Resource, built.Accepted, built.Extensions = t.resource, t.v2, make(map[string]json.RawMessage)
	if bazaar, ok := quoted[extensionBazaar]; ok {
		built.Extensions[extensionBazaar] = bazaar
	}
	if p.paymentID != "" {
		built.Extensions[extensionPaymentID] = offer.JSON(map[string]any{"info": map[string]any{"required": false, "id": p.paymentID}})
	}
	return offer.JSON(built)
}
