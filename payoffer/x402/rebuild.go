package x402

import (
	"encoding/hex"
	"encoding/json"

	"github.com/ethereum/go-ethereum/common"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// rebuild makes the PaymentPayload for a facilitator from the checked values, the terms and the quoted extensions (nil
// for none). No byte of the payer's JSON reaches the facilitator, which could read it differently.
func (p *payment) rebuild(t *terms, quoted map[string]json.RawMessage) []byte {
	payload := Authorized{"0x" + hex.EncodeToString(p.signature), p.authorization}
	a := &payload.Authorization
	a.From, a.To, a.Nonce = common.HexToAddress(a.From).Hex(), common.HexToAddress(a.To).Hex(), common.HexToHash(a.Nonce).Hex()
	if p.version == 1 {
		return offer.JSON(PaymentPayloadV1{1, t.accepted.Scheme, networkIn(1, t.accepted.Network), payload})
	}
	built := PaymentPayload{2, t.resource, t.accepted, payload, make(map[string]json.RawMessage)}
	if bazaar, ok := quoted[extensionBazaar]; ok {
		built.Extensions[extensionBazaar] = bazaar
	}
	if p.paymentID != "" {
		built.Extensions[extensionPaymentID] = offer.JSON(map[string]any{"info": map[string]any{"required": false, "id": p.paymentID}})
	}
	return offer.JSON(built)
}
