package upgrade

import (
	"crypto/ecdsa"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// price is what the offer costs, 0.04 USDC in atomic units.
const price = 40_000

// send sends something to an instance once.
type send func(*instance) (answer, error)

// payment signs an x402 payment of the price, which is the same at each repetition. Its identifier says that it is a
// purchase of its own, and not another try at the one before.
func (s *shop) payment(t testing.TB, buyer *ecdsa.PrivateKey) (send, ledger.IntentKey) {
	t.Helper()
	authorization := chain.NewAuthorization(t, chain.Address(buyer), s.payee, price)
	key := ledger.IntentKey{
		Network: "eip155:" + strconv.Itoa(chain.ID), Asset: chain.USDC.Hex(), From: authorization.From.Hex(), Nonce: authorization.Nonce.Hex(),
	}
	type object = map[string]any
	data, err := json.Marshal(object{
		"x402Version": 2,
		"accepted": object{
			"scheme": "exact", "network": key.Network, "asset": key.Asset, "amount": strconv.Itoa(price),
			"payTo": s.payee.Hex(), "maxTimeoutSeconds": 300, "extra": object{"name": "USDC", "version": "2"},
		},
		"payload":    object{"signature": authorization.Sign(t, buyer), "authorization": authorization},
		"extensions": object{"payment-identifier": object{"info": object{"required": false, "id": rand.Text()}}},
	})
	assert.NoError(t, err)
	return func(i *instance) (answer, error) {
		return i.ask(http.MethodPost, i.url+"/v1/sponsor", nil, x402.HeaderSignature, base64.StdEncoding.EncodeToString(data))
	}, key
}

// event is a signed webhook of the card processor, which is the same at each repetition.
func event(kind, id, object string) send {
	created := time.Now().Unix()
	body := fmt.Appendf(nil, `{"id":"evt_%s_%s","object":"event","type":%q,"livemode":true,"created":%d,"data":{"object":%s}}`,
		strings.ReplaceAll(kind, ".", "_"), id, kind, created, object)
	return func(i *instance) (answer, error) {
		now := time.Now().Unix()
		mac := hmac.New(sha256.New, []byte(secret))
		fmt.Fprintf(mac, "%d.%s", now, body)
		return i.ask(http.MethodPost, i.url+"/v1/hook/card", body, "Content-Type", "application/json",
			"Stripe-Signature", fmt.Sprintf("t=%d,v1=%s", now, hex.EncodeToString(mac.Sum(nil))))
	}
}

// paid tells of a card payment of 42 in a currency.
func paid(id, currency string) send {
	return event("checkout.session.completed", id, fmt.Sprintf(`{"id":"cs_%s","object":"checkout.session","mode":"payment",
		"status":"complete","payment_status":"paid","amount_total":4200,"currency":%q,"livemode":true,"created":%d,
		"payment_intent":"pi_%[1]s","payment_link":"plink_1"}`, id, currency, time.Now().Unix()+1))
}

// refunded tells that a part of it went back.
func refunded(id string, amount int, currency string) send {
	return event("refund.created", id, fmt.Sprintf(`{"id":"re_%s","object":"refund","amount":%d,"currency":%q,"status":"succeeded",
		"payment_intent":"pi_%[1]s","charge":"ch_1","created":1700000000}`, id, amount, currency))
}

// entered is a bank transfer of 42 that the operator enters by hand.
func entered(reference string) send {
	return func(i *instance) (answer, error) {
		return i.ask(http.MethodPost, "http://"+i.admin+"/pay_offer/receipts",
			fmt.Appendf(nil, `{"action":"enter","offer":"upgrade","rail":"transfer","reference":%q,"amount":42,"date":"2026-11-20"}`, reference),
			"Content-Type", "application/json")
	}
}
