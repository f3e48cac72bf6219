package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/mpp"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// Whoever reads a signed payment can send it until it is spent, and read the answer that is its buyer's; the address of a
// receipt's page and the session of a checkout are their payer's alone, too.
func TestTheShippedCaddyfileLogsNoPayments(t *testing.T) {
	facilitator := payoffertest.NewFacilitator(t)
	payee := chain.NewAddress(t)
	shipped := server.StartEdited(t, []string{"usdc base-sepolia " + payee.Hex() + " {\n facilitator " + facilitator.URL() + "\n rpc off\n}"})

	var secrets []string
	// pay sends a new payment and keeps what must not be logged of it.
	pay := func(header string, payload func(chain.Authorization, []byte) object) server.Answer {
		t.Helper()
		key := chain.NewKey(t)
		a := chain.NewAuthorization(t, chain.Address(key), payee, price)
		var challenge mpp.Challenge
		if payload == nil { // by the Payment scheme
			unpaid, err := http.Post(shipped.Service+"/v1/sponsor", "", nil)
			require.NoError(t, err)
			require.NoError(t, unpaid.Body.Close())
			challenge = mpp.Challenged(t, unpaid.Header, a.Network)
			a.Nonce = challenge.Nonce()
		}
		signature := a.Sign(t, key)
		var payment string
		if payload == nil {
			payment = mpp.Authorization(t, challenge.Credential(a, hexutil.Encode(signature)))
		} else {
			payment = chain.Payment(t, payload(a, signature)).Get("Payment-Signature")
		}
		secrets = append(secrets, strings.TrimPrefix(payment, "Payment "), hexutil.Encode(signature))

		return server.Ask(server.Client, http.MethodPost, shipped.Service+"/v1/sponsor", "", http.Header{header: {payment}})
	}
	for _, reason := range []string{"", "insufficient_funds"} {
		facilitator.Script(payoffertest.CallVerify, payoffertest.FacilitatorReply{Reason: reason})
		for _, answer := range []server.Answer{pay("PAYMENT-SIGNATURE", chain.Authorization.Payload), pay("X-PAYMENT", payloadV1), pay("Authorization", nil)} {
			if reason != "" {
				require.Equal(t, http.StatusPaymentRequired, answer.Status)
				continue
			}
			require.Equal(t, http.StatusOK, answer.Status)
			response := answer.Header.Get("PAYMENT-RESPONSE") + answer.Header.Get("X-PAYMENT-RESPONSE") + answer.Header.Get("Payment-Receipt")
			require.NotEmpty(t, response)
			secrets = append(secrets, response, readReceipt(t, answer))
		}
	}
	for _, path := range []string{"/v1/receipt/cmVjZWlwdA.bWFj", "/v1/receipt/cmVjZWlwdA.bWFj?lang=de", "/v1/thanks?session_id=cs_live_secret", "/v1/thanks?lang=de&session_id=cs_live_secret&a=b"} {
		get(t, shipped.Service+path)
	}
	alien, err := http.NewRequestWithContext(t.Context(), http.MethodPost, shipped.Service+"/v1/receipt/YWxpZW4.bWFj", nil)
	require.NoError(t, err)
	alien.Host = "alien.example" // which no site is for
	alien.Header.Set("PAYMENT-SIGNATURE", "c2lnbmVkIGZvciBhbm90aGVyIGhvc3Q=")
	alien.Header.Set("Referer", shipped.Service+"/v1/receipt/YWxpZW4.bWFj")
	alien.Header.Set("Payment-Authorization", "Payment Y3JlZGVudGlhbA")
	answer, err := http.DefaultClient.Do(alien)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	secrets = append(secrets, "YWxpZW4", "c2lnbmVkIGZvciBhbm90aGVyIGhvc3Q=", "Y3JlZGVudGlhbA", "cmVjZWlwdA", "bWFj", "cs_live_secret")
	shipped.Terminate()
	shipped.Await(t)

	log := shipped.Log()
	var logged []int
	var read []string
	for line := range strings.Lines(log) {
		var entry struct {
			Logger  string
			Status  int
			Request struct {
				Method  string
				URI     string
				Headers http.Header
			}
		}
		require.NoError(t, json.Unmarshal([]byte(line), &entry), line)
		if strings.HasPrefix(entry.Logger, "http.log.access") && entry.Request.Method == http.MethodPost {
			require.Contains(t, entry.Request.Headers, "User-Agent", "other headers are logged")
			logged = append(logged, entry.Status)
		}
		if strings.HasPrefix(entry.Logger, "http.log.access") && strings.HasPrefix(entry.Request.URI, "/v1/receipt/") || strings.HasPrefix(entry.Request.URI, "/v1/thanks") {
			read = append(read, entry.Request.URI)
		}
	}
	require.Contains(t, log, `/v1/receipt/REDACTED`)
	require.ElementsMatch(t, []int{200, 200, 402, 200, 402, 402, 402, 402, 0}, logged) // each is logged after its client has the answer
	// Two addresses, four of each of three receipts, and the alien one.
	want := slices.Repeat([]string{"/v1/receipt/REDACTED"}, 2+3*4+1)
	require.ElementsMatch(t, append(want, "/v1/thanks?session_id=REDACTED", "/v1/thanks?lang=de&session_id=REDACTED"), read)
	for _, secret := range secrets {
		require.NotContains(t, log, secret)
	}
}

// payloadV1 is a payment of x402 version 1.
func payloadV1(a chain.Authorization, signature []byte) object {
	return object{
		"x402Version": 1, "scheme": "exact", "network": "base-sepolia",
		"payload": object{"signature": hexutil.Encode(signature), "authorization": a},
	}
}

// readReceipt opens the page that the answer to a payment names, and what is signed of it. It returns what in its address is
// secret.
func readReceipt(t *testing.T, answer server.Answer) string {
	t.Helper()
	var paid struct{ ReceiptURL string }
	require.NoError(t, json.Unmarshal([]byte(answer.Body), &paid))
	_, id, found := strings.Cut(paid.ReceiptURL, "/v1/receipt/")
	require.True(t, found, paid.ReceiptURL)
	for _, address := range []string{paid.ReceiptURL, paid.ReceiptURL + "?lang=de", paid.ReceiptURL + "/receipt.jws", strings.Replace(paid.ReceiptURL, "/receipt/", "/%72eceipt%2f", 1)} {
		server.Get(t, address, "")
	}
	return id
}
