package payoffertest

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Words of the reference facilitator.
const (
	reasonSpent    = "invalid_exact_evm_nonce_already_used"
	reasonFailed   = "invalid_exact_evm_transaction_failed"
	reasonUnfunded = "invalid_exact_evm_insufficient_balance"
)

// settleRequest is what is read of the body of /verify and /settle, of both
// versions.
type settleRequest struct {
	PaymentPayload struct {
		Payload struct {
			Signature     string `json:"signature"`
			Authorization struct {
				From        string `json:"from"`
				To          string `json:"to"`
				Value       string `json:"value"`
				ValidAfter  string `json:"validAfter"`
				ValidBefore string `json:"validBefore"`
				Nonce       string `json:"nonce"`
			} `json:"authorization"`
		} `json:"payload"`
	} `json:"paymentPayload"`
	PaymentRequirements struct {
		Network string `json:"network"`
		Asset   string `json:"asset"`
	} `json:"paymentRequirements"`
}

func (s *settleRequest) settlement() Settlement {
	p, a := s.PaymentPayload.Payload, s.PaymentPayload.Payload.Authorization
	return Settlement{
		Network: s.PaymentRequirements.Network, Asset: s.PaymentRequirements.Asset, Signature: p.Signature,
		From: a.From, To: a.To, Value: a.Value, ValidAfter: a.ValidAfter, ValidBefore: a.ValidBefore, Nonce: a.Nonce,
	}
}

// isProbe reports whether the body of CallVerify is that of a probe.
func isProbe(body []byte) bool {
	var request settleRequest
	return json.Unmarshal(body, &request) == nil && request.PaymentPayload.Payload.Authorization.Nonce == "0x"+strings.Repeat("0", 64)
}

// act does what a call asks and returns its answer.
func (f *Facilitator) act(call string, body []byte, reply FacilitatorReply) any {
	if call == CallSupported {
		return supportedAnswer()
	}
	var request settleRequest
	if err := json.Unmarshal(body, &request); err != nil || request.PaymentPayload.Payload.Authorization.Nonce == "" {
		// The reference facilitator throws on a payload that is not its own.
		panic(http.ErrAbortHandler)
	}
	settlement := request.settlement()
	if call == CallVerify || call == CallProbe {
		return verifyAnswer(settlement, reply)
	}
	transaction := ""
	if reply.Reason == "" && !reply.Idle {
		transaction, reply.Reason = f.settle(settlement)
	}
	if reply.Transaction != "" {
		transaction = reply.Transaction
	}
	return settleAnswer(settlement, transaction, reply)
}

// settledOn are the networks of /supported: those whose USDC is known.
var settledOn = []string{
	"base", "base-sepolia", "ethereum", "optimism", "arbitrum", "arbitrum-sepolia", "polygon", "avalanche", "celo", "sei",
}

func supportedAnswer() map[string]any {
	var kinds []map[string]any
	for _, name := range settledOn {
		network, err := offer.LookupNetwork(name)
		if err != nil {
			panic(err)
		}
		kinds = append(kinds,
			map[string]any{"x402Version": 2, "scheme": "exact", "network": network.CAIP2()},
			map[string]any{"x402Version": 1, "scheme": "exact", "network": name})
	}
	return map[string]any{"kinds": kinds, "extensions": []string{}, "signers": map[string]any{"eip155:*": []string{}}}
}

func verifyAnswer(s Settlement, reply FacilitatorReply) map[string]any {
	answer := map[string]any{"isValid": reply.Reason == "", "payer": s.From}
	if reply.Reason != "" {
		answer["invalidReason"] = reply.Reason
	}
	if reply.Message != "" {
		answer["invalidMessage"] = reply.Message
	}
	return answer
}

func settleAnswer(s Settlement, transaction string, reply FacilitatorReply) map[string]any {
	answer := map[string]any{
		"success": reply.Reason == "", "transaction": transaction, "network": s.Network, "payer": s.From,
	}
	if reply.Reason != "" {
		answer["errorReason"] = reply.Reason
	}
	if reply.Message != "" {
		answer["errorMessage"] = reply.Message
	}
	if reply.NoTransaction {
		delete(answer, "transaction")
	}
	if reply.Network != "" {
		answer["network"] = reply.Network
	}
	return answer
}

// settle broadcasts, one settlement at a time.
func (f *Facilitator) settle(s Settlement) (transaction, reason string) {
	f.broadcasting.Lock()
	defer f.broadcasting.Unlock()
	nonce := strings.ToLower(s.Nonce)
	if f.Settled(nonce) > 0 {
		return "", reasonSpent
	}
	transaction, err := f.broadcast(s)
	if err != nil {
		return "", reasonFailed
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settled[nonce]++
	return transaction, ""
}
