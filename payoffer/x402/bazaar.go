package x402

import (
	"encoding/json"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// extensionBazaar is the extension by which facilitators list a resource
// (x402, Bazaar).
const extensionBazaar = "bazaar"

// bazaarSchema describes the extension's info (JSON Schema 2020-12).
var bazaarSchema = json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"input":{"type":"object","properties":{"type":{"const":"http"},"method":{"enum":["POST"]},"bodyType":{"enum":["json"]},"body":{"type":"object"}},"required":["type","method","bodyType","body"],"additionalProperties":false},"output":{"type":"object","properties":{"type":{"const":"json"},"example":{"type":"object"}},"required":["type"]}},"required":["input"]}`)

// bazaarInfo says how the paid resource is called and what it answers.
type bazaarInfo struct {
	Input struct {
		Type     string   `json:"type"`
		Method   string   `json:"method"`
		BodyType string   `json:"bodyType"`
		Body     struct{} `json:"body"`
	} `json:"input"`
	Output struct {
		Type    string        `json:"type"`
		Example bazaarExample `json:"example"`
	} `json:"output"`
}

// bazaarExample is the part of a paid answer that is the same for every buyer.
type bazaarExample struct {
	Success   bool      `json:"success"`
	Status    string    `json:"status"`
	AmountUSD offer.USD `json:"amountUsd"`
	Currency  string    `json:"currency"`
}

// bazaar describes POST without a body: an empty object where a client insists
// on one.
func (s *Service) bazaar() json.RawMessage {
	var info bazaarInfo
	info.Input.Type, info.Input.Method, info.Input.BodyType = "http", "POST", "json"
	info.Output.Type = "json"
	info.Output.Example = bazaarExample{Success: true, Status: "seen", AmountUSD: s.offer.Amount, Currency: "USD"}
	return encode(extension{info, bazaarSchema})
}
