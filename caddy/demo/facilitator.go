package demo

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// Error codes of the reference facilitator.
const (
	reasonNetwork  = "invalid_network"
	reasonPayload  = "invalid_payload"
	reasonPayee    = "invalid_exact_evm_recipient_mismatch"
	reasonValue    = "invalid_exact_evm_payload_authorization_value_mismatch"
	reasonEarly    = "invalid_exact_evm_payload_authorization_valid_after"
	reasonLate     = "invalid_exact_evm_payload_authorization_valid_before"
	reasonSigned   = "invalid_exact_evm_signature"
	reasonSpent    = "invalid_exact_evm_nonce_already_used"
	reasonUnfunded = "invalid_exact_evm_insufficient_balance"
)

// maxRequest bounds a request in bytes.
const maxRequest = 128 << 10

// facilitator is a fake x402 facilitator without a chain. It checks a payment as a real one
// does, treats every payer as funded, and remembers used authorizations.
type facilitator struct {
	// offer returns the offer that was started last.
	offer func() *offer.Offer
	now   func() time.Time

	mu    sync.Mutex
	spent map[[3]string]bool // network, payer and nonce
}

func newFacilitator(current func() *offer.Offer) http.Handler {
	f := &facilitator{offer: current, now: time.Now, spent: make(map[[3]string]bool)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /supported", f.supported)
	mux.HandleFunc("POST /verify", f.verify)
	mux.HandleFunc("POST /settle", f.settle)
	return mux
}

// request is the body of /verify and /settle, of both versions of x402.
type request struct {
	PaymentPayload struct {
		Payload x402.Authorized `json:"payload"`
	} `json:"paymentPayload"`
	Requirements struct {
		Network string `json:"network"`
		Asset   string `json:"asset"`
		PayTo   string `json:"payTo"`
		Amount  string `json:"amount"`
		MaxV1   string `json:"maxAmountRequired"`
	} `json:"paymentRequirements"`
}

func (f *facilitator) supported(w http.ResponseWriter, _ *http.Request) {
	kinds := []map[string]any{}
	for _, rail := range f.offer().USDC() {
		kinds = append(kinds,
			map[string]any{"x402Version": 2, "scheme": "exact", "network": rail.Network.CAIP2()},
			map[string]any{"x402Version": 1, "scheme": "exact", "network": rail.Network.Name})
	}
	answer(w, map[string]any{"kinds": kinds, "extensions": []string{}, "signers": map[string]any{}})
}

func (f *facilitator) verify(w http.ResponseWriter, r *http.Request) {
	in := read(w, r)
	f.mu.Lock()
	reason := f.refuse(in)
	f.mu.Unlock()
	said := map[string]any{"isValid": reason == "", "payer": in.PaymentPayload.Payload.Authorization.From}
	if reason != "" {
		said["invalidReason"] = reason
	}
	answer(w, said)
}

func (f *facilitator) settle(w http.ResponseWriter, r *http.Request) {
	in := read(w, r)
	f.mu.Lock()
	reason := f.refuse(in)
	if reason == "" {
		f.spent[in.movement()] = true
	}
	f.mu.Unlock()
	said := map[string]any{
		"success": reason == "", "payer": in.PaymentPayload.Payload.Authorization.From, "network": in.Requirements.Network, "transaction": "",
	}
	if reason != "" {
		said["errorReason"] = reason
	} else {
		var hash [32]byte
		rand.Read(hash[:]) // never fails
		said["transaction"] = hexutil.Encode(hash[:])
	}
	answer(w, said)
}

// refuse returns why a payment cannot be settled, or "". The caller must have locked the
// mutex.
func (f *facilitator) refuse(in *request) (reason string) {
	paid, want := in.PaymentPayload.Payload, in.Requirements
	a, now := paid.Authorization, f.now().Unix()
	network, err := offer.LookupNetwork(want.Network)
	after, errAfter := strconv.ParseInt(a.ValidAfter, 10, 64)
	before, errBefore := strconv.ParseInt(a.ValidBefore, 10, 64)
	switch {
	case err != nil || !network.Test || !strings.EqualFold(want.Asset, network.USDC):
		return reasonNetwork
	case errAfter != nil || errBefore != nil:
		return reasonPayload
	case !paid.Signs(network):
		return reasonSigned
	case !strings.EqualFold(a.To, want.PayTo):
		return reasonPayee
	case a.Value != cmp.Or(want.Amount, want.MaxV1):
		return reasonValue
	case after > now:
		return reasonEarly
	case before < now+6:
		return reasonLate
	case f.spent[in.movement()]:
		return reasonSpent
	case strings.Trim(a.Nonce, "0x") == "": // the plugin's health check
		return reasonUnfunded
	}
	return ""
}

// movement identifies an authorization, in the same way for both versions.
func (r *request) movement() [3]string {
	a := r.PaymentPayload.Payload.Authorization
	network, _ := offer.LookupNetwork(r.Requirements.Network)
	return [3]string{network.CAIP2(), strings.ToLower(a.From), strings.ToLower(a.Nonce)}
}

// read decodes a body. A malformed body gives an empty request, which is refused.
func read(w http.ResponseWriter, r *http.Request) *request {
	in := new(request)
	_ = json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(in)
	return in
}

func answer(w http.ResponseWriter, said any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(said) // the plugin may have disconnected
}
