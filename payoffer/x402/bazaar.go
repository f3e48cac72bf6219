package x402

import "encoding/json"

// extensionBazaar is the extension by which facilitators list a resource
// (x402, Bazaar).
const extensionBazaar = "bazaar"

// bazaarSchema describes the extension's info (JSON Schema 2020-12).
var bazaarSchema = json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"input":{"type":"object","properties":{"type":{"const":"http"},"method":{"enum":["POST"]},"bodyType":{"enum":["json"]},"body":{"type":"object"}},"required":["type","method","bodyType","body"],"additionalProperties":false},"output":{"type":"object","properties":{"type":{"const":"json"},"example":{"type":"object"}},"required":["type"]}},"required":["input"]}`)

// bazaar says how the paid resource is called, which is POST without a body (an
// empty object where a client insists on one), and the part of a paid answer
// that is the same for every buyer.
func (s *Service) bazaar() json.RawMessage {
	return encode(extension{json.RawMessage(`{"input":{"type":"http","method":"POST","bodyType":"json","body":{}},"output":{"type":"json",` +
		`"example":{"success":true,"status":"seen","amountUsd":` + string(encode(s.offer.Amount)) + `,"currency":"USD"}}}`), bazaarSchema})
}
