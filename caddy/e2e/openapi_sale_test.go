package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

// sale is the shipped server on the simulated chain. Its facilitator believes the first buyer alone.
type sale struct {
	service string
	chain   *chain.Chain
	payee   common.Address
	// settle makes the transaction that the facilitator names.
	settle func() common.Hash
	// down is true while the facilitator fails.
	down atomic.Bool
}

func startSale(t *testing.T) *sale {
	t.Helper()
	s := &sale{chain: chain.Start(t), payee: chain.NewAddress(t)}
	facilitator := httptest.NewServer(s)
	t.Cleanup(facilitator.Close)
	s.service = server.StartEdited(t, []string{
		"card https://checkout.example/pay-42 {\n payment_link plink_1\n webhook_secret " + cardSecret + "\n}",
		"usdc base-sepolia " + s.payee.Hex() + " {\n facilitator " + facilitator.URL + "\n rpc " + s.chain.URL + "\n}",
		"storefront tip-jar https://tip-jar.example/42 {\n product product-1\n hook_secret " + shopSecret + "\n}",
	}).Service
	require.Eventually(t, func() bool { // the ledger and the QR key follow the first answer
		report, _, err := fetch(s.service + "/v1/received")
		image, _, imageErr := fetch(s.service + "/v1/pay/card.png")
		return err == nil && report.StatusCode == http.StatusOK && imageErr == nil && image.StatusCode == http.StatusFound
	}, 30*time.Second, 50*time.Millisecond, "the service has started")
	return s
}

// ServeHTTP is the facilitator.
func (s *sale) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		PaymentPayload struct {
			Payload struct {
				Authorization struct {
					From  common.Address
					Nonce common.Hash
				}
			}
		}
	}
	if r.Method == http.MethodPost && json.NewDecoder(r.Body).Decode(&request) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if s.down.Load() && request.PaymentPayload.Payload.Authorization.Nonce != (common.Hash{}) { // but to a probe it says no
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	payer := request.PaymentPayload.Payload.Authorization.From
	settlement := common.Hash{}
	if r.URL.Path == "/settle" {
		settlement = s.settle()
	}
	answers := map[string]object{
		"/supported": {"kinds": []object{{"x402Version": 2, "scheme": "exact", "network": "eip155:84532"}, {"x402Version": 1, "scheme": "exact", "network": "base-sepolia"}}},
		"/verify":    {"isValid": payer == chain.Address(s.chain.Buyers[0]), "invalidReason": "insufficient_funds", "payer": payer},
		"/settle":    {"success": true, "transaction": settlement, "network": "eip155:84532", "payer": payer},
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answers[r.URL.Path]) // the server may have gone
}

// buy makes every answer to a payment: settled and its receipt, in conflict, refused, without a
// facilitator, and one attempt too many.
func (s *sale) buy(t *testing.T, d *described) {
	t.Helper()
	var paid struct{ ReceiptURL string }
	pay := func(a chain.Authorization, signature hexutil.Bytes) int {
		answer, body := d.ask(t, http.MethodPost, "/v1/sponsor", "/v1/sponsor", "",
			"PAYMENT-SIGNATURE", chain.Payment(t, a.Payload(signature)).Get("PAYMENT-SIGNATURE"))
		if answer.StatusCode == http.StatusOK {
			require.NoError(t, json.Unmarshal(body, &paid))
		}
		return answer.StatusCode
	}
	good := chain.NewAuthorization(t, chain.Address(s.chain.Buyers[0]), s.payee, price)
	signature := good.Sign(t, s.chain.Buyers[0])
	s.settle = func() common.Hash { return s.chain.Transact(t, s.chain.Facilitator, good.Call(t, signature)).TxHash }
	require.Equal(t, http.StatusOK, pay(good, signature))
	require.Equal(t, http.StatusConflict, pay(good, append(hexutil.Bytes{0}, signature...)))

	another := func(buyer int) int {
		a := chain.NewAuthorization(t, chain.Address(s.chain.Buyers[buyer]), s.payee, price)
		return pay(a, a.Sign(t, s.chain.Buyers[buyer]))
	}
	s.down.Store(true)
	require.Equal(t, http.StatusServiceUnavailable, another(0))
	s.down.Store(false)
	require.Equal(t, http.StatusPaymentRequired, another(1))
	gated := func(headers ...string) int {
		answer, _ := d.ask(t, http.MethodGet, "/members/", "/members/", "", headers...)
		return answer.StatusCode
	}
	require.Equal(t, http.StatusPaymentRequired, gated("Authorization", "Payment no-credential"))
	attempts := 0
	for another(1) != http.StatusTooManyRequests {
		attempts++
		require.Less(t, attempts, 20, "nobody limits the attempts")
	}

	require.Eventually(t, func() bool {
		answer, body, err := fetch(s.service + "/v1/received")
		var report received
		return err == nil && answer.StatusCode == http.StatusOK && json.Unmarshal([]byte(body), &report) == nil && len(report.Receipts) == 2
	}, 30*time.Second, 100*time.Millisecond, "the receipts: one was delivered")
	for _, target := range []string{"/v1/received", "/v1/received?after=0"} {
		d.ask(t, http.MethodGet, "/v1/received", target, "")
	}
	a := chain.NewAuthorization(t, chain.Address(s.chain.Buyers[1]), s.payee, price)
	require.Equal(t, http.StatusTooManyRequests, gated("PAYMENT-SIGNATURE", chain.Payment(t, a.Payload(a.Sign(t, s.chain.Buyers[1]))).Get("PAYMENT-SIGNATURE")))
	receipt := strings.TrimPrefix(paid.ReceiptURL, s.service)
	entered, _ := d.ask(t, http.MethodGet, "/v1/receipt/{id}/enter", receipt+"/enter", "")
	require.Equal(t, http.StatusFound, entered.StatusCode)
	link := lab.Must(http.NewRequest(http.MethodGet, entered.Header.Get("Location"), nil))(t)
	answer := lab.Must(http.DefaultTransport.RoundTrip(link))(t)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, gated("Cookie", answer.Header.Get("Set-Cookie")))
	ended, _ := d.ask(t, http.MethodPost, "/v1/receipt/{id}/sign-out", receipt+"/sign-out", "")
	require.Equal(t, http.StatusFound, ended.StatusCode)
	for _, file := range []string{"", "/receipt.jws"} {
		for _, accept := range []string{typeAny, typeHTML} {
			answer, _ := d.ask(t, http.MethodGet, "/v1/receipt/{id}"+file, receipt+file, "", "Accept", accept)
			require.Equal(t, http.StatusOK, answer.StatusCode)
		}
	}
}
