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

// loggingCaddyfile has a plain log beside an offer, and a handler that fails.
const loggingCaddyfile = `{
	admin off
	persist_config off
	default_bind 127.0.0.1
	pay_offer {
		ledger sqlite {DIR}/ledger.db
	}
}
http://localhost:{PORT} {
	log
	pay_offer {
		base_url http://localhost:{PORT}
		card https://checkout.example/pay {
			payment_link plink_1
			webhook_secret {env.CARD_SECRET}
		}
		usdc base-sepolia {PAYEE} {
			facilitator {FACILITATOR}
			rpc off
		}
		storefront tip-jar https://shop.example/tip {
			product product-1
			hook_secret {env.STORE_SECRET}
		}
	}
	error /fails "{uri} {header.Payment-Signature}" 500
}
`

// A signed payment can be sent by everyone who reads it. Addresses of receipts, checkout sessions and webhooks are secrets.
func TestLogHidesSecrets(t *testing.T) {
	facilitator, payee, port := payoffertest.NewFacilitator(t), chain.NewAddress(t), payoffertest.FreePort(t)
	const cardSecret, storeSecret = "whsec_c2VjcmV0IG9mIHRoZSBjYXJk", "c2VjcmV0IG9mIHRoZSBzdG9yZWZyb250"
	base := "http://localhost:" + port
	process := server.Start(t, base+"/v1/offer", strings.NewReplacer("{DIR}", t.TempDir(), "{PORT}", port, "{PAYEE}", payee.Hex(), "{FACILITATOR}", facilitator.URL()).
		Replace(loggingCaddyfile), "CARD_SECRET="+cardSecret, "STORE_SECRET="+storeSecret)
	server.Eventually(t, "the service has started", func() bool {
		return server.Ask(server.Client, http.MethodGet, base+"/v1/received", "", nil).Status == http.StatusOK &&
			server.Ask(server.Client, http.MethodGet, base+"/v1/pay/card.png", "", nil).Status == http.StatusFound
	})

	secrets := []string{cardSecret, storeSecret, "cs_sessionsecret", "cs_live_secret"}
	requests := 0 // with a secret in the request or the response
	ask := func(want int, method, path, body string, header http.Header) server.Answer {
		t.Helper()
		answer := server.Ask(server.Client, method, base+path, body, header)
		require.Equal(t, want, answer.Status, "%s %s: %s", method, path, answer.Body)
		requests++
		// Whoever has the ID of a challenge, or the token of a quote, gets the receipt of the payment that was made with it.
		secrets = slices.Concat(secrets, answer.Header.Values("WWW-Authenticate"), answer.Header.Values("PAYMENT-REQUIRED"))
		return answer
	}
	// pay sends a new payment and records its secrets.
	pay := func(want int, header string, payload func(chain.Authorization, []byte) object) server.Answer {
		t.Helper()
		key := chain.NewKey(t)
		a := chain.NewAuthorization(t, chain.Address(key), payee, price)
		var challenge mpp.Challenge
		if payload == nil { // by the Payment scheme
			unpaid := ask(http.StatusPaymentRequired, http.MethodPost, "/v1/sponsor", "", nil)
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
		return ask(want, http.MethodPost, "/v1/sponsor", "", http.Header{header: {payment}})
	}
	for _, reason := range []string{"", "insufficient_funds"} {
		facilitator.Script(payoffertest.CallVerify, payoffertest.FacilitatorReply{Reason: reason})
		want := map[bool]int{true: http.StatusOK, false: http.StatusPaymentRequired}[reason == ""]
		for _, answer := range []server.Answer{
			pay(want, "PAYMENT-SIGNATURE", chain.Authorization.Payload), pay(want, "X-PAYMENT", payloadV1), pay(want, "Authorization", nil),
		} {
			if reason != "" {
				continue
			}
			response := answer.Header.Get("PAYMENT-RESPONSE") + answer.Header.Get("X-PAYMENT-RESPONSE") + answer.Header.Get("Payment-Receipt")
			require.NotEmpty(t, response)
			secrets = append(secrets, response, readReceipt(t, answer))
			requests += 4
		}
	}
	event, header := server.CardPaid("sessionsecret", 4200, cardSecret)
	ask(http.StatusOK, http.MethodPost, "/v1/hook/card", event, header)
	ask(http.StatusOK, http.MethodGet, "/v1/thanks?lang=de&session_id=cs_sessionsecret&a=b", "", nil)
	sale, header := server.StorefrontSale("sale-1", 4200)
	ask(http.StatusOK, http.MethodPost, "/v1/hook/tip-jar/"+storeSecret, sale, header)
	ask(http.StatusMethodNotAllowed, http.MethodGet, "/v1/hook/tip-jar/"+storeSecret, "", nil)
	ask(http.StatusNotFound, http.MethodPost, "/v1/hook/none/"+storeSecret, sale, header)
	ask(http.StatusNotFound, http.MethodPost, "/v1//hook/tip-jar/"+storeSecret, sale, header)
	ask(http.StatusInternalServerError, http.MethodGet, "/fails?session_id=cs_live_secret", "", http.Header{"Payment-Authorization": {"Payment " + storeSecret}})
	ask(http.StatusPaymentRequired, http.MethodGet, "/v1/quote", "", http.Header{"Referer": {base + "/v1/hook/tip-jar/" + storeSecret}})
	process.Terminate()
	process.Await(t)

	log := process.Log()
	for _, secret := range secrets {
		require.NotContains(t, log, secret)
	}
	redacted, whole := 0, 0
	for line := range strings.Lines(log) {
		var entry struct {
			Logger, Msg string
			Request     struct{ URI string }
		}
		require.NoError(t, json.Unmarshal([]byte(line), &entry), line)
		switch {
		case entry.Msg != "handled request" || entry.Request.URI == "/v1/offer": // which is asked for until the server runs
			continue
		case strings.Contains(line, "REDACTED"):
			redacted++
			require.Equal(t, "http.log.access.pay_offer", entry.Logger, line)
		default:
			whole++
			require.Equal(t, "http.log.access", entry.Logger, line)
		}
	}
	require.Equal(t, requests, redacted, "each of them is logged once")
	require.NotZero(t, whole, "Caddy logs the others")
	for _, line := range []string{`"uri":"/v1/receipt/REDACTED"`, `"uri":"/v1/hook/REDACTED"`, `"uri":"/v1/thanks?lang=de&session_id=REDACTED"`} {
		require.Contains(t, log, line)
	}
}

// payloadV1 is a payment of x402 version 1.
func payloadV1(a chain.Authorization, signature []byte) object {
	return object{
		"x402Version": 1, "scheme": "exact", "network": "base-sepolia",
		"payload": object{"signature": hexutil.Encode(signature), "authorization": a},
	}
}

// readReceipt requests the receipt of a payment at four addresses, and returns the secret in them.
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
